"""Downloading one file, or the archive that holds it, so that only the right bytes are ever kept.

Everything happens in a temporary folder inside the cache. The file with the expected sha256 is looked for in
what came (a zip, tar or gzip, also one inside another) and renamed into place; the rest is thrown away.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import logging
import lzma
import os
import tarfile
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

from ..errors import DataError, Fault
from .base import RawFile

logger = logging.getLogger(__name__)

TIMEOUT = 30.0
CHUNK = 2**20
# What one download may come to on disk, with all that is unpacked from it.
ALLOWANCE = 2**30
# An entry costs at least this much, so that a million empty ones end too.
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


def fetch(wanted: RawFile, cache: Path) -> Path:
    """Download the file into the cache folder; the error has a fault for each address that failed."""
    faults = []
    for address in wanted.addresses:
        try:
            return _fetch_from(address, wanted, cache)
        except DataError as error:
            faults.append(Fault(address, error.message))
    raise DataError(f"{wanted.name} cannot be downloaded", faults)


def _fetch_from(address: str, wanted: RawFile, cache: Path) -> Path:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".download-", ignore_cleanup_errors=True) as name:
            folder, allowance = Path(name), Allowance(ALLOWANCE)
            answer = _download(address, folder / "answer", allowance)
            found = _search(answer, wanted, folder, allowance, 0)
            if found is None:
                raise DataError(f"what came holds no file with sha256 {wanted.sha256}")
            target = cache / wanted.name
            os.replace(found, target)
            return target
    except _DAMAGED as error:
        raise DataError(f"{type(error).__name__}: {error}") from error
    except _UNREADABLE as error:
        raise DataError(f"cannot be unpacked: {error}") from error


def _download(address: str, path: Path, allowance: Allowance) -> Path:
    logger.info("downloading %s", address)
    request = urllib.request.Request(address, headers={"User-Agent": "fcxplain"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer, path.open("wb") as out:
            length = int(answer.headers.get("Content-Length") or -1)
            came = _copy(answer, out, allowance, length)
    except (http.client.HTTPException, ValueError) as error:
        raise DataError(f"bad answer: {type(error).__name__}: {error}") from error
    if length not in (-1, came):
        raise DataError(f"broke off after {came:,} of {length:,} bytes")
    logger.info("downloaded %s bytes from %s", f"{came:,}", address)
    return path


def _copy(source: Readable, out: IO[bytes], allowance: Allowance, length: int = -1) -> int:
    """Copy to the end, within the allowance, logging every tenth of a known length."""
    done, told = 0, 0
    while chunk := source.read(CHUNK):
        allowance.spend(len(chunk))
        out.write(chunk)
        done += len(chunk)
        if length > 0 and 10 * done // length > told:
            told = 10 * done // length
            logger.info("%d %% of %s bytes", 10 * told, f"{length:,}")
    return done


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
            _copy(member, out, allowance)
        found = _search(Path(name), wanted, folder, allowance, depth + 1)
        if found is not None:
            return found
        Path(name).unlink()
    return None


def _members(path: Path) -> Iterator[Readable]:
    """What an archive holds, as open files; nothing for a file that is no archive."""
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
