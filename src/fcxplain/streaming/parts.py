"""The answers to some of the rows, in files of their own, until they become one file.

Whatever lies in the folder of parts is whole: each file is written under another name and renamed when it is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import DataError, Fault, some
from ..explanation.parquet import COMPRESSION, KEY
from ..writing import replacing, write_whole

ENDING = ".parts"
IDENTITY = "identity.json"


@dataclass(frozen=True)
class Part:
    """A file with the answers to one chunk of rows, and what it says of itself."""

    path: Path
    about: dict[str, Any]


class Parts:
    """The folder of parts of one run, beside the file that they will become."""

    def __init__(self, target: Path, identity: str, *, overwrite: bool) -> None:
        self.target, self.folder = target, target.with_name(target.name + ENDING)
        if target.is_dir():
            raise DataError("", [Fault(str(target), "is a folder", "Name a file for the answers.")])
        with _writing(self.folder):
            if self.folder.exists():
                self._enter(identity, overwrite=overwrite)
            self.folder.mkdir(exist_ok=True)
            write_whole(self.folder / IDENTITY, json.dumps({"identity": identity}) + "\n")

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
        try:
            about = json.loads(pq.read_schema(self._path(number)).metadata[KEY])
            return Part(self._path(number), about) if about["rows"] == rows else None
        except (OSError, pa.ArrowException, LookupError, ValueError, TypeError):
            # Not there, or damaged: either way it has to be made.
            return None

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
            for part in parts:
                self._append(writer, final, part.path)
        self.remove()

    def _append(self, writer: pq.ParquetWriter, schema: pa.Schema, path: Path) -> None:
        file = pq.ParquetFile(path)
        if not file.schema_arrow.equals(schema, check_metadata=False):
            problem = "has other columns than the first part; labels of rows must be of one kind"
            raise DataError("", [Fault(str(path), problem, "Give the rows one kind of labels, and begin anew.")])
        for group in range(file.num_row_groups):
            writer.write_table(file.read_row_group(group).replace_schema_metadata(schema.metadata))

    def remove(self) -> None:
        """Remove the folder with all that is ours in it."""
        with _writing(self.folder):
            for file in self._content():
                file.unlink()
            self.folder.rmdir()


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
