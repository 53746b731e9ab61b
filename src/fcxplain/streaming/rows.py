"""The rows of a parquet or CSV file, some at a time: the features alone, labelled, in the dtypes of the task's rows."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..datasets.delimited import MISSING, SEPARATORS, Unpacked, unguarded, unguarded_column
from ..errors import DataError, Fault, also, did_you_mean, some
from ..hashing import fingerprint
from ..overrides import Overrides
from ..overrides.labels import as_written, positions
from ..schema import Feature, level_named
from ..schema.feature import plain
from ..schema.roles import called_by
from ..task import Task

PARQUET = (".parquet", ".pq")


class RowFile:
    """A file of rows to explain. `total` is how many there are, None where only reading them would tell.

    Rows are called by the column `index`; without one, by the file's own index or by their number.
    """

    def __init__(self, path: Path, task: Task, index: str | None = None) -> None:
        self.path, self.task, self.index = path.expanduser(), task, index
        self.total: int | None = None
        if not self.path.is_file():
            names = [p.name for p in self.path.parent.glob("*")] if self.path.parent.is_dir() else []
            raise also(DataError, FileNotFoundError)(
                f"there is no file {path}. {did_you_mean(path.name, names)}".rstrip()
            )
        self.is_parquet = _is_parquet(self.path)
        with _reading(self.path):
            layout = self._parquet() if self.is_parquet else self._delimited()
        state = self.path.stat()
        self.identity = fingerprint(state.st_size, state.st_mtime_ns, layout)

    def chunks(self, size: int) -> Iterator[pd.DataFrame]:
        """So many rows at a time; the last may be fewer."""
        found = self._parquet_chunks(size) if self.is_parquet else self._delimited_chunks(size)
        while True:
            with _reading(self.path):
                table = next(found, None)
            if table is None:
                return
            yield table

    def labels(self, size: int) -> Iterator[pd.Index]:
        """The labels of the rows, so many at a time, without reading the features."""
        with _reading(self.path):
            if not self.is_parquet:
                places = [0] if self.index is None else [self.header.index(self.index)]
                yield from (self._named(text).index for text in self._text(size, places))
            elif self.total is not None and all(isinstance(level, dict) for level in self.levels):
                for start in range(0, self.total, size):
                    rows = min(size, self.total - start)
                    yield _indexed([_range(level, start, rows) for level in self.levels])
            else:
                yield from (table.index for table in self._tables(size, self.levels))

    # Parquet

    def _parquet(self) -> str:
        file = pq.ParquetFile(self.path)
        schema, names = file.schema_arrow, file.schema_arrow.names
        self.total = file.metadata.num_rows
        described = (schema.pandas_metadata or {}).get("index_columns", [])
        # pandas keeps a level of an index as a column, or as the range that it is.
        self.levels: list[Any] = [c for c in described if isinstance(c, dict) or c in names]
        self.levels = self.levels or [{"start": 0, "step": 1}]
        if self.index is not None and self.levels != [self.index]:
            self._check_index(names)
            self.levels = [self.index]
        return str(schema.remove_metadata())

    def _parquet_chunks(self, size: int) -> Iterator[pd.DataFrame]:
        names = pq.ParquetFile(self.path).schema_arrow.names
        return self._tables(size, [n for n in names if n in self.task.schema or n in self.levels])

    def _tables(self, size: int, wanted: Sequence[Any]) -> Iterator[pd.DataFrame]:
        held, done, columns = [], 0, [name for name in wanted if isinstance(name, str)]
        for batch in pq.ParquetFile(self.path).iter_batches(batch_size=size, columns=columns):
            held.append(pa.Table.from_batches([batch]))
            # Batches end where row groups do, so that some are put together.
            while sum(t.num_rows for t in held) >= size:
                table = pa.concat_tables(held)
                yield self._labelled(table.slice(0, size), done)
                held, done = [table.slice(size)], done + size
        table = pa.concat_tables(held) if held else None
        if table is not None and table.num_rows:
            yield self._labelled(table, done)

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

    # Delimited text

    def _delimited(self) -> str:
        with _opened(self.path) as file:
            header = file.readline()
        marks = {mark: next(csv.reader([header], delimiter=mark), []) for mark in SEPARATORS}
        marks = {mark: [unguarded(name.strip()) for name in names] for mark, names in marks.items()}
        schema = self.task.schema
        # The features are known, so that the separator is the one that shows them.
        self.separator = max(marks, key=lambda mark: sum(n in schema for n in marks[mark]))
        self.header = marks[self.separator]
        twice = sorted({n for n in self.header if n in schema and self.header.count(n) > 1})
        if self.index is not None:
            self._check_index(self.header)
        if twice:
            faults = [Fault(f"column {n!r}", "stands in the header more than once", "Rename one.") for n in twice]
            raise DataError(f"{self.path} has a header that cannot be used", faults)
        return header

    def _delimited_chunks(self, size: int) -> Iterator[pd.DataFrame]:
        places = [i for i, name in enumerate(self.header) if name in self.task.schema or name == self.index]
        for chunk in self._text(size, places):
            yield self._read(self._named(chunk))

    def _text(self, size: int, places: Sequence[int]) -> Iterator[pd.DataFrame]:
        """Some of the columns, as they are written."""
        with _opened(self.path) as file:
            yield from pd.read_csv(
                file,
                sep=self.separator,
                header=0,
                names=list(range(len(self.header))),
                usecols=places,
                dtype=str,
                keep_default_na=False,
                skipinitialspace=True,
                index_col=False,
                chunksize=size,
            )

    def _named(self, text: pd.DataFrame) -> pd.DataFrame:
        """Columns and rows under their names."""
        named = text.apply(unguarded_column).set_axis([self.header[i] for i in text.columns], axis=1)
        return called_by(named, self.index, self.task.schema, str(self.path))

    def _check_index(self, columns: Sequence[str]) -> None:
        """Refuse a column that is not there before any row is explained."""
        called_by(pd.DataFrame(columns=list(columns)), self.index, self.task.schema, str(self.path))

    def _read(self, text: pd.DataFrame) -> pd.DataFrame:
        """Text as values; what cannot be read is told for all columns at once."""
        features = [self.task.schema[name] for name in text.columns]
        faults = [fault for f in features if f.is_number for fault in _unreadable(f, text[f.name])]
        if faults:
            raise DataError(f"{self.path} has numbers that cannot be read", faults)
        return pd.DataFrame({f.name: _column(f, text[f.name], self.task.dtypes[f.name]) for f in features})


def columns_of(path: Path) -> list[str]:
    """The names of a parquet file's columns; none where it cannot be read, which explaining it will say."""
    try:
        return list(pq.ParquetFile(path.expanduser()).schema_arrow.names)
    except (OSError, pa.ArrowException):
        return []


def _indexed(levels: Sequence[pd.Index]) -> pd.Index:
    return levels[0] if len(levels) == 1 else pd.MultiIndex.from_arrays(levels)


def _range(described: dict[str, Any], done: int, rows: int) -> pd.RangeIndex:
    """Labels that are counted, from where the chunk begins."""
    step = described["step"]
    start = described["start"] + done * step
    return pd.RangeIndex(start, start + rows * step, step, name=described.get("name"))


def _column(feature: Feature, text: pd.Series, dtype: Any) -> pd.Series:
    """A column of text as the feature's values."""
    if feature.is_number:
        values = _numbers(text)
        whole = values.notna().all() and pd.api.types.is_integer_dtype(dtype) and (values == np.rint(values)).all()
        return values.astype(dtype) if whole or pd.api.types.is_float_dtype(dtype) else values
    levels = text.map({t: _level(feature, t) for t in text.unique()}).astype(object)
    is_known = levels.isin(feature.levels).all()
    return levels.astype(dtype) if is_known else levels


def _level(feature: Feature, text: str) -> Any:
    """The level that is written so; what is none stays as it is, for the schema to refuse."""
    if pd.isna(text) or text.strip() in set(MISSING) - set(map(str, feature.levels)):
        return None
    found = level_named(text.strip(), feature.levels)
    return text if found is None else found


def _numbers(text: pd.Series) -> pd.Series:
    return pd.to_numeric(text.str.strip(), errors="coerce").astype(np.float64)


def _unreadable(feature: Feature, text: pd.Series) -> list[Fault]:
    odd = (_numbers(text).isna() & text.notna() & ~text.str.strip().isin(MISSING)).to_numpy(dtype=bool)
    if not odd.any():
        return []
    remedy = "Write numbers as 1234.5, or convert the file to parquet."
    first = text.index[int(odd.argmax())]
    return [Fault(f"column {feature.name!r}", f"is {some([text[first]])}", remedy, int(odd.sum()), first)]


def _is_parquet(path: Path) -> bool:
    with _reading(path), path.open("rb") as file:
        return file.read(4) == b"PAR1" or path.suffix.lower() in PARQUET


def _opened(path: Path) -> TextIO:
    return io.TextIOWrapper(io.BufferedReader(Unpacked(path)), encoding="utf-8-sig", newline="")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (
        OSError,
        EOFError,
        zlib.error,
        pa.ArrowException,
        csv.Error,
        pd.errors.ParserError,
        pd.errors.EmptyDataError,
    ) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8 ({error}); convert it, or give a parquet file") from error


# Labels read at a time, and how many are kept to show what the file's labels look like.
CHUNK, SHOWN = 100_000, 1_000


def matched(overrides: pd.DataFrame, source: Path, task: Task, index: str | None = None) -> pd.DataFrame:
    """The overrides, labelled as the file labels its rows; everything that is wrong with them is raised at once."""
    rows = pd.DataFrame(index=_near(overrides.index, RowFile(source, task, index)))
    if not len(rows):
        # A file without rows is refused as such.
        return overrides
    Overrides.read(overrides, rows, task)
    return overrides.set_axis(rows.index[positions(overrides, rows, [])], axis=0)


def _near(wanted: pd.Index, file: RowFile) -> pd.Index:
    """Labels of the file that may be meant, and the first of all, so that a large file is never held as a whole."""
    exact, written = {plain(label) for label in wanted.tolist()}, {as_written(label) for label in wanted.tolist()}
    kept, seen = [pd.Index([])], 0
    for labels in file.labels(CHUNK):
        near = [plain(label) in exact or as_written(label) in written for label in labels.tolist()]
        kept.append(labels[np.array(near, dtype=bool) | (np.arange(len(labels)) < SHOWN - seen)])
        seen += len(labels)
    return kept[-1] if len(kept) < 3 else kept[1].append(kept[2:])
