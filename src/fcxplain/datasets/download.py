"""The raw file of a data set: from the package, the user's folder, the cache or its origin, verified by checksum."""

from __future__ import annotations

import gzip
import hashlib
import importlib.resources
import logging
import lzma
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol

from ..errors import DataError, Fault
from ..progress import OnProgress, Progress, no_progress
from .base import RawFile

logger = logging.getLogger(__name__)

TIMEOUT = 30.0
CHUNK = 2**20
# The most that one download may take on disk, including everything unpacked from it.
ALLOWANCE = 2**30
# Minimum cost of an archive entry, so that a million empty ones are refused too.
ENTRY = 2**12
MAX_DEPTH = 4

_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError)
# An encrypted member, or one compressed in a way that zipfile does not know.
_UNREADABLE = (RuntimeError, NotImplementedError)


class Readable(Protocol):
    """An open file, a member of an archive, or an answer."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""


class Allowance:
    """How many bytes may still be written."""

    def __init__(self, total: int) -> None:
        self.left = total

    def spend(self, count: int) -> None:
        """Take `count` bytes off, or refuse."""
        self.left -= count
        if self.left < 0:
            raise DataError("unpacks to more than it should; refused")


class _Answer:
    """The file that pooch writes to; it reports progress and refuses oversized downloads."""

    def __init__(self, address: str, file: IO[bytes], allowance: Allowance, on_progress: OnProgress) -> None:
        self.stage, self.file, self.allowance, self.on_progress = f"downloading {address}", file, allowance, on_progress
        self.total = 0

    def write(self, chunk: bytes) -> None:
        """Some more bytes."""
        self.allowance.spend(len(chunk))
        self.file.write(chunk)
        self.on_progress(Progress(self.stage, self.file.tell(), self.total or None))

    def ignore(self, *_: object) -> None:
        """Progress bar methods of pooch; `write` reports progress instead."""

    flush = update = reset = close = ignore


def fetch(wanted: RawFile, cache: Path, on_progress: OnProgress = no_progress) -> Path:
    """Download the file into the cache folder; the error has a fault for each address that failed."""
    faults = []
    for address in wanted.addresses:
        try:
            return _fetch_from(address, wanted, cache, on_progress)
        except DataError as error:
            faults.append(Fault(address, error.message))
    raise DataError(f"{wanted.name} cannot be downloaded", faults)


def _fetch_from(address: str, wanted: RawFile, cache: Path, on_progress: OnProgress) -> Path:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".download-", ignore_cleanup_errors=True) as name:
            folder, allowance = Path(name), Allowance(ALLOWANCE)
            answer = _download(address, folder / "answer", allowance, on_progress)
            found = _search(answer, wanted, folder, allowance, 0)
            if found is None:
                raise DataError(f"the download contains no file with sha256 {wanted.sha256}")
            target = cache / wanted.name
            os.replace(found, target)
            return target
    except _DAMAGED as error:
        raise DataError(f"{type(error).__name__}: {error}") from error
    except _UNREADABLE as error:
        raise DataError(f"cannot be unpacked: {error}") from error


def _download(address: str, path: Path, allowance: Allowance, on_progress: OnProgress) -> Path:
    # Not needed for local files.
    import pooch

    logger.info("downloading %s", address)
    with path.open("wb") as file:
        answer = _Answer(address, file, allowance, on_progress)
        settings: dict[str, Any] = {"timeout": TIMEOUT, "headers": {"User-Agent": "fcxplain"}}
        try:
            pooch.HTTPDownloader(progressbar=answer, chunk_size=CHUNK, **settings)(address, answer, None)
        except OSError as error:
            # The length is known once the download has started.
            if answer.total:
                raise DataError(f"broke off ({error})") from error
            raise
        logger.info("downloaded %s bytes from %s", f"{file.tell():,}", address)
    return path


def _search(path: Path, wanted: RawFile, folder: Path, allowance: Allowance, depth: int) -> Path | None:
    """The file itself, or the first one inside it (however deep) that has the expected checksum."""
    if path.stat().st_size == wanted.size and _sha256(path) == wanted.sha256:
        return path
    if depth == MAX_DEPTH:
        return None
    for member in _members(path):
        allowance.spend(ENTRY)
        handle, name = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as out:
            while chunk := member.read(CHUNK):
                allowance.spend(len(chunk))
                out.write(chunk)
        found = _search(Path(name), wanted, folder, allowance, depth + 1)
        if found is not None:
            return found
        Path(name).unlink()
    return None


def _members(path: Path) -> Iterator[Readable]:
    """The members of an archive as open files; none if it is not an archive."""
    with path.open("rb") as file:
        start = file.read(2)
    if start == b"\x1f\x8b":
        with gzip.open(path, "rb") as whole:
            yield whole
    elif start == b"PK":
        yield from _zip_members(path)
    elif tarfile.is_tarfile(path):
        yield from _tar_members(path)


def _zip_members(path: Path) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if not entry.is_dir():
                with archive.open(entry) as member:
                    yield member


def _tar_members(path: Path) -> Iterator[IO[bytes]]:
    with tarfile.open(path, "r:") as archive:
        for entry in archive:
            member = archive.extractfile(entry) if entry.isreg() else None
            if member is not None:
                yield member


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


GZIP = b"\x1f\x8b"


def raw_bytes(raw: RawFile, folder: str | Path | None = None, on_progress: OnProgress = no_progress) -> bytes:
    """The file's bytes, uncompressed and checked.

    Searched for in `folder` (or `FCXPLAIN_DATA`), then in the cache folder, then downloaded.
    """
    if raw.packaged:
        return _packaged(raw)
    given = given_folder(folder)
    own = [] if given is None else _places(raw, given)
    return _user_bytes(raw, own[0]) if own else _cached_bytes(raw, given, on_progress)


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
        remedy = f"It was left unchanged. Replace it: {raw.by_hand}"
        raise DataError("a data file was altered", [Fault(str(path), problem, remedy)])
    return data


def _cached_bytes(raw: RawFile, given: Path | None, on_progress: OnProgress) -> bytes:
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
        path = fetch(raw, cache, on_progress)
    except DataError as error:
        raise _absent(raw, given, cache, [*trouble, *error.faults]) from error
    data, found = _read_path(path, raw)
    if data is None:
        raise DataError(f"{path} changed while it was read ({found}); try again")
    return data


def _absent(raw: RawFile, given: Path | None, cache: Path, trouble: list[Fault]) -> DataError:
    folder = cache if given is None else given
    place = "FCXPLAIN_DATA is not set" if given is None else f"not in {given}"
    wanted = f"is not available ({place}, not in {cache})"
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
        # One byte more than expected shows that a file is too long, however large it would unpack.
        data = stream.read(raw.size + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        return None, f"a damaged gzip file ({error})"
    if len(data) > raw.size:
        return None, f"more than {raw.size:,} bytes"
    found = hashlib.sha256(data).hexdigest()
    return (data if found == raw.sha256 else None), found


def whereabouts(raw: RawFile, folder: str | Path | None = None) -> str | None:
    """Where the file is ("in the package", or a path, not verified yet), or None if it must be downloaded."""
    if raw.packaged:
        return "in the package"
    given = given_folder(folder)
    folders = [cache_folder()] if given is None else [given, cache_folder()]
    found = [place for f in folders for place in _places(raw, f)]
    return str(found[0]) if found else None
