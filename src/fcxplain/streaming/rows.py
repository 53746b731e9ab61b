"""The rows of a parquet or CSV file, some at a time: the features alone, labelled, in the dtypes of the task's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..datasets.delimited import in_chunks
from ..datasets.tables import TextRows, existing, is_parquet, reading_parquet
from ..hashing import fingerprint
from ..overrides import Overrides
from ..overrides.labels import as_written, positions
from ..schema import Feature
from ..schema.column import is_numeric
from ..schema.feature import plain
from ..schema.roles import called_by
from ..task import Task


class RowFile:
    """A file of rows to explain. `total` is how many there are, None where only reading them would tell.

    Rows are called by the column `index`; without one, by the file's own index or by their number.
    """

    def __init__(self, path: Path, task: Task, index: str | None = None, *, strict: bool = True) -> None:
        self.path, self.task, self.index = existing(path), task, index
        self.total: int | None = None
        self.text = None if is_parquet(self.path) else TextRows(self.path, task.schema, index, strict=strict)
        if self.text is not None:
            layout = f"{self.text.file.encoding} {self.text.file.separator} {self.text.file.header}"
        else:
            with reading_parquet(self.path):
                layout = self._parquet()
        state = self.path.stat()
        self.identity = fingerprint(state.st_size, state.st_mtime_ns, layout)

    def chunks(self, size: int) -> Iterator[pd.DataFrame]:
        """So many rows at a time; the last may be fewer."""
        if self.text is not None:
            yield from map(self._typed, self.text.chunks(size))
            return
        with reading_parquet(self.path):
            names = pq.ParquetFile(self.path).schema_arrow.names
        yield from self._tables(size, [n for n in names if n in self.task.schema or n in self.levels])

    def labels(self, size: int) -> Iterator[pd.Index]:
        """The labels of the rows, so many at a time, without reading the features."""
        if self.text is not None:
            yield from self.text.labels(size)
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
            # A column that is not there is refused before any row is explained.
            called_by(pd.DataFrame(columns=names), self.index, self.task.schema, str(self.path))
            self.levels = [self.index]
        return str(schema.remove_metadata())

    def _tables(self, size: int, wanted: Sequence[Any]) -> Iterator[pd.DataFrame]:
        done, columns = 0, [name for name in wanted if isinstance(name, str)]
        # Batches end where row groups do, so that some are put together.
        for table in in_chunks(self._batches(size, columns), size):
            yield self._labelled(table, done)
            done += table.num_rows

    def _batches(self, size: int, columns: list[str]) -> Iterator[pa.Table]:
        with reading_parquet(self.path):
            for batch in pq.ParquetFile(self.path).iter_batches(batch_size=size, columns=columns):
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
        """Text that was read, in the dtypes of the task's rows where they can hold it."""
        dtypes = self.task.dtypes
        return pd.DataFrame(
            {name: _column(self.task.schema[name], table[name], dtypes[name]) for name in table.columns}, table.index
        )


def _indexed(levels: Sequence[pd.Index]) -> pd.Index:
    return levels[0] if len(levels) == 1 else pd.MultiIndex.from_arrays(levels)


def _range(described: dict[str, Any], done: int, rows: int) -> pd.RangeIndex:
    """Labels that are counted, from where the chunk begins."""
    step = described["step"]
    start = described["start"] + done * step
    return pd.RangeIndex(start, start + rows * step, step, name=described.get("name"))


def _column(feature: Feature, values: pd.Series, dtype: Any) -> pd.Series:
    """A column in the dtype of the task's rows, if all of it can be."""
    if feature.is_number and not is_numeric(values):
        return values
    if feature.is_category:
        return values.astype(dtype) if values.isin(feature.levels).all() else values.astype(object)
    whole = values.notna().all() and pd.api.types.is_integer_dtype(dtype) and (values == np.rint(values)).all()
    return values.astype(dtype) if whole or pd.api.types.is_float_dtype(dtype) else values.astype(np.float64)


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
