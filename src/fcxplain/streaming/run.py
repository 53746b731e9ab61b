"""A run over a file of rows: each chunk's answers are kept as a file of their own until all are there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import DataError, Fault, some
from ..explanation import Effort, Explanation, read_answers
from ..explanation.files.digest import DIGEST, Digest, checked_key
from ..explanation.files.parquet import COMPRESSION, KEY, ROW_GROUP, arrow_table
from ..explanation.frame import column_named
from ..files import only_run, replacing, write_whole
from ..hashing import fingerprint
from ..progress import EXPLAINING, FOUND, OnProgress, Progress, RowCount, nobody
from ..task import Task
from .rows import RowFile

ENDING = ".parts"
IDENTITY = "identity.json"


@dataclass(frozen=True)
class PartFile:
    """A file with the answers to one chunk of rows, and what it says of itself."""

    path: Path
    about: dict[str, Any]


class PartFiles:
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
        foreign = [f.name for f in self._content() if not f.name.startswith((".", "part-")) and f.name != IDENTITY]
        if not self.folder.is_dir() or foreign:
            problem = f"is not a folder of ours ({some(foreign or ['a file'])})"
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

    def kept(self, number: int, rows: int) -> PartFile | None:
        """The part with this number, if it is there and has the answers to so many rows."""
        part = _part(self._path(number))
        return part if part is not None and part.about["rows"] == rows else None

    def keep(self, number: int, table: pa.Table) -> PartFile:
        """Write a part."""
        path = self._path(number)
        with _writing(path), replacing(path) as temporary:
            pq.write_table(table, temporary, compression=COMPRESSION)
        return PartFile(path, json.loads(table.schema.metadata[KEY]))

    def join(self, parts: Sequence[PartFile], about: dict[str, Any], key: bytes | None = None) -> None:
        """Write the target from all parts, one after the other, with a digest over all, and remove them."""
        schema, paths = pq.read_schema(parts[0].path), [part.path for part in parts]
        final = schema.with_metadata({**schema.metadata, KEY: json.dumps(about, ensure_ascii=False).encode()})
        digest = Digest(final)
        # Metadata stand in a file before its lines do, so the parts are read twice.
        with _writing(self.target):
            for table in _gathered(final, paths):
                digest.update(table)
        final = final.with_metadata({**final.metadata, DIGEST: digest.stored(key)})
        with (
            _writing(self.target),
            replacing(self.target) as temporary,
            pq.ParquetWriter(temporary, final, compression=COMPRESSION) as writer,
        ):
            for table in _gathered(final, paths):
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


def _part(path: Path) -> PartFile | None:
    """The part that a file is; None if it is not there or damaged, and so has to be made."""
    try:
        about = json.loads(pq.read_schema(path).metadata[KEY])
        return PartFile(path, about) if int(about["rows"]) else None
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


# Rows at a time, unless told otherwise; and fewer of a model that is no network, which may take minutes for these: what
# is not kept yet is lost when a run is stopped.
CHUNK, DEAR = 20_000, 1_000

Explain = Callable[[pd.DataFrame, OnProgress], Explanation]
"""Answers for some rows; told as well whom to tell how many of them are done."""


@dataclass(frozen=True)
class Streamed:
    """The file of answers that a run has written, and what is in it.

    Parameters
    ----------
    path : Path
        The file.
    rows : int
        Rows that were explained.
    counts : mapping
        Rows by status.
    effort : Effort
        Time and queries.
    notes : tuple of str
        What holds for all answers.
    """

    path: Path
    rows: int
    counts: Mapping[str, int]
    effort: Effort
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        counted = ", ".join(f"{count:,} {status}" for status, count in sorted(self.counts.items()))
        return f"Streamed to {self.path}: {self.rows:,} rows ({counted})"

    def first_rows(self, task: Task, status: str, most: int) -> list[object]:
        """The labels of the first rows with this status; some lines at a time are in memory.

        Parameters
        ----------
        task : Task
            The task that was explained.
        status : str
            E.g. "impossible".
        most : int
            At most so many.

        Returns
        -------
        list
            Labels.
        """
        label, column = column_named("row", task), column_named("status", task)
        found: dict[object, None] = {}
        for batch in pq.ParquetFile(self.path).iter_batches(columns=[label, column]):
            # A row with several answers has several lines.
            found |= dict.fromkeys(batch.filter(pc.equal(batch[column], status))[label].to_pylist())
            if len(found) >= most:
                break
        return list(found)[:most]

    def explanation(self, task: Task) -> Explanation:
        """The answers, read and checked again; all of them are held in memory.

        Parameters
        ----------
        task : Task
            The task that was explained.

        Returns
        -------
        Explanation
        """
        return read_answers(self.path, task)


def chunk_for(task: Task) -> int:
    """How many rows are answered and kept at a time where nobody says: fewer, if the model is expensive to query."""
    return DEAR if task.classifier.module is None else CHUNK


def stream(
    explain: Explain,
    source: str | Path,
    target: str | Path,
    *,
    task: Task,
    identity: str,
    chunk: int | None = None,
    overwrite: bool = False,
    index: str | None = None,
    key: bytes | None = None,
    strict: bool = True,
    on_progress: OnProgress = nobody,
) -> Streamed:
    """Explain the rows of a parquet or CSV file, some at a time, and write the answers as parquet.

    explain: answers for some rows; those of a row must not depend on the others.
    identity: a fingerprint of the model and of all that was asked for. A run that was cut off is gone on with only
        if this, the file of rows and the size of chunks are the same.
    chunk: rows that are answered and kept at a time; 20,000 if the model is a network, else 1,000.
    overwrite: begin anew, whatever an earlier run has left.
    index: the column that rows are called by, such as an identifier.
    key: secret bytes for the digest of the file; see `Explanation.to_parquet`.
    on_progress: told of rows that are done, and again after each chunk that is kept. Those that an earlier run has
        answered are in a stage of their own (`progress.FOUND`), and a note says that it goes on with that run.

    With `strict`, every row is held against the schema before the first is explained.
    Parts lie in the folder `<target>.parts` until
    the last is there; then they become the target, which is never seen unfinished. A second run with the same target
    is refused while the first goes on. Without `index`, rows are labelled
    as by the parquet file's own index, or by their number.
    """
    chunk = chunk_for(task) if chunk is None else chunk
    if chunk < 1:
        raise DataError("", [Fault(f"chunk {chunk!r}", "is not a number of rows", "Give 1 or more.")])
    key = checked_key(key)
    rows = RowFile(Path(source), task, index, strict=strict)
    named = () if index is None else (index,)
    with only_run(Path(target)):
        _check(rows, strict=strict)
        with PartFiles(Path(target), fingerprint(identity, rows.identity, chunk, *named), overwrite=overwrite) as parts:
            done = list(_explained(explain, rows, parts, chunk, on_progress))
            about = _together([part.about for part in done])
            parts.join(done, about, key)
    return Streamed(Path(target), about["rows"], about["counts"], Effort(**about["effort"]), tuple(about["notes"]))


def _check(rows: RowFile, *, strict: bool) -> None:
    """Refuse a file without rows or columns before any work; and if `strict`, rows that do not fit."""
    count = 0
    for table in rows.chunks(CHUNK):
        if strict:
            rows.task.validate(table)
        else:
            rows.task.schema.columns_of(table)
        count += len(table)
        if not strict:
            break
    if not count:
        raise DataError(f"{rows.path} has no rows")


def _explained(
    explain: Explain, rows: RowFile, parts: PartFiles, chunk: int, on_progress: OnProgress
) -> Iterator[PartFile]:
    """Each chunk's part, made now or by an earlier run."""
    done, resuming, total = 0, True, rows.total
    for number, table in enumerate(rows.chunks(chunk)):
        part, stage = parts.kept(number, len(table)), FOUND
        if part is None:
            if resuming and done:
                kept = "the answers before it are kept from the run that was stopped"
                on_progress(Progress(EXPLAINING, done, total, f"going on after row {done:,}: {kept}"))
            resuming, stage = False, EXPLAINING
            answers = explain(table, RowCount(total, on_progress, done).tell)
            part = parts.keep(number, arrow_table(answers))
        done += len(table)
        on_progress(Progress(stage, done, total))
        yield part


def _together(abouts: list[dict[str, Any]]) -> dict[str, Any]:
    """What is said of all the parts as one: sums, and notes once each."""
    counts = Counter[str]()
    for about in abouts:
        counts.update(about["counts"])
    return abouts[0] | {
        "rows": sum(a["rows"] for a in abouts),
        "counts": dict(counts),
        "notes": list(dict.fromkeys(note for a in abouts for note in a["notes"])),
        "draws": max(a["draws"] for a in abouts),
        "effort": vars(Effort.together(Effort(**a["effort"]) for a in abouts)),
    }
