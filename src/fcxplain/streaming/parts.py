"""The answers to some of the rows, in files of their own, until they become one file.

Whatever lies in the folder of parts is whole: each file is written under another name and renamed when it is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import DataError, Fault, some
from ..explanation.parquet import COMPRESSION, KEY, ROW_GROUP
from ..writing import replacing, write_whole

ENDING = ".parts"
IDENTITY = "identity.json"


@dataclass(frozen=True)
class Part:
    """A file with the answers to one chunk of rows, and what it says of itself."""

    path: Path
    about: dict[str, Any]


class Parts:
    """The folder of parts of one run, beside the file that they will become.

    As a context, it is gone afterwards unless there is a part in it to go on with.
    """

    def __init__(self, target: Path, identity: str, *, overwrite: bool) -> None:
        self.target, self.folder = target, target.with_name(target.name + ENDING)
        if target.is_dir():
            raise DataError("", [Fault(str(target), "is a folder", "Name a file for the answers.")])
        with _writing(self.folder):
            if self.folder.exists():
                self._enter(identity, overwrite=overwrite)
            self.folder.mkdir(exist_ok=True)
            write_whole(self.folder / IDENTITY, json.dumps({"identity": identity}) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.folder.is_dir() and not kept_rows(self.target):
            self.remove()

    def _enter(self, identity: str, *, overwrite: bool) -> None:
        """Take over what an earlier run has left, if it was the same run, or may be thrown away."""
        strange = [f.name for f in self._content() if not f.name.startswith((".", "part-")) and f.name != IDENTITY]
        if not self.folder.is_dir() or strange:
            problem = f"is not a folder of ours ({some(strange or ['a file'])})"
            raise DataError("", [Fault(str(self.folder), problem, "Move it away, or choose another name.")])
        for file in self._content():
            # What a killed run was writing when it ended; and all of it, if asked.
            if overwrite or file.name.startswith("."):
                file.unlink()
        if self._content() and _identity(self.folder / IDENTITY) != identity:
            problem = "holds parts of another run: other rows, another model, or other options"
            remedy = "Delete that folder, or pass overwrite=True, to begin anew."
            raise DataError("", [Fault(str(self.folder), problem, remedy)])

    def _content(self) -> list[Path]:
        return sorted(self.folder.iterdir()) if self.folder.is_dir() else []

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}.parquet"

    def kept(self, number: int, rows: int) -> Part | None:
        """The part with this number, if it is there and has the answers to so many rows."""
        part = _part(self._path(number))
        return part if part is not None and part.about["rows"] == rows else None

    def keep(self, number: int, table: pa.Table) -> Part:
        """Write a part."""
        path = self._path(number)
        with _writing(path), replacing(path) as temporary:
            pq.write_table(table, temporary, compression=COMPRESSION)
        return Part(path, json.loads(table.schema.metadata[KEY]))

    def join(self, parts: Sequence[Part], about: dict[str, Any]) -> None:
        """Write the target from all parts, one after the other, and remove them."""
        schema = pq.read_schema(parts[0].path)
        metadata = {**schema.metadata, KEY: json.dumps(about, ensure_ascii=False).encode()}
        final = schema.with_metadata(metadata)
        with (
            _writing(self.target),
            replacing(self.target) as temporary,
            pq.ParquetWriter(temporary, final, compression=COMPRESSION) as writer,
        ):
            for table in _gathered(final, [part.path for part in parts]):
                writer.write_table(table.replace_schema_metadata(final.metadata), row_group_size=table.num_rows)
        self.remove()

    def remove(self) -> None:
        """Remove the folder with all that is ours in it."""
        with _writing(self.folder):
            for file in self._content():
                file.unlink()
            self.folder.rmdir()


def kept_rows(target: Path) -> int:
    """How many rows have their answers in the parts of a file that is not there yet."""
    parts = map(_part, target.with_name(target.name + ENDING).glob("part-*.parquet"))
    return sum(int(part.about["rows"]) for part in parts if part is not None)


def _part(path: Path) -> Part | None:
    """The part that a file is; None if it is not there or damaged, and so has to be made."""
    try:
        about = json.loads(pq.read_schema(path).metadata[KEY])
        return Part(path, about) if int(about["rows"]) else None
    except (OSError, pa.ArrowException, LookupError, ValueError, TypeError):
        return None


def _gathered(schema: pa.Schema, paths: Sequence[Path]) -> Iterator[pa.Table]:
    """The lines of all parts, small parts together, since many small groups make a file large and slow to read."""
    held: list[pa.Table] = []
    for path in paths:
        file = pq.ParquetFile(path)
        if not file.schema_arrow.equals(schema, check_metadata=False):
            problem = "has other columns than the first part; labels of rows must be of one kind"
            raise DataError("", [Fault(str(path), problem, "Give the rows one kind of labels, and begin anew.")])
        for group in range(file.num_row_groups):
            held.append(file.read_row_group(group))
            if sum(table.num_rows for table in held) >= ROW_GROUP:
                yield pa.concat_tables(held)
                held = []
    if held:
        yield pa.concat_tables(held)


def _identity(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["identity"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error
