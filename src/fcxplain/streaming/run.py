"""A run over files of rows: partitions, a function that explains one of them, and a way of mapping it over all.

Each partition's answers are a file of their own, written once under its final name, in a folder with a manifest. That
folder is the result, or becomes one file when all partitions are there.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import DataError, Fault, FcxError, some
from ..explanation import Effort, Explanation, read_answers
from ..explanation.files.digest import DIGEST, Digest, checked_key
from ..explanation.files.folder import (
    FOLDER_FORMAT,
    answer_files,
    is_ours,
    is_part,
    part_name,
    read_manifest,
    write_manifest,
)
from ..explanation.files.parquet import COMPRESSION, KEY, ROW_GROUP, arrow_table
from ..explanation.frame import column_named
from ..files import only_run, replacing
from ..hashing import fingerprint
from ..progress import EXPLAINING, FOUND, OnProgress, Progress, RowCount, nobody
from ..storage import Place
from ..task import Task
from .rows import RowFiles, Slice, SliceReader

# What is added to the name of a file for the folder of its parts.
ENDING = ".parts"
# Rows of a partition, unless told otherwise; and fewer of a model that is no network, which may take minutes for these,
# where they are no files to stay: what is not kept yet is lost when a run is stopped.
CHUNK, DEAR = 20_000, 1_000
# Seconds after which the manifest is written again; parts that it does not name yet are read whole to be trusted.
OFTEN = 30.0

Explain = Callable[[pd.DataFrame, OnProgress], Explanation]
"""Answers for some rows; told as well whom to tell how many of them are done."""


@dataclass(frozen=True)
class Partition:
    """Some rows, where they are read and where their answers go; plain data, since it travels between processes."""

    number: int
    folder: str
    rows: int
    slices: tuple[Slice, ...]
    identity: str
    """A fingerprint of the rows: which files, which of their rows, and what these are called by."""
    needed: bool
    """Whether the run is worth nothing without it."""

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Partition:
        """From text."""
        data = json.loads(text)
        return cls(**data | {"slices": tuple(Slice(**piece) for piece in data["slices"])})

    @property
    def place(self) -> Place:
        """Where the answers go."""
        return Place.of(self.folder) / part_name(self.number)


@dataclass(frozen=True)
class Part:
    """What became of a partition: the file of its answers and what that says of itself, or why there is none."""

    number: int
    rows: int
    about: Mapping[str, Any]
    size: int = 0
    digest: str = ""
    layout: str = ""
    """Its columns."""
    effort: Effort = field(default_factory=Effort)
    failure: str = ""

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Part:
        """From text."""
        data = json.loads(text)
        return cls(**data | {"effort": Effort(**data["effort"])})

    def entry(self, identity: str) -> dict[str, Any]:
        """What the manifest says of it."""
        said = {"rows": self.rows, "counts": self.about["counts"], "bytes": self.size, "digest": self.digest}
        return {"name": part_name(self.number), **said, "effort": asdict(self.effort), "identity": identity}


class Mapped(Protocol):
    """A way of explaining partitions: in this process, or on a cluster. Parts come in any order."""

    def __call__(self, partitions: Sequence[Partition], on_progress: OnProgress) -> Generator[Part]:
        """Each partition's part; told as well of rows of a partition that are done."""
        ...

    @property
    def words(self) -> str:
        """Who is at work, for people to read."""
        ...


def explain_partition(
    partition: Partition, explain: Explain, reader: SliceReader, on_progress: OnProgress = nobody
) -> Part:
    """Read a partition's rows, answer them, and write the answers whole or not at all.

    The bytes written depend on the rows, the model and what was asked alone; the time that it took is told beside
    them. A part that is there and whole is left as it is: whoever made it may have died before it could say so. Rows
    that cannot be read cost the partition, which says why.
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
    table = arrow_table(replace(found, effort=Effort(calls=found.effort.calls)))
    digest = Digest(table.schema)
    digest.update(table)
    table = table.replace_schema_metadata({**table.schema.metadata, DIGEST: digest.stored()})
    place = partition.place
    with _writing(place), place.writing() as file:
        pq.write_table(table, file, compression=COMPRESSION, row_group_size=ROW_GROUP)
    about = json.loads(table.schema.metadata[KEY])
    size, layout = int(place.info().size), _layout(table.schema)
    return Part(partition.number, len(rows), about, size, digest.whole(), layout, found.effort)


@dataclass(frozen=True)
class InProcess:
    """One partition after the other, in this process."""

    explain: Explain
    reader: SliceReader
    words: str = ""

    def __call__(self, partitions: Sequence[Partition], on_progress: OnProgress) -> Generator[Part]:
        """Each partition's part, in their order."""
        return (explain_partition(p, self.explain, self.reader, on_progress) for p in partitions)


@dataclass(frozen=True)
class Streamed:
    """The answers that a run has written, and what is in them.

    Parameters
    ----------
    path : Path or str
        The file or the folder; an address where it is not on this machine.
    rows : int
        Rows that were explained.
    counts : mapping
        Rows by status.
    effort : Effort
        Time and queries.
    notes : tuple of str
        What holds for all answers.
    failed : mapping
        Why there are no answers to some rows, by the part or the file of rows that failed. The same run again tries
        these alone.
    """

    path: Path | str
    rows: int
    counts: Mapping[str, int]
    effort: Effort
    notes: tuple[str, ...]
    failed: Mapping[str, str]

    def __repr__(self) -> str:
        counted = ", ".join(f"{count:,} {status}" for status, count in sorted(self.counts.items()))
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"Streamed to {self.path}: {self.rows:,} rows ({counted}){failed}"

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
        for place in answer_files(self.path):
            with pq.ParquetFile(place.path, filesystem=place.system) as file:
                for batch in file.iter_batches(columns=[label, column]):
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


def chunk_for(task: Task, *, stays: bool = False) -> int:
    """Rows of a partition where nobody says; fewer if the model is expensive to query, unless its file `stays`."""
    return DEAR if task.classifier.module is None and not stays else CHUNK


def is_folder(target: str | Path) -> bool:
    """Whether answers go to a folder: by the name, which has no ending or ends in a slash, or since it is one."""
    place = Place.of(target)
    return str(target).endswith("/") or "." not in place.name or place.is_folder


class PartFolder:
    """The folder of parts of one run: the target itself, or beside the file that they will become.

    As a context, a folder beside a file is gone afterwards unless there is a part in it to go on with.
    """

    def __init__(self, target: str | Path, identity: str, about: dict[str, Any], *, overwrite: bool) -> None:
        self.target, self.is_target = Place.of(target), is_folder(target)
        self.place, self.identity, self.about = folder_of(target), identity, about
        self.parts, self.failed, self.written = dict[int, Part](), dict[str, str](), 0.0
        if not self.is_target and self.target.local is None:
            fault = Fault(str(target), "is a file that is not on this machine", "Name a folder for the answers there.")
            raise DataError("", [fault])
        with _writing(self.place):
            if self.place.is_folder or self.place.is_file:
                self._enter(overwrite=overwrite)
            self.place.make_folder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # What ended the run is told, not that there was no room for the manifest either.
        with suppress(DataError):
            if kind is not None and self.parts:
                self.write(ended=False)
            elif kind is not None and not _rows_in(self.place):
                self.remove()

    def _enter(self, *, overwrite: bool) -> None:
        """Look at what an earlier run has left; what a killed run was writing when it ended goes, and all, if asked."""
        foreign = [p.name for p in self.place.content() if not (p.name.startswith(".") or is_ours(p.name))]
        if not self.place.is_folder or foreign:
            problem = f"is not a folder of ours ({some(foreign or ['a file'])})"
            raise DataError("", [Fault(str(self.place), problem, "Move it away, or choose another name.")])
        for file in self._own():
            if overwrite or file.name.startswith("."):
                file.remove()

    def _own(self) -> list[Place]:
        """What is ours in the folder: parts, the manifest, and what was being written when a run was killed."""
        return [place for place in self.place.content() if is_ours(place.name)]

    def take_over(self, partitions: Sequence[Partition]) -> None:
        """Find the parts that an earlier run of the same kind has made; those of other rows are thrown away."""
        before = read_manifest(self.place)
        there = {p.name: p for p in self.place.content() if is_part(p.name)}
        known = {} if before is None else {entry["name"]: entry for entry in before["parts"]}
        planned = {part_name(p.number): p for p in partitions}
        alike = {name for name, p in planned.items() if known.get(name, {}).get("identity") == p.identity}
        if there and (before is None or before.get("identity") != self.identity or not alike):
            problem = "holds parts of another run: other rows, another model, or other options"
            remedy = "Delete that folder, or pass overwrite=True, to begin anew."
            raise DataError("", [Fault(str(self.place), problem, remedy)])
        for name, partition in planned.items():
            part = whole_part(partition, known[name]) if name in there and name in alike else None
            if part is not None:
                self.parts[partition.number] = part
                del there[name]
        for damaged in there.values():
            damaged.remove()

    def add(self, part: Part) -> None:
        """What became of a partition; the manifest is written now and then."""
        if part.failure:
            self.failed[part_name(part.number)] = part.failure
        else:
            self.parts[part.number] = part
            if part.layout != next(iter(self.parts.values())).layout:
                problem = "has other columns than the first part; labels of rows must be of one kind"
                remedy = "Give the rows one kind of labels, and begin anew."
                raise DataError("", [Fault(str(self.place / part_name(part.number)), problem, remedy)])
        if time.monotonic() - self.written > OFTEN:
            self.write(ended=False)

    def write(self, *, ended: bool, key: bytes | None = None) -> None:
        """Write the manifest as things are."""
        self.written = time.monotonic()
        with _writing(self.place):
            write_manifest(self.place, self._manifest(ended=ended), key if ended else None)

    def _manifest(self, *, ended: bool) -> dict[str, Any]:
        identities = self.about["partitions"]
        if ended:
            entries = [part.entry(identities[number]) for number, part in sorted(self.parts.items())]
        else:
            entries = [
                self.parts[n].entry(identity) if n in self.parts else {"name": part_name(n), "identity": identity}
                for n, identity in enumerate(identities)
            ]
        said = {name: value for name, value in self.about.items() if name != "partitions"}
        head = {"folder_format": FOLDER_FORMAT, "ended": ended, "identity": self.identity}
        return head | (self.together() if self.parts else {}) | said | {"failed": self.failed, "parts": entries}

    def together(self) -> dict[str, Any]:
        """What is said of all the parts as one: sums, and notes once each."""
        parts = [part for _, part in sorted(self.parts.items())]
        abouts, statuses = [part.about for part in parts], Counter[str]()
        for about in abouts:
            statuses.update(about["counts"])
        return {
            **abouts[0],
            "rows": sum(a["rows"] for a in abouts),
            "counts": dict(sorted(statuses.items())),
            "notes": list(dict.fromkeys(note for a in abouts for note in a["notes"])),
            "draws": max(a["draws"] for a in abouts),
            "effort": asdict(Effort.together(part.effort for part in parts)),
        }

    def finish(self, key: bytes | None) -> Streamed:
        """The result: the manifest with its digest, or one file in place of the folder."""
        about = self.together()
        if self.is_target:
            self.write(ended=True, key=key)
        else:
            self._join(about, key)
        effort = Effort(**about["effort"])
        given = self.target.given
        return Streamed(given, about["rows"], about["counts"], effort, tuple(about["notes"]), dict(self.failed))

    def _join(self, about: dict[str, Any], key: bytes | None) -> None:
        """Write the file from all parts, one after the other, with a digest over all, and remove them."""
        paths = [Path((self.place / part_name(number)).path) for number in sorted(self.parts)]
        schema = pq.read_schema(paths[0])
        final = schema.with_metadata({**schema.metadata, KEY: json.dumps(about, ensure_ascii=False).encode()})
        digest = Digest(final)
        # Metadata stand in a file before its lines do, so the parts are read twice.
        with _writing(self.target):
            for table in _gathered(paths):
                digest.update(table)
        final = final.with_metadata({**final.metadata, DIGEST: digest.stored(key)})
        with (
            _writing(self.target),
            replacing(self.target.path) as temporary,
            pq.ParquetWriter(temporary, final, compression=COMPRESSION) as writer,
        ):
            for table in _gathered(paths):
                writer.write_table(table.replace_schema_metadata(final.metadata), row_group_size=table.num_rows)
        self.remove()

    def remove(self) -> None:
        """Remove the folder with all that is ours in it."""
        with _writing(self.place):
            for file in self._own():
                file.remove()
            if not self.place.content():
                self.place.remove()


def folder_of(target: str | Path) -> Place:
    """Where the parts of a run with this target are."""
    place = Place.of(target)
    return place if is_folder(target) else Place.of(f"{place.address}{ENDING}")


def kept_rows(target: str | Path) -> int:
    """How many rows have their answers in the parts of a run that has not ended."""
    return _rows_in(folder_of(target))


def _rows_in(folder: Place) -> int:
    schemas = (_schema(place) for place in folder.content() if is_part(place.name))
    return sum(int(json.loads(schema.metadata[KEY])["rows"]) for schema in schemas if schema is not None)


def _schema(place: Place) -> pa.Schema | None:
    """The columns of a part, with what it says of itself; None if it is not there or damaged, and so has to be made."""
    try:
        schema = pq.read_schema(place.path, filesystem=place.system)
        return schema if int(json.loads(schema.metadata[KEY])["rows"]) else None
    except (OSError, pa.ArrowException, LookupError, ValueError, TypeError):
        return None


def _layout(schema: pa.Schema) -> str:
    return fingerprint(schema.remove_metadata().to_string(show_field_metadata=True))


def whole_part(partition: Partition, entry: Mapping[str, Any] | None = None) -> Part | None:
    """The part of a partition that is there and whole: as the manifest's entry says, or else by its own digest."""
    place, entry = partition.place, entry or {}
    schema = _schema(place)
    about = {} if schema is None else json.loads(schema.metadata[KEY])
    if schema is None or about["rows"] != partition.rows:
        return None
    part = Part(partition.number, partition.rows, about, int(place.info().size), layout=_layout(schema))
    if entry.get("bytes") == part.size and entry.get("digest"):
        return replace(part, digest=entry["digest"], effort=Effort(**entry["effort"]))
    try:
        table = pq.read_table(place.path, filesystem=place.system)
    except (OSError, pa.ArrowException):
        return None
    digest = Digest(schema)
    digest.update(table)
    is_whole = digest.check(schema.metadata.get(DIGEST)).holds
    return replace(part, digest=digest.whole(), effort=Effort(**about["effort"])) if is_whole else None


def _gathered(paths: Sequence[Path]) -> Iterator[pa.Table]:
    """The lines of all parts, small parts together, since many small groups make a file large and slow to read."""
    held: list[pa.Table] = []
    for path in paths:
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            held.append(file.read_row_group(group))
            if sum(table.num_rows for table in held) >= ROW_GROUP:
                yield pa.concat_tables(held)
                held = []
    if held:
        yield pa.concat_tables(held)


@contextmanager
def _writing(place: Place) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot write {place}: {getattr(error, 'strerror', None) or error}") from error


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
    options: Mapping[str, Any] | None = None,
    mapped: Mapped | None = None,
) -> Streamed:
    """Explain the rows of parquet or CSV files, some at a time, and write the answers as parquet.

    explain: answers for some rows; those of a row must not depend on the others.
    source: a file, a folder, a glob, or an address that fsspec knows. Rows are counted through all files, in the order
        of their names.
    target: a folder for parts and their manifest, or a file, which is there when all parts are; until then these lie
        in the folder `<target>.parts`. A second run with the same target is refused while the first goes on.
    identity: a fingerprint of the model and of all that was asked for. A run that was cut off is gone on with only
        if this and the size of partitions are the same; of its parts, those of rows that changed are made again.
    chunk: rows of a partition; 20,000, or 1,000 if the model is no network and answers go to a file.
    overwrite: begin anew, whatever an earlier run has left.
    index: the column that rows are called by, such as an identifier.
    key: secret bytes for the digest; see `Explanation.to_parquet`.
    strict: hold every row against the schema before the first is explained.
    on_progress: told of rows that are done, and again after each partition. Those that an earlier run has
        answered are in a stage of their own (`progress.FOUND`), and a note says that it goes on with that run.
    options: what was asked for, for the manifest.
    mapped: how partitions are explained, if not one after the other in this process.
    """
    chunk = chunk_for(task, stays=is_folder(target)) if chunk is None else chunk
    if chunk < 1:
        raise DataError("", [Fault(f"chunk {chunk!r}", "is not a number of rows", "Give 1 or more.")])
    key = checked_key(key)
    mapped = mapped or InProcess(explain, SliceReader(task, index, strict=strict))
    local = folder_of(target).local
    # Elsewhere there are no locks; what two runs write there is the same to the byte.
    with nullcontext() if local is None else only_run(Path(Place.of(target).path)):
        rows = RowFiles(source, task, index, strict=strict)
        whole = fingerprint(identity, chunk, *(() if index is None else (index,)))
        partitions = list(_partitions(rows, folder_of(target).whole, chunk, needed=not is_folder(target)))
        if rows.failed and not is_folder(target):
            raise DataError("; ".join(rows.failed.values()))
        about = {"chunk": chunk, "options": dict(options or {}), "sources": _sources(rows)}
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


def _sources(rows: RowFiles) -> list[dict[str, Any]]:
    return [{"address": file.place.whole, "rows": file.total} for file in rows.files]


class _Told:
    """Who wants to know is told of rows within partitions, and of partitions with their statuses."""

    def __init__(self, total: int, on_progress: OnProgress, done: int, counts: Counter[str]) -> None:
        self.total, self.on_progress, self.done, self.counts = total, on_progress, done, counts
        self.rows = RowCount(total, on_progress, done)

    def within(self, event: Progress) -> None:
        """Some rows of a partition are done."""
        self.rows.tell(event)

    def add(self, part: Part, words: str) -> None:
        """A partition is done."""
        self.done += part.rows
        self.counts.update({"failed": part.rows} if part.failure else part.about["counts"])
        self.rows = RowCount(self.total, self.on_progress, self.done)
        statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(self.counts.items()))
        self.on_progress(Progress(EXPLAINING, self.done, self.total, detail="; ".join(filter(None, (statuses, words)))))


def _explained(
    folder: PartFolder,
    partitions: Sequence[Partition],
    rows: RowFiles,
    mapped: Mapped,
    key: bytes | None,
    on_progress: OnProgress,
) -> Streamed:
    """Every partition's part, made now or by an earlier run, and what they are together."""
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
            begin = f"going on after row {done:,}: the answers before it" if is_first else f"going on: {done:,} answers"
            on_progress(Progress(EXPLAINING, done, total, f"{begin} are kept from the run that was stopped"))
    told = _Told(total, on_progress, done, counts)
    if left:
        with closing(mapped(left, told.within)) as parts:
            for part in parts:
                folder.add(part)
                told.add(part, mapped.words)
    folder.failed |= rows.failed
    if not folder.parts:
        raise DataError("; ".join(folder.failed.values()))
    return folder.finish(key)
