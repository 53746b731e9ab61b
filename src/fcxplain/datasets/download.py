"""The raw file of a data set: from the package, the user's folder, the cache or its origin, verified by checksum."""

from __future__ import annotations

import gzip
import hashlib
import importlib.resources
import io
import logging
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import IO, Any

from ..errors import DataError, Fault
from ..files import write_whole
from ..progress import OnProgress, Progress, no_progress
from .base import RawFile

logger = logging.getLogger(__name__)

TIMEOUT = 30.0
CHUNK = 2**20
# The most that one download may take in memory, including everything unpacked from it.
ALLOWANCE = 2**30
# Minimum cost of an archive entry, so that a million empty ones are refused too.
ENTRY = 2**12
MAX_DEPTH = 4
GZIP = b"\x1f\x8b"

_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError)
# An encrypted member, or one compressed in a way that zipfile does not know.
_UNREADABLE = (RuntimeError, NotImplementedError)


def raw_bytes(raw: RawFile, folder: str | Path | None = None, on_progress: OnProgress = no_progress) -> bytes:
    """The file's bytes, uncompressed and checked.

    Searched for in `folder` (or `FCXPLAIN_DATA`), then in the cache folder, then downloaded.
    """
    if raw.packaged:
        data, found = _read(importlib.resources.files("fcxplain.datasets") / f"{raw.name}.gz", raw)
        if data is None:
            raise DataError(f"{raw.name}.gz in the fcxplain package is damaged ({found}); reinstall fcxplain")
        return data
    given = given_folder(folder)
    own = [] if given is None else _places(raw, given)
    if not own:
        return _cached_bytes(raw, given, on_progress)
    data, found = _read(own[0], raw)
    if data is None:
        problem = f"is not the published file: expected sha256 {raw.sha256}, found {found}"
        remedy = f"It was left unchanged. Replace it: {raw.by_hand}"
        raise DataError("a data file was altered", [Fault(str(own[0]), problem, remedy)])
    return data


def whereabouts(raw: RawFile) -> str | None:
    """Where the file is ("in the package", or a path, not verified yet), or None if it must be downloaded."""
    if raw.packaged:
        return "in the package"
    given = given_folder(None)
    folders = [cache_folder()] if given is None else [given, cache_folder()]
    return next((str(place) for folder in folders for place in _places(raw, folder)), None)


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


def _places(raw: RawFile, folder: Path) -> list[Path]:
    return [p for p in (folder / raw.name, folder / f"{raw.name}.gz") if p.is_file()]


def _read(path: Path | Traversable, raw: RawFile) -> tuple[bytes | None, str]:
    """The uncompressed bytes of a file if they are the right ones, else None; and what was found."""
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == GZIP
            file.seek(0)
            # One byte more than expected shows that a file is too long, however large it would unpack.
            data = (gzip.GzipFile(fileobj=file) if is_packed else file).read(raw.size + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        return None, f"a damaged gzip file ({error})"
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}") from error
    if len(data) > raw.size:
        return None, f"more than {raw.size:,} bytes"
    found = hashlib.sha256(data).hexdigest()
    return (data if found == raw.sha256 else None), found


def _cached_bytes(raw: RawFile, given: Path | None, on_progress: OnProgress) -> bytes:
    cache, trouble = cache_folder(), []
    for path in _places(raw, cache):
        data, found = _read(path, raw)
        if data is not None:
            return data
        logger.warning("removing %s from the cache: expected sha256 %s, found %s", path, raw.sha256, found)
        try:
            path.unlink()
        except OSError as error:
            raise DataError(f"{path} is damaged and cannot be removed: {error}") from error
        trouble.append(Fault(str(path), f"was altered ({found}) and has been removed"))
    for address in raw.addresses:
        try:
            return _fetched(address, raw, cache, on_progress)
        except DataError as error:
            trouble.append(Fault(address, error.message))
    place = "FCXPLAIN_DATA is not set" if given is None else f"not in {given}"
    remedy = (
        f"{raw.by_hand} Put it in {given or cache}, as {raw.name} or {raw.name}.gz"
        + (", or name the folder that holds it in FCXPLAIN_DATA." if given is None else ".")
        + f" Its sha256, uncompressed, is {raw.sha256}."
    )
    wanted = Fault(raw.name, f"is not available ({place}, not in {cache})", remedy)
    raise DataError("a data file is missing", [wanted, *trouble])


class Allowance:
    """How many bytes may still be taken."""

    def __init__(self, total: int) -> None:
        self.left = total

    def spend(self, count: int) -> None:
        """Take `count` bytes off, or refuse."""
        self.left -= count
        if self.left < 0:
            raise DataError("unpacks to more than it should; refused")


def _fetched(address: str, wanted: RawFile, cache: Path, on_progress: OnProgress) -> bytes:
    """The file, downloaded and kept in the cache folder."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        allowance = Allowance(ALLOWANCE)
        found = _inside(_downloaded(address, allowance, on_progress), wanted, allowance)
        if found is None:
            raise DataError(f"the download contains no file with sha256 {wanted.sha256}")
        write_whole(cache / wanted.name, found)
        return found
    except _DAMAGED as error:
        raise DataError(f"{type(error).__name__}: {error}") from error
    except _UNREADABLE as error:
        raise DataError(f"cannot be unpacked: {error}") from error


class _Answer:
    """What pooch writes to; it reports progress and refuses oversized downloads."""

    def __init__(self, address: str, allowance: Allowance, on_progress: OnProgress) -> None:
        self.stage, self.allowance, self.on_progress = f"downloading {address}", allowance, on_progress
        self.data, self.total = bytearray(), 0

    def write(self, chunk: bytes) -> None:
        """Some more bytes."""
        self.allowance.spend(len(chunk))
        self.data += chunk
        self.on_progress(Progress(self.stage, len(self.data), self.total or None))

    def ignore(self, *_: object) -> None:
        """Progress bar methods of pooch; `write` reports progress instead."""

    flush = update = reset = close = ignore


def _downloaded(address: str, allowance: Allowance, on_progress: OnProgress) -> bytes:
    # Not needed for local files.
    import pooch

    logger.info("downloading %s", address)
    answer = _Answer(address, allowance, on_progress)
    settings: dict[str, Any] = {"timeout": TIMEOUT, "headers": {"User-Agent": "fcxplain"}}
    try:
        pooch.HTTPDownloader(progressbar=answer, chunk_size=CHUNK, **settings)(address, answer, None)
    except OSError as error:
        # The length is known once the download has started.
        if answer.total:
            raise DataError(f"broke off ({error})") from error
        raise
    logger.info("downloaded %s bytes from %s", f"{len(answer.data):,}", address)
    return bytes(answer.data)


def _inside(data: bytes, wanted: RawFile, allowance: Allowance, depth: int = 0) -> bytes | None:
    """The data itself, or the first file inside it (however deep) that has the expected checksum."""
    if len(data) == wanted.size and hashlib.sha256(data).hexdigest() == wanted.sha256:
        return data
    for member in _members(data) if depth < MAX_DEPTH else ():
        allowance.spend(ENTRY)
        content = bytearray()
        while chunk := member.read(CHUNK):
            allowance.spend(len(chunk))
            content += chunk
        found = _inside(bytes(content), wanted, allowance, depth + 1)
        if found is not None:
            return found
    return None


def _members(data: bytes) -> Iterator[io.BufferedIOBase | IO[bytes]]:
    """The members of an archive as open files; none if it is not an archive."""
    if data[:2] == GZIP:
        with gzip.open(io.BytesIO(data)) as whole:
            yield whole
    elif data[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield from (archive.open(entry) for entry in archive.infolist() if not entry.is_dir())
    elif tarfile.is_tarfile(io.BytesIO(data)):
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as files:
            yield from filter(None, (files.extractfile(entry) for entry in files if entry.isreg()))
