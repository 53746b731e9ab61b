"""A run over files of rows: explain partition after partition, in this process or on a cluster."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import DataError, Fault, FcxError
from ..explanation import Effort, Explanation, read_answers
from ..explanation.files.digest import DIGEST, Digest, checked_key
from ..explanation.files.parquet import COMPRESSION, KEY, ROW_GROUP, answer_files, arrow_table
from ..explanation.frame import column_named
from ..files import only_run
from ..hashing import fingerprint
from ..progress import EXPLAINING, FOUND, OnProgress, Progress, RowCount, no_progress
from ..storage import Place
from ..task import Task
from .parts import Part, PartFolder, Partition, folder_of, is_folder, layout_of, whole_part, writing
from .rows import RowFiles, SliceReader

# Rows per partition; fewer for a model that is not a network, which may take minutes for as many, unless each partition
# is a file of the result: a run that is stopped loses the partition that it is working on.
CHUNK, EXPENSIVE = 20_000, 1_000

Explain = Callable[[pd.DataFrame, OnProgress], Explanation]
"""Answers for some rows; reports how many of them are done."""


class Mapped(Protocol):
    """Explains partitions, in this process or on a cluster. Parts are returned in any order."""

    def __call__(self, partitions: Sequence[Partition], on_progress: OnProgress) -> Generator[Part]:
        """The part of each partition; reports rows of a partition that are done."""
        ...

    @property
    def words(self) -> str:
        """A description of the workers, for progress lines."""
        ...


def explain_partition(
    partition: Partition, explain: Explain, reader: SliceReader, on_progress: OnProgress = no_progress
) -> Part:
    """Read a partition's rows, explain them, and write the answers completely or not at all.

    The bytes written depend on the rows, the model and the options alone; time and queries go to the manifest. A part
    that is complete is left as it is: its worker may have died before it could report. If the rows cannot be read, the
    partition fails with the reason.
    """
    if (there := whole_part(partition)) is not None:
        return there
    try:
        rows = reader.read(partition.slices)
    except FcxError as error:
        if partition.needed:
            raise
        return Part(partition.number, partition.rows, {}, failure=str(error))
    found = explain(rows, on_progress)
    table = arrow_table(replace(found, effort=Effort()))
    digest = Digest(table.schema)
    digest.update(table)
    table = table.replace_schema_metadata({**table.schema.metadata, DIGEST: digest.stored()})
    place = partition.place
    with writing(place), place.writing() as file:
        pq.write_table(table, file, compression=COMPRESSION, row_group_size=ROW_GROUP)
    about = json.loads(table.schema.metadata[KEY])
    size, layout = int(place.info().size), layout_of(table.schema)
    return Part(partition.number, len(rows), about, size, digest.whole(), layout, found.effort)


@dataclass(frozen=True)
class InProcess:
    """Explain one partition after the other, in this process."""

    explain: Explain
    reader: SliceReader
    words: str = ""

    def __call__(self, partitions: Sequence[Partition], on_progress: OnProgress) -> Generator[Part]:
        """The part of each partition, in order."""
        return (explain_partition(p, self.explain, self.reader, on_progress) for p in partitions)


@dataclass(frozen=True)
class Streamed:
    """The answers that a run has written, with their counts.

    Parameters
    ----------
    path : Path or str
        The file or the folder; an address if it is not on this machine.
    rows : int
        The number of rows explained.
    counts : mapping
        Rows by status.
    effort : Effort
        Time and queries.
    notes : tuple of str
        Notes that apply to all answers.
    failed : mapping
        Why some rows have no answers, by the part or the file of rows that failed. Running the same call again retries
        only these.

    Examples
    --------
    >>> streamed = fcx.explain_file("applications.parquet", "answers.parquet")  # doctest: +SKIP
    >>> streamed.counts  # doctest: +SKIP
    >>> streamed.explanation(task).frame  # doctest: +SKIP
    """

    path: Path | str
    rows: int
    counts: Mapping[str, int]
    effort: Effort
    notes: tuple[str, ...]
    failed: Mapping[str, str]

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"Streamed to {self.path}: {self.rows:,} rows ({_counted(self.counts)}){failed}"

    def first_rows(self, task: Task, status: str, most: int) -> list[object]:
        """The labels of the first rows with this status. Reads the answers in batches.

        Parameters
        ----------
        task : Task
            The task that was explained.
        status : str
            E.g. "impossible".
        most : int
            The maximum number of labels.

        Returns
        -------
        list
            Labels.
        """
        label, column = column_named("row", task), column_named("status", task)
        found: dict[object, None] = {}
        for place in answer_files(self.path):
            with pq.ParquetFile(place.path, filesystem=place.system) as file:
                for batch in file.iter_batches(columns=[label, column]):
                    # A row with several answers takes several lines.
                    found |= dict.fromkeys(batch.filter(pc.equal(batch[column], status))[label].to_pylist())
            if len(found) >= most:
                break
        return list(found)[:most]

    def explanation(self, task: Task) -> Explanation:
        """Read the answers and check them again. All of them are held in memory.

        Parameters
        ----------
        task : Task
            The task that was explained.

        Returns
        -------
        Explanation
        """
        return read_answers(self.path, task)


def _counted(statuses: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {status}" for status, count in sorted(statuses.items()))


def chunk_for(task: Task, *, stays: bool = False) -> int:
    """The default number of rows per partition; fewer if the model is expensive to query, unless its file `stays`."""
    return EXPENSIVE if task.classifier.module is None and not stays else CHUNK


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
    on_progress: OnProgress = no_progress,
    options: Mapping[str, Any] | None = None,
    mapped: Mapped | None = None,
) -> Streamed:
    """Explain the rows of parquet or CSV files, partition by partition, and write the answers as parquet.

    The answers that `explain` gives for a row must not depend on the other rows. `identity` is a fingerprint of the
    model and of all options: an interrupted run is resumed only if this and the size of partitions are the same; parts
    whose rows have changed are made again. Until all parts of a target that is a file are complete, they are in the
    folder `<target>.parts`. A second run with the same target is refused while the first runs. `options` go to the
    manifest; `mapped` is how partitions are explained, if not one after the other in this process. For the others, see
    `FCx.explain_file`.
    """
    chunk = chunk_for(task, stays=is_folder(target)) if chunk is None else chunk
    if chunk < 1:
        raise DataError("", [Fault(f"chunk {chunk!r}", "is not a number of rows", "Give 1 or more.")])
    key = checked_key(key)
    mapped = mapped or InProcess(explain, SliceReader(task, index, strict=strict))
    local = folder_of(target).local
    # Remote storage has no locks; two runs write the same bytes there.
    with nullcontext() if local is None else only_run(Path(Place.of(target).path)):
        rows = RowFiles(source, task, index, strict=strict)
        whole = fingerprint(identity, chunk, *(() if index is None else (index,)))
        partitions = list(_partitions(rows, folder_of(target).whole, chunk, needed=not is_folder(target)))
        if rows.failed and not is_folder(target):
            raise DataError("; ".join(rows.failed.values()))
        sources = [{"address": file.place.whole, "rows": file.total} for file in rows.files]
        about = {"chunk": chunk, "options": dict(options or {}), "sources": sources}
        about |= {"partitions": [partition.identity for partition in partitions]}
        with PartFolder(target, whole, about, overwrite=overwrite) as folder:
            folder.take_over(partitions)
            return _explained(folder, partitions, rows, mapped, key, on_progress)


def _partitions(rows: RowFiles, folder: str, chunk: int, *, needed: bool) -> Iterator[Partition]:
    identities = {file.place.whole: file.identity for file in rows.files}
    for number, slices in enumerate(rows.cut(chunk)):
        known = [(identities[s.address], s.start, s.stop, s.first) for s in slices]
        count = sum(s.stop - s.start for s in slices)
        yield Partition(number, folder, count, slices, fingerprint(known), needed)


def _explained(
    folder: PartFolder,
    partitions: Sequence[Partition],
    rows: RowFiles,
    mapped: Mapped,
    key: bytes | None,
    on_progress: OnProgress,
) -> Streamed:
    """Explain the partitions that an earlier run has not finished, and put all parts together."""
    total, done, counts = rows.total, 0, Counter[str]()
    for _, part in sorted(folder.parts.items()):
        done += part.rows
        counts.update(part.about["counts"])
        on_progress(Progress(FOUND, done, total))
    left = [partition for partition in partitions if partition.number not in folder.parts]
    if left:
        folder.write(ended=False)
        if done:
            is_first = sorted(folder.parts) == list(range(len(folder.parts)))
            begin = f"resuming after row {done:,}: the answers before it" if is_first else f"resuming: {done:,} answers"
            on_progress(Progress(EXPLAINING, done, total, f"{begin} are kept from the interrupted run"))
        within = RowCount(total, on_progress, done)
        with closing(mapped(left, lambda event: within.tell(event))) as parts:
            for part in parts:
                folder.add(part)
                done += part.rows
                counts.update({"failed": part.rows} if part.failure else part.about["counts"])
                within = RowCount(total, on_progress, done)
                detail = "; ".join(filter(None, (_counted(counts), mapped.words)))
                on_progress(Progress(EXPLAINING, done, total, detail=detail))
    folder.failed |= rows.failed
    if not folder.parts:
        raise DataError("; ".join(folder.failed.values()))
    about = folder.finish(key)
    effort, notes = Effort(**about["effort"]), tuple(about["notes"])
    return Streamed(folder.target.given, about["rows"], about["counts"], effort, notes, dict(folder.failed))
