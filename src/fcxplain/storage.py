"""Files and folders wherever they lie: on this machine, or at any address that fsspec knows (s3://, gs://, memory://)."""

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

# Files of rows in a folder, by their names; what begins with a dot or an underscore is some program's own.
TABLES = (".parquet", ".pq", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
_GLOB = re.compile(r"[*?\[]")
_PROTOCOL = re.compile(r"^([a-z][a-z0-9+.-]+(?:::[a-z][a-z0-9+.-]+)*)://", re.IGNORECASE)


def is_address(name: str | Path) -> bool:
    """Whether this names something that only fsspec can reach."""
    return isinstance(name, str) and _PROTOCOL.match(name) is not None and not name.lower().startswith("file://")


@dataclass(frozen=True)
class Place:
    """A file or a folder; `address` is what people call it, `path` what its system does."""

    address: str
    path: str
    system: FileSystem
    remote: Any = None
    """fsspec's own file system, for what is not on this machine."""

    @classmethod
    def of(cls, address: str | Path) -> Place:
        """The place of an address, whether or not there is anything."""
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
        """The path on this machine, if it is there."""
        return Path(self.path) if self.remote is None else None

    @property
    def given(self) -> Path | str:
        """As a person would pass it on: a path on this machine, else the address."""
        return Path(self.address) if self.remote is None else self.address

    @property
    def whole(self) -> str:
        """What means the same in another process: a whole path on this machine, else the address."""
        return self.path if self.remote is None else self.address

    def info(self) -> FileInfo:
        """What the system says of it: `is_file`, `size`, ..."""
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
        """What tells a file from a changed one, without reading it."""
        if self.remote is not None:
            return [self.address, str(self.remote.ukey(self.path))]
        info = self.info()
        return [self.path, info.size, info.mtime_ns]

    def content(self) -> list[Place]:
        """What lies in a folder, in the order of names."""
        from pyarrow.fs import FileSelector

        found = self.system.get_file_info(FileSelector(self.path, allow_not_found=True))
        return sorted((self / info.base_name for info in found), key=lambda place: place.path)

    def read(self) -> bytes:
        """All bytes of a file."""
        with self.system.open_input_stream(self.path) as stream:
            return bytes(stream.read())

    def write(self, content: bytes) -> None:
        """Write a file whole or not at all."""
        with self.writing() as stream:
            stream.write(content)

    @contextmanager
    def writing(self) -> Iterator[IO[bytes]]:
        """A stream to write to, which becomes the file if all goes well."""
        if self.remote is None:
            with replacing(self.path) as temporary, temporary.open("wb") as file:
                yield file
            return
        beside = f"{self.path.rpartition('/')[0]}/.{self.name}.{uuid4().hex}"
        try:
            with self.remote.open(beside, "wb") as file:
                yield file
            self.remote.mv(beside, self.path)
        except BaseException:
            if self.remote.exists(beside):
                self.remote.rm_file(beside)
            raise

    def make_folder(self) -> None:
        """Make a folder whose parent is there; one that is there already is left as it is."""
        if self.remote is None:
            Path(self.path).mkdir(exist_ok=True)
        else:
            self.system.create_dir(self.path, recursive=True)

    def remove(self) -> None:
        """Remove a file, or a folder that is empty."""
        if self.is_folder:
            Path(self.path).rmdir() if self.remote is None else self.system.delete_dir(self.path)
        else:
            self.system.delete_file(self.path)

    def on_this_machine(self) -> Path:
        """A file here with the same content; of a remote one a copy that lasts as long as the process."""
        if self.remote is None:
            return Path(self.path)
        import fsspec

        return Path(fsspec.open_local(f"simplecache::{self.address}"))


def is_several(source: str | Path) -> bool:
    """Whether this names more than one file, or one that is not on this machine: a folder, a glob or an address."""
    if is_address(source):
        return True
    place = Place.of(source)
    return place.is_folder or (not place.is_file and _GLOB.search(str(source)) is not None)


def table_files(source: str | Path) -> list[Place]:
    """The files that a name means (a file, a folder, a glob), numbers in their names counted as numbers."""
    whole = Place.of(source)
    if whole.is_file:
        return [whole]
    if whole.is_folder:
        found = [place for place in _below(whole) if place.path.lower().endswith(TABLES)]
        if not found:
            remedy = f"Name a folder with files that end in {', '.join(TABLES)}."
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

    # As it was written, so that messages and labels of files name them so.
    paths = glob.glob(str(Path(pattern.address).expanduser()), recursive=True)
    return [place for place in map(Place.of, paths) if place.is_file]


def _natural(place: Place) -> list[Any]:
    """What sorts part-2 before part-10; texts and numbers take turns, so that they never meet."""
    parts = re.split(r"(\d+)", place.path)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)]


def _remote(address: str) -> tuple[Any, str]:
    remedy = "pip install 'fcxplain[dask]'"
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise DataError("", [Fault(address, "is an address that only fsspec can reach", f"{remedy}.")]) from error
    try:
        found: tuple[Any, str] = url_to_fs(address)
    except (ImportError, ValueError) as error:
        # fsspec says itself which package it lacks for a protocol.
        raise DataError("", [Fault(address, f"cannot be reached ({error})", "Check the address.")]) from error
    return found
