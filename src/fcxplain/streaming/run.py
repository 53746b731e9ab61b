"""A run over a file of rows: each chunk's answers are kept as a file of their own until all are there.

So a run that was cut off goes on where it stopped. What an answer is does not depend on the rows beside it, and the
file of answers is the same however it came about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import DataError, Fault
from ..explanation import Effort, Explanation, read_answers
from ..explanation.digest import checked_key
from ..explanation.parquet import arrow_table, column_named
from ..fingerprint import fingerprint
from ..task import Task
from ..writing import only_run
from .parts import Part, Parts
from .rows import RowFile

# Rows at a time, unless told otherwise; and fewer of a model that is no network, which may take minutes for these: what
# is not kept yet is lost when a run is stopped.
CHUNK, DEAR = 20_000, 1_000

Explain = Callable[[pd.DataFrame, Callable[[int, int], None] | None], Explanation]
"""Answers for some rows; told as well whom to tell how many of them are done, and how many there are."""
OnRows = Callable[[int, int | None], None]
"""Told how many rows of a file are done, and how many there are, if that is known."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come: rows and chunks done, rows in all (None where nobody knows), rows by status."""

    rows: int
    total: int | None
    chunks: int
    counts: Mapping[str, int]
    resumed: bool
    """Whether the last chunk was there already."""


@dataclass(frozen=True)
class Streamed:
    """The file of answers that a run has written, and what is in it."""

    path: Path
    rows: int
    counts: Mapping[str, int]
    effort: Effort
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        counted = ", ".join(f"{count:,} {status}" for status, count in sorted(self.counts.items()))
        return f"Streamed to {self.path}: {self.rows:,} rows ({counted})"

    def first_rows(self, task: Task, status: str, most: int) -> list[object]:
        """The labels of the first rows with this status, at most so many; some lines at a time are in memory."""
        label, column = column_named("row", task), column_named("status", task)
        found: dict[object, None] = {}
        for batch in pq.ParquetFile(self.path).iter_batches(columns=[label, column]):
            # A row with several answers has several lines.
            found |= dict.fromkeys(batch.filter(pc.equal(batch[column], status))[label].to_pylist())
            if len(found) >= most:
                break
        return list(found)[:most]

    def explanation(self, task: Task) -> Explanation:
        """The answers, read and checked again; all of them are held in memory."""
        return read_answers(self.path, task)


def chunk_for(task: Task) -> int:
    """How many rows are answered and kept at a time where nobody says: fewer, if the model is dear to ask."""
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
    on_chunk: Callable[[Progress], None] | None = None,
    on_rows: OnRows | None = None,
    on_resume: Callable[[int], None] | None = None,
) -> Streamed:
    """Explain the rows of a parquet or CSV file, some at a time, and write the answers as parquet.

    explain: answers for some rows; those of a row must not depend on the others.
    identity: a fingerprint of the model and of all that was asked for. A run that was cut off is gone on with only
        if this, the file of rows and the size of chunks are the same.
    chunk: rows that are answered and kept at a time; 20,000 if the model is a network, else 1,000.
    overwrite: begin anew, whatever an earlier run has left.
    index: the column that rows are called by, such as an identifier.
    key: secret bytes for the digest of the file; see `Explanation.to_parquet`.
    on_chunk: told after each chunk. on_rows: told more often, of rows that are done and those that there are.
    on_resume: told, if it goes on with an earlier run, after how many rows.

    Every row is held against the schema before the first is explained. Parts lie in the folder `<target>.parts` until
    the last is there; then they become the target, which is never seen unfinished. A second run with the same target
    is refused while the first goes on. Without `index`, rows are labelled
    as by the parquet file's own index, or by their number.
    """
    chunk = chunk_for(task) if chunk is None else chunk
    if chunk < 1:
        raise DataError("", [Fault(f"chunk {chunk!r}", "is no number of rows", "Give 1 or more.")])
    key = checked_key(key)
    rows = RowFile(Path(source), task, index)
    named = () if index is None else (index,)
    with only_run(Path(target)):
        _check(rows)
        with Parts(Path(target), fingerprint(identity, rows.identity, chunk, *named), overwrite=overwrite) as parts:
            done = list(_followed(_explained(explain, rows, parts, chunk, on_rows, on_resume), rows.total, on_chunk))
            about = _together([part.about for part, _ in done])
            parts.join([part for part, _ in done], about, key)
    return Streamed(Path(target), about["rows"], about["counts"], Effort(**about["effort"]), tuple(about["notes"]))


def _check(rows: RowFile) -> None:
    """Refuse rows that do not fit before the first is explained: found later, they would cost all that was done."""
    count = 0
    for table in rows.chunks(CHUNK):
        rows.task.validate(table)
        count += len(table)
    if not count:
        raise DataError(f"{rows.path} has no rows")


def _explained(
    explain: Explain,
    rows: RowFile,
    parts: Parts,
    chunk: int,
    on_rows: OnRows | None,
    on_resume: Callable[[int], None] | None,
) -> Iterator[tuple[Part, bool]]:
    """Each chunk's part, and whether it was there already."""
    done, resuming = 0, True
    for number, table in enumerate(rows.chunks(chunk)):
        kept = parts.kept(number, len(table))
        if kept is None:
            if resuming and done and on_resume is not None:
                on_resume(done)
            resuming = False
            tell = None if on_rows is None else partial(_tell, on_rows, done, rows.total)
            yield parts.keep(number, arrow_table(explain(table, tell))), False
        else:
            yield kept, True
        done += len(table)


def _tell(on_rows: OnRows, before: int, total: int | None, done: int, _: int) -> None:
    """What is done of a chunk, as what is done of the file."""
    on_rows(before + done, total)


def _followed(
    done: Iterator[tuple[Part, bool]], total: int | None, on_chunk: Callable[[Progress], None] | None
) -> Iterator[tuple[Part, bool]]:
    """The same parts, with a word to whoever wants to know how far it has come."""
    rows, counts = 0, Counter[str]()
    for number, (part, resumed) in enumerate(done, start=1):
        rows += part.about["rows"]
        counts.update(part.about["counts"])
        if on_chunk is not None:
            on_chunk(Progress(rows, total, number, dict(counts), resumed))
        yield part, resumed


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
