"""Finding a data set's raw file: in the package, the user's folder, the cache, or at its original address.

Whatever the place, only bytes with the expected sha256 are handed out. A file in the user's folder is never
changed; a damaged one in the cache is ours, so it is removed and fetched again.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.resources
import logging
import os
import zlib
from pathlib import Path
from typing import IO

from ..errors import DataError, Fault
from .base import RawFile
from .download import fetch

logger = logging.getLogger(__name__)

GZIP = b"\x1f\x8b"


def raw_bytes(raw: RawFile, folder: str | Path | None = None) -> bytes:
    """The file's bytes, uncompressed and checked.

    Looked for in `folder` (or the environment's `FCXPLAIN_DATA`), then in the cache folder, then downloaded.
    """
    if raw.packaged:
        return _packaged(raw)
    given = given_folder(folder)
    own = [] if given is None else _places(raw, given)
    return _user_bytes(raw, own[0]) if own else _cached_bytes(raw, given)


def given_folder(folder: str | Path | None) -> Path | None:
    """The folder the user named, in the call or as `FCXPLAIN_DATA`, or None."""
    origin = "the folder given" if folder is not None else "FCXPLAIN_DATA"
    chosen = folder if folder is not None else os.environ.get("FCXPLAIN_DATA") or None
    if chosen is None:
        return None
    path = Path(chosen).expanduser()
    if not path.is_dir():
        raise DataError(f"{origin} is {str(chosen)!r}, which is not a folder")
    return path


def cache_folder() -> Path:
    """Where downloads are kept: `FCXPLAIN_CACHE`, or `fcxplain` in the user's cache folder."""
    own = os.environ.get("FCXPLAIN_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "fcxplain"


def _packaged(raw: RawFile) -> bytes:
    resource = importlib.resources.files("fcxplain.datasets") / f"{raw.name}.gz"
    with resource.open("rb") as file:
        data, found = _read(file, raw)
    if data is None:
        raise DataError(f"{raw.name}.gz in the fcxplain package is damaged ({found}); reinstall fcxplain")
    return data


def _places(raw: RawFile, folder: Path) -> list[Path]:
    return [p for p in (folder / raw.name, folder / f"{raw.name}.gz") if p.is_file()]


def _user_bytes(raw: RawFile, path: Path) -> bytes:
    data, found = _read_path(path, raw)
    if data is None:
        problem = f"is not the published file: expected sha256 {raw.sha256}, found {found}"
        remedy = f"It was left as it is. Replace it: {raw.by_hand}"
        raise DataError("a data file was altered", [Fault(str(path), problem, remedy)])
    return data


def _cached_bytes(raw: RawFile, given: Path | None) -> bytes:
    cache = cache_folder()
    trouble = []
    for path in _places(raw, cache):
        data, found = _read_path(path, raw)
        if data is not None:
            return data
        logger.warning("removing %s from the cache: expected sha256 %s, found %s", path, raw.sha256, found)
        _remove(path)
        trouble.append(Fault(str(path), f"was altered ({found}) and has been removed"))
    try:
        path = fetch(raw, cache)
    except DataError as error:
        raise _absent(raw, given, cache, [*trouble, *error.faults]) from error
    data, found = _read_path(path, raw)
    if data is None:
        raise DataError(f"{path} changed while it was read ({found}); try again")
    return data


def _absent(raw: RawFile, given: Path | None, cache: Path, trouble: list[Fault]) -> DataError:
    folder = cache if given is None else given
    place = "FCXPLAIN_DATA is not set" if given is None else f"not in {given}"
    wanted = f"is not at hand ({place}, not in {cache})"
    remedy = (
        f"{raw.by_hand} Put it in {folder}, as {raw.name} or {raw.name}.gz"
        + (", or name the folder that holds it in FCXPLAIN_DATA." if given is None else ".")
        + f" Its sha256, uncompressed, is {raw.sha256}."
    )
    return DataError("a data file is missing", [Fault(raw.name, wanted, remedy), *trouble])


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        raise DataError(f"{path} is damaged and cannot be removed: {error}") from error


def _read_path(path: Path, raw: RawFile) -> tuple[bytes | None, str]:
    try:
        with path.open("rb") as file:
            return _read(file, raw)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}") from error


def _read(file: IO[bytes], raw: RawFile) -> tuple[bytes | None, str]:
    """The uncompressed bytes if they are the right ones, else None; and what was found."""
    compressed = file.read(2) == GZIP
    file.seek(0)
    stream = gzip.GzipFile(fileobj=file) if compressed else file
    try:
        # One byte more than expected is enough to see that a file is too long, however far it would unpack.
        data = stream.read(raw.size + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        return None, f"a damaged gzip file ({error})"
    if len(data) > raw.size:
        return None, f"more than {raw.size:,} bytes"
    found = hashlib.sha256(data).hexdigest()
    return (data if found == raw.sha256 else None), found


def whereabouts(raw: RawFile, folder: str | Path | None = None) -> str | None:
    """Where the file lies ("in the package", or a path, not checked yet), or None if it must be fetched."""
    if raw.packaged:
        return "in the package"
    given = given_folder(folder)
    folders = [cache_folder()] if given is None else [given, cache_folder()]
    found = [place for f in folders for place in _places(raw, f)]
    return str(found[0]) if found else None
