"""Partitions and parts: which rows are explained together, the files of their answers, and the folder of these files.

Each partition's answers are one file, written once under its final name, in a folder with a manifest. That folder is
the result, or becomes one file when all parts are complete.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import DataError, Fault, some
from ..explanation import Effort
from ..explanation.files.digest import DIGEST, Digest
from ..explanation.files.parquet import (
    COMPRESSION,
    FOLDER_FORMAT,
    KEY,
    ROW_GROUP,
    is_ours,
    is_part,
    part_name,
    read_manifest,
    write_manifest,
)
from ..files import replacing
from ..hashing import fingerprint
from ..storage import Place
from .rows import Slice

# Added to the name of a file to name the folder of its parts.
ENDING = ".parts"
# Seconds between two writes of the manifest; parts that it does not list yet must be read in full to be trusted.
OFTEN = 30.0


@dataclass(frozen=True)
class Partition:
    """Some rows, where to read them and where to write their answers; plain data, to be sent between processes."""

    number: int
    folder: str
    rows: int
    slices: tuple[Slice, ...]
    identity: str
    """A fingerprint of the rows: which files, which of their rows, and the labels of these."""
    needed: bool
    """Whether the run fails without it."""

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
        """The file of its answers."""
        return Place.of(self.folder) / part_name(self.number)


@dataclass(frozen=True)
class Part:
    """The result of a partition: the file of its answers with its metadata, or why it failed."""

    number: int
    rows: int
    about: Mapping[str, Any]
    size: int = 0
    digest: str = ""
    layout: str = ""
    """A fingerprint of its columns."""
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
        """Its entry in the manifest."""
        said = {"rows": self.rows, "counts": self.about["counts"], "bytes": self.size, "digest": self.digest}
        return {"name": part_name(self.number), **said, "effort": asdict(self.effort), "identity": identity}


def is_folder(target: str | Path) -> bool:
    """Whether answers go to a folder: the name has no extension or ends in a slash, or there is a folder."""
    place = Place.of(target)
    return str(target).endswith("/") or "." not in place.name or place.is_folder


class PartFolder:
    """The folder of one run's parts: the target itself, or a folder next to the file that they will become.

    As a context manager, it removes a folder next to a file unless it holds a part to resume from.
    """

    def __init__(self, target: str | Path, identity: str, about: dict[str, Any], *, overwrite: bool) -> None:
        self.target, self.is_target = Place.of(target), is_folder(target)
        self.place, self.identity, self.about = folder_of(target), identity, about
        self.parts, self.failed, self.written = dict[int, Part](), dict[str, str](), 0.0
        if not self.is_target and self.target.local is None:
            fault = Fault(str(target), "is a file that is not on this machine", "Name a folder there for the answers.")
            raise DataError("", [fault])
        with writing(self.place):
            if self.place.is_folder or self.place.is_file:
                self._enter(overwrite=overwrite)
            self.place.make_folder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # The error that ended the run matters more than a manifest that could not be written either.
        with suppress(DataError):
            if kind is not None and self.parts:
                self.write(ended=False)
            elif kind is not None and not _rows_in(self.place):
                self.remove()

    def _enter(self, *, overwrite: bool) -> None:
        """Remove the unfinished files of a killed run or, with `overwrite`, all that an earlier run has left."""
        foreign = [p.name for p in self.place.content() if not (p.name.startswith(".") or is_ours(p.name))]
        if not self.place.is_folder or foreign:
            problem = f"is not a folder of answers ({some(foreign or ['a file'])})"
            raise DataError("", [Fault(str(self.place), problem, "Move it away, or choose another name.")])
        for file in self._own():
            if overwrite or file.name.startswith("."):
                file.remove()

    def _own(self) -> list[Place]:
        """Our files in the folder: parts, the manifest, and files that a killed run was still writing."""
        return [place for place in self.place.content() if is_ours(place.name)]

    def take_over(self, partitions: Sequence[Partition]) -> None:
        """Keep the parts that an earlier run with the same settings has finished; remove those of other rows."""
        before = read_manifest(self.place)
        there = {p.name: p for p in self.place.content() if is_part(p.name)}
        known = {} if before is None else {entry["name"]: entry for entry in before["parts"]}
        planned = {part_name(p.number): p for p in partitions}
        alike = {name for name, p in planned.items() if known.get(name, {}).get("identity") == p.identity}
        if there and (before is None or before.get("identity") != self.identity or not alike):
            problem = "holds parts of another run: other rows, another model, or other options"
            remedy = "Delete that folder, or pass overwrite=True, to start again."
            raise DataError("", [Fault(str(self.place), problem, remedy)])
        for name, partition in planned.items():
            part = whole_part(partition, known[name]) if name in there and name in alike else None
            if part is not None:
                self.parts[partition.number] = part
                del there[name]
        for damaged in there.values():
            damaged.remove()

    def add(self, part: Part) -> None:
        """Add the result of a partition; the manifest is written every so often."""
        if part.failure:
            self.failed[part_name(part.number)] = part.failure
        else:
            self.parts[part.number] = part
            if part.layout != next(iter(self.parts.values())).layout:
                problem = "has other columns than the first part; all row labels must have the same type"
                remedy = "Give all rows labels of one type, and start again."
                raise DataError("", [Fault(str(self.place / part_name(part.number)), problem, remedy)])
        if time.monotonic() - self.written > OFTEN:
            self.write(ended=False)

    def write(self, *, ended: bool, key: bytes | None = None) -> None:
        """Write the manifest for the parts that are finished."""
        self.written = time.monotonic()
        with writing(self.place):
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
        """A summary of all parts: counts added up, each note once."""
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

    def finish(self, key: bytes | None) -> dict[str, Any]:
        """Write the manifest with its digest, or one file in place of the folder; return a summary of all parts."""
        about = self.together()
        if self.is_target:
            self.write(ended=True, key=key)
        else:
            self._join(about, key)
        return about

    def _join(self, about: dict[str, Any], key: bytes | None) -> None:
        """Write one file from all parts, with a digest of the whole, and remove the parts."""
        paths = [Path((self.place / part_name(number)).path) for number in sorted(self.parts)]
        schema = pq.read_schema(paths[0])
        final = schema.with_metadata({**schema.metadata, KEY: json.dumps(about, ensure_ascii=False).encode()})
        digest = Digest(final)
        # A file's metadata is written before its rows, so the parts are read twice.
        with writing(self.target):
            for table in _gathered(paths):
                digest.update(table)
        final = final.with_metadata({**final.metadata, DIGEST: digest.stored(key)})
        with (
            writing(self.target),
            replacing(self.target.path) as temporary,
            pq.ParquetWriter(temporary, final, compression=COMPRESSION) as writer,
        ):
            for table in _gathered(paths):
                writer.write_table(table.replace_schema_metadata(final.metadata), row_group_size=table.num_rows)
        self.remove()

    def remove(self) -> None:
        """Remove our files, and the folder if nothing else is in it."""
        with writing(self.place):
            for file in self._own():
                file.remove()
            if not self.place.content():
                self.place.remove()


def folder_of(target: str | Path) -> Place:
    """The folder that holds the parts of a run with this target."""
    place = Place.of(target)
    return place if is_folder(target) else Place.of(f"{place.address}{ENDING}")


def kept_rows(target: str | Path) -> int:
    """The number of rows that are answered in the parts of an unfinished run."""
    return _rows_in(folder_of(target))


def _rows_in(folder: Place) -> int:
    schemas = (_schema(place) for place in folder.content() if is_part(place.name))
    return sum(int(json.loads(schema.metadata[KEY])["rows"]) for schema in schemas if schema is not None)


def _schema(place: Place) -> pa.Schema | None:
    """The schema of a part, with its metadata; None if the file is absent or damaged, and has to be made again."""
    try:
        schema = pq.read_schema(place.path, filesystem=place.system)
        return schema if int(json.loads(schema.metadata[KEY])["rows"]) else None
    except (OSError, pa.ArrowException, LookupError, ValueError, TypeError):
        return None


def layout_of(schema: pa.Schema) -> str:
    """A fingerprint of columns and their types."""
    return fingerprint(schema.remove_metadata().to_string(show_field_metadata=True))


def whole_part(partition: Partition, entry: Mapping[str, Any] | None = None) -> Part | None:
    """The part of a partition if its file is complete, by the manifest's entry or else by its own digest."""
    place, entry = partition.place, entry or {}
    schema = _schema(place)
    about = {} if schema is None else json.loads(schema.metadata[KEY])
    if schema is None or about["rows"] != partition.rows:
        return None
    part = Part(partition.number, partition.rows, about, int(place.info().size), layout=layout_of(schema))
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
    """The rows of all parts; small parts are merged, since many small row groups make a file large and slow to read."""
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
def writing(place: Place) -> Iterator[None]:
    """Raise a `DataError` if anything cannot be written to this place."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot write {place}: {getattr(error, 'strerror', None) or error}") from error
