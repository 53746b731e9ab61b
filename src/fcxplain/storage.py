"""Files and folders on this machine or at any fsspec address (s3://, gs://, memory://)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

from .errors import DataError, Fault, also
from .files import replacing

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

# Extensions of files of rows in a folder; names that begin with a dot or an underscore are skipped.
TABLES = (".parquet", ".pq", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
_GLOB = re.compile(r"[*?\[]")
_PROTOCOL = re.compile(r"^([a-z][a-z0-9+.-]+(?:::[a-z][a-z0-9+.-]+)*)://", re.IGNORECASE)


def is_address(name: str | Path) -> bool:
    """Whether this is an address that needs fsspec."""
    return isinstance(name, str) and _PROTOCOL.match(name) is not None and not name.lower().startswith("file://")


@dataclass(frozen=True)
class Place:
    """A file or a folder; `address` is its name for people, `path` its name in the file system."""

    address: str
    path: str
    system: FileSystem
    remote: Any = None
    """fsspec's file system, if it is not on this machine."""

    @classmethod
    def of(cls, address: str | Path) -> Place:
        """The place at an address, whether or not anything exists there."""
        from pyarrow.fs import FSSpecHandler, LocalFileSystem, PyFileSystem

        if not is_address(address):
            text = re.sub(r"^file://", "", str(address), flags=re.IGNORECASE)
            return cls(text, str(Path(text).expanduser().absolute()), LocalFileSystem())
        remote, path = _remote(str(address))
        return cls(str(address).rstrip("/"), path.rstrip("/"), PyFileSystem(FSSpecHandler(remote)), remote)

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, name: str) -> Place:
        return Place(f"{self.address.rstrip('/')}/{name}", f"{self.path}/{name}", self.system, self.remote)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2] if self.remote is not None else Path(self.path).name

    @property
    def local(self) -> Path | None:
        """The path, if it is on this machine."""
        return Path(self.path) if self.remote is None else None

    @property
    def given(self) -> Path | str:
        """For messages and results: a path on this machine, else the address."""
        return Path(self.address) if self.remote is None else self.address

    @property
    def whole(self) -> str:
        """A name that is valid in other processes: an absolute path on this machine, else the address."""
        return self.path if self.remote is None else self.address

    def info(self) -> FileInfo:
        """Information from the file system: `is_file`, `size`, ..."""
        return self.system.get_file_info(self.path)

    @property
    def is_file(self) -> bool:
        """Whether there is a file."""
        return bool(self.info().is_file)

    @property
    def is_folder(self) -> bool:
        """Whether there is a folder."""
        from pyarrow.fs import FileType

        return bool(self.info().type == FileType.Directory)

    def identity(self) -> list[Any]:
        """Data that changes when the file does, without reading it."""
        if self.remote is not None:
            return [self.address, str(self.remote.ukey(self.path))]
        info = self.info()
        return [self.path, info.size, info.mtime_ns]

    def content(self) -> list[Place]:
        """The entries of a folder, ordered by name."""
        from pyarrow.fs import FileSelector

        found = self.system.get_file_info(FileSelector(self.path, allow_not_found=True))
        return sorted((self / info.base_name for info in found), key=lambda place: place.path)

    def read(self) -> bytes:
        """All bytes of a file."""
        with self.system.open_input_stream(self.path) as stream:
            return bytes(stream.read())

    def write(self, content: bytes) -> None:
        """Write a file completely or not at all."""
        with self.writing() as stream:
            stream.write(content)

    @contextmanager
    def writing(self) -> Iterator[IO[bytes]]:
        """A stream to write to, which becomes the file on success."""
        if self.remote is None:
            with replacing(self.path) as temporary, temporary.open("wb") as file:
                yield file
            return
        temporary_path = f"{self.path.rpartition('/')[0]}/.{self.name}.{uuid4().hex}"
        try:
            with self.remote.open(temporary_path, "wb") as file:
                yield file
            self.remote.mv(temporary_path, self.path)
        except BaseException:
            if self.remote.exists(temporary_path):
                self.remote.rm_file(temporary_path)
            raise

    def make_folder(self) -> None:
        """Create a folder in an existing one, unless it exists."""
        if self.remote is None:
            Path(self.path).mkdir(exist_ok=True)
        else:
            self.system.create_dir(self.path, recursive=True)

    def remove(self) -> None:
        """Remove a file or an empty folder."""
        if self.is_folder:
            Path(self.path).rmdir() if self.remote is None else self.system.delete_dir(self.path)
        else:
            self.system.delete_file(self.path)

    def on_this_machine(self) -> Path:
        """A local file with the same content; for a remote one a temporary copy."""
        if self.remote is None:
            return Path(self.path)
        import fsspec

        return Path(fsspec.open_local(f"simplecache::{self.address}"))


def is_several(source: str | Path) -> bool:
    """Whether this is a folder, a glob or an address, rather than one local file."""
    if is_address(source):
        return True
    place = Place.of(source)
    return place.is_folder or (not place.is_file and _GLOB.search(str(source)) is not None)


def table_files(source: str | Path) -> list[Place]:
    """The files of a file name, a folder or a glob, in natural order (part-2 before part-10)."""
    whole = Place.of(source)
    if whole.is_file:
        return [whole]
    if whole.is_folder:
        found = [place for place in _below(whole) if place.path.lower().endswith(TABLES)]
        if not found:
            remedy = f"Give a folder with {', '.join(TABLES)} files."
            raise also(DataError, FileNotFoundError)("", [Fault(str(source), "is a folder without tables", remedy)])
    else:
        found = _matching(whole) if _GLOB.search(whole.path) else []
        if not found:
            raise also(DataError, FileNotFoundError)(f"there is no file {source}")
    return sorted(found, key=_natural)


def _below(folder: Place) -> Iterator[Place]:
    for place in folder.content():
        if not place.name.startswith((".", "_")):
            if place.is_folder:
                yield from _below(place)
            else:
                yield place


def _matching(pattern: Place) -> list[Place]:
    if pattern.remote is not None:
        protocol = pattern.address.partition("://")[0]
        return [Place.of(f"{protocol}://{path.lstrip('/')}") for path in pattern.remote.glob(pattern.path)]
    import glob

    # As written by the user, so that messages name the files the same way.
    paths = glob.glob(str(Path(pattern.address).expanduser()), recursive=True)
    return [place for place in map(Place.of, paths) if place.is_file]


def _natural(place: Place) -> list[Any]:
    """A sort key with part-2 before part-10; text and numbers alternate, so that they are never compared."""
    parts = re.split(r"(\d+)", place.path)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)]


def _remote(address: str) -> tuple[Any, str]:
    remedy = "pip install 'fcxplain[dask]'"
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise DataError("", [Fault(address, "is an address that needs fsspec", f"{remedy}.")]) from error
    try:
        found: tuple[Any, str] = url_to_fs(address)
    except (ImportError, ValueError) as error:
        # fsspec itself names the package that a protocol needs.
        raise DataError("", [Fault(address, f"cannot be reached ({error})", "Check the address.")]) from error
    return found
