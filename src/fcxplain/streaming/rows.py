"""Read rows of parquet and CSV files in chunks: the features only, labelled, in the dtypes of the task."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..datasets.delimited import in_chunks
from ..datasets.tables import TextRows, existing, is_parquet, reading_parquet
from ..errors import DataError, FcxError
from ..hashing import fingerprint
from ..overrides import Overrides
from ..overrides.overrides import as_written, positions
from ..schema import Feature
from ..schema.column import is_numeric
from ..schema.feature import plain
from ..schema.inference import called_by
from ..storage import Place, is_several, table_files
from ..task import Task

# Rows and labels read at a time, and labels kept as examples of those in a file.
READ, CHUNK, SHOWN = 20_000, 100_000, 1_000
COUNTED = {"start": 0, "step": 1}


class RowFile:
    """A file of rows to explain; `total` is their number.

    Rows are labelled by the column `index`; without one, by the file's own index or by their number. If rows are
    numbered across several files, `first` is the number of this file's first row.
    """

    def __init__(
        self,
        source: str | Path | Place,
        task: Task,
        index: str | None = None,
        *,
        strict: bool = True,
        first: int | None = None,
    ) -> None:
        self.place = source if isinstance(source, Place) else Place.of(source)
        self.path, self.task, self.index, self.first = self.place.given, task, index, first
        if self.place.local is not None:
            existing(self.place.local)
        self.text: TextRows | None = None
        self.starts, self.levels = [0], list[Any]()
        """Where reading can begin, and the levels of the labels: names of columns, or ranges of numbers."""
        remote = self.place.name.lower().endswith((".parquet", ".pq"))
        if remote if self.place.local is None else is_parquet(self.place.local):
            with reading_parquet(self.path):
                layout = self._parquet()
        else:
            self.text = TextRows(self.place.on_this_machine(), task.schema, index, strict=strict)
            self.total, self.names = self.text.total, self.text.file.header
            self.levels = [dict(COUNTED) if index is None else index]
            layout = f"{self.text.file.encoding} {self.text.file.separator} {self.names}"
        if first is not None:
            self.levels = [COUNTED | {"start": first}]
        self.identity = fingerprint(self.place.identity(), layout)
        self._at, self._held = 0, list[Any]()
        self._coming: Iterator[Any] | None = None

    def check_columns(self) -> None:
        """Refuse a file that lacks columns, before any of its rows is read."""
        self.task.schema.columns_of(pd.DataFrame(columns=list(dict.fromkeys(self.names))))

    def chunks(self, size: int) -> Iterator[pd.DataFrame]:
        """Chunks of this many rows; the last may be smaller."""
        for start in range(0, self.total, size):
            yield self.between(start, min(start + size, self.total))

    def between(self, start: int, stop: int) -> pd.DataFrame:
        """Read these rows, continuing from the last ones if possible, or else from the start of their row group."""
        coming, self._coming = self._coming, None
        begin, end = self.starts[bisect(self.starts, start) - 1], self._at + sum(map(len, self._held))
        if coming is None or start < self._at or begin > end:
            self._at, self._held, coming = begin, [], self._pieces(begin)
            end = begin
        while end < stop:
            piece = next(coming, None)
            if piece is None:
                raise DataError(f"{self.path} ends before row {stop:,}, although it claims to have {self.total:,}")
            self._held.append(piece)
            end += len(piece)
            while self._held and self._at + len(self._held[0]) <= start:
                self._at += len(self._held.pop(0))
        whole = _joined(self._held)
        found, rest = _cut(whole, start - self._at, stop - self._at), _cut(whole, stop - self._at, len(whole))
        # Set last: after an error, reading must start again.
        self._at, self._held, self._coming = stop, [rest], coming
        return self._labelled(found, start) if self.text is None else self._typed(found)

    def labels(self, size: int) -> Iterator[pd.Index]:
        """The labels of the rows in chunks, without reading the features."""
        if all(isinstance(level, dict) for level in self.levels):
            for start in range(0, self.total, size):
                rows = min(size, self.total - start)
                yield _indexed([_range(level, start, rows) for level in self.levels])
        elif self.text is not None:
            yield from self.text.labels(size)
        else:
            columns, done = [name for name in self.levels if isinstance(name, str)], 0
            for table in in_chunks(self._batches(0, columns), size):
                yield self._labelled(table, done).index
                done += table.num_rows

    def _pieces(self, begin: int) -> Iterator[Any]:
        """Read from a possible starting row to the end."""
        if self.text is not None:
            return self.text.chunks(READ)
        return self._batches(begin, [n for n in self.names if n in self.task.schema or n in self.levels])

    # Parquet

    def _opened(self) -> pq.ParquetFile:
        return pq.ParquetFile(self.place.path, filesystem=self.place.system)

    def _parquet(self) -> str:
        with self._opened() as file:
            schema, about = file.schema_arrow, file.metadata
        self.names, self.total = schema.names, about.num_rows
        groups = (about.row_group(i).num_rows for i in range(about.num_row_groups))
        self.starts = np.cumsum([0, *groups]).tolist()[:-1] or [0]
        described = (schema.pandas_metadata or {}).get("index_columns", [])
        # pandas stores a level of an index as a column or as a range.
        self.levels = [c for c in described if isinstance(c, dict) or c in self.names] or [dict(COUNTED)]
        if self.index is not None and self.levels != [self.index]:
            # A missing column is refused before any row is explained.
            called_by(pd.DataFrame(columns=self.names), self.index, self.task.schema, str(self.path))
            self.levels = [self.index]
        return str(schema.remove_metadata())

    def _batches(self, begin: int, columns: list[str]) -> Iterator[pa.Table]:
        with reading_parquet(self.path), self._opened() as file:
            # One group at a time, so that a damaged one affects its own rows only.
            for group in range(self.starts.index(begin), file.metadata.num_row_groups):
                for batch in file.iter_batches(batch_size=READ, row_groups=[group], columns=columns):
                    yield pa.Table.from_batches([batch])

    def _labelled(self, table: pa.Table, done: int) -> pd.DataFrame:
        frame = table.unify_dictionaries().to_pandas()
        if self.index in frame.columns:
            return called_by(frame, self.index, self.task.schema, str(self.path))
        columns = iter(range(frame.index.nlevels))
        levels = [
            _range(level, done, len(frame)) if isinstance(level, dict) else frame.index.get_level_values(next(columns))
            for level in self.levels
        ]
        return frame.set_axis(_indexed(levels), axis=0)

    def _typed(self, table: pd.DataFrame) -> pd.DataFrame:
        """Convert text columns to the dtypes of the task's rows, where these can hold them."""
        dtypes, index = self.task.dtypes, table.index if self.first is None else table.index + self.first
        columns = {name: _column(self.task.schema[name], table[name], dtypes[name]) for name in table.columns}
        return pd.DataFrame(columns, table.index).set_axis(index, axis=0)


def _cut(table: Any, start: int, stop: int) -> Any:
    return table.slice(start, stop - start) if isinstance(table, pa.Table) else table.iloc[start:stop]


def _joined(tables: Sequence[Any]) -> Any:
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(tables) if isinstance(tables[0], pa.Table) else pd.concat(tables)


@dataclass(frozen=True)
class Slice:
    """Rows `start` to `stop` of a file; `first` as in `RowFile`."""

    address: str
    start: int
    stop: int
    first: int | None = None


class RowFiles:
    """All rows of a file, of a folder of files, or of the files of a glob, one file after the other.

    If one of several files cannot be opened or lacks a column, it is left out: `failed` says why. If each of several
    files numbers its own rows, rows are numbered across all files, unless the numbers already continue.
    """

    def __init__(self, source: str | Path, task: Task, index: str | None = None, *, strict: bool = True) -> None:
        self.files, self.failed = list[RowFile](), dict[str, str]()
        places = table_files(source) if is_several(source) else [Place.of(source)]
        for place in places:
            try:
                file = RowFile(place, task, index, strict=strict)
                file.check_columns()
                if strict:
                    for table in file.chunks(READ):
                        task.validate(table)
            except FcxError as error:
                if len(places) == 1:
                    raise
                self.failed[str(place)] = str(error)
            else:
                self.files.append(file)
        if not self.files:
            raise DataError("; ".join(f"{name}: {reason}" for name, reason in self.failed.items()))
        self.total = sum(file.total for file in self.files)
        if not self.total:
            raise DataError(f"{source} has no rows")
        self._number()

    def _number(self) -> None:
        filled = [file for file in self.files if file.total]
        if not all(len(file.levels) == 1 and isinstance(file.levels[0], dict) for file in filled):
            return
        ranges = [_range(file.levels[0], 0, file.total) for file in filled]
        if all(a.name == b.name and 0 < a.step == b.step and a.stop <= b.start for a, b in pairwise(ranges)):
            return
        before = 0
        for file in self.files:
            file.first, before = before, before + file.total
            file.levels = [COUNTED | {"start": file.first}]

    def cut(self, size: int) -> Iterator[tuple[Slice, ...]]:
        """Slices of this many rows, counted across all files, so that it does not matter where a file ends."""
        held, rows = list[Slice](), 0
        for file in self.files:
            start = 0
            while start < file.total:
                stop = min(file.total, start + size - rows)
                held.append(Slice(file.place.whole, start, stop, file.first))
                rows, start = rows + stop - start, stop
                if rows == size:
                    yield tuple(held)
                    held, rows = [], 0
        if held:
            yield tuple(held)

    def labels(self, size: int) -> Iterator[pd.Index]:
        """The labels of the rows in chunks of at most this size."""
        for file in self.files:
            yield from file.labels(size)

    def read(self) -> pd.DataFrame:
        """All rows at once."""
        return _joined([table for file in self.files for table in file.chunks(file.total)])


class SliceReader:
    """Reads slices of files, continuing in a file where it stopped."""

    def __init__(self, task: Task, index: str | None, *, strict: bool) -> None:
        self.task, self.index, self.strict = task, index, strict
        self._last: tuple[tuple[str, int | None], RowFile] | None = None

    def read(self, slices: Sequence[Slice]) -> pd.DataFrame:
        """The rows of all these slices."""
        return _joined([self._file(piece).between(piece.start, piece.stop) for piece in slices])

    def _file(self, piece: Slice) -> RowFile:
        key = (piece.address, piece.first)
        if self._last is None or self._last[0] != key:
            file = RowFile(piece.address, self.task, self.index, strict=self.strict, first=piece.first)
            self._last = key, file
        return self._last[1]


def _indexed(levels: Sequence[pd.Index]) -> pd.Index:
    return levels[0] if len(levels) == 1 else pd.MultiIndex.from_arrays(levels)


def _range(described: dict[str, Any], done: int, rows: int) -> pd.RangeIndex:
    """Row numbers, from the start of the chunk."""
    step = described["step"]
    start = described["start"] + done * step
    return pd.RangeIndex(start, start + rows * step, step, name=described.get("name"))


def _column(feature: Feature, values: pd.Series, dtype: Any) -> pd.Series:
    """A column in the dtype of the task's rows, if that can hold all of it."""
    if feature.is_number and not is_numeric(values):
        return values
    if feature.is_category:
        return values.astype(dtype) if values.isin(feature.levels).all() else values.astype(object)
    # Next to text that is not a number, numbers are objects.
    values = values.astype(np.float64) if values.dtype == object else values
    whole = values.notna().all() and pd.api.types.is_integer_dtype(dtype) and (values == np.rint(values)).all()
    return values.astype(dtype) if whole or pd.api.types.is_float_dtype(dtype) else values.astype(np.float64)


def matched(overrides: pd.DataFrame, source: str | Path, task: Task, index: str | None = None) -> pd.DataFrame:
    """The overrides, with the labels of the files; all their faults are raised at once."""
    rows = pd.DataFrame(index=_near(overrides.index, RowFiles(source, task, index, strict=False)))
    Overrides.read(overrides, rows, task)
    return overrides.set_axis(rows.index[positions(overrides, rows, [])], axis=0)


def _near(wanted: pd.Index, file: RowFiles) -> pd.Index:
    """Labels of the files that may match, and the first ones, so that a large file is never held in memory."""
    exact, written = {plain(label) for label in wanted.tolist()}, {as_written(label) for label in wanted.tolist()}
    kept, seen = [pd.Index([])], 0
    for labels in file.labels(CHUNK):
        near = [plain(label) in exact or as_written(label) in written for label in labels.tolist()]
        kept.append(labels[np.array(near, dtype=bool) | (np.arange(len(labels)) < SHOWN - seen)])
        seen += len(labels)
    return kept[-1] if len(kept) < 3 else kept[1].append(kept[2:])
