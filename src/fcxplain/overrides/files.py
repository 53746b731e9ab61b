"""A file of overrides as a table: CSV and its kin, parquet or JSON, with the rows' labels in a column `row`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from ..datasets.delimited import read_delimited
from ..errors import DataError, Fault, did_you_mean, some

ROW = "row"


def read_overrides(path: str | Path) -> pd.DataFrame:
    """The table of a file, indexed by its column `row`, for `Overrides.read`; empty cells of a CSV file are missing.

    JSON is a list of objects with an entry `row`, or an object of objects by the rows' labels.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        near = did_you_mean(path.name, [p.name for p in path.parent.glob("*")] if path.parent.is_dir() else ())
        raise DataError(f"there is no file {path}. {near}".rstrip())
    readers = {".json": _json, ".parquet": _parquet, ".pq": _parquet}
    return _indexed(path, readers.get(path.suffix.lower(), _delimited)(path))


def _delimited(path: Path) -> pd.DataFrame:
    text = read_delimited(path).table.astype(object)
    return text.where(text != "", None)


def _parquet(path: Path) -> pd.DataFrame:
    try:
        table = pa.parquet.ParquetFile(path).read().to_pandas(maps_as_pydicts="strict")
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as parquet: {error}") from error
    return table.reset_index() if table.index.name == ROW else table


def _json(path: Path) -> pd.DataFrame:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}") from error
    if isinstance(content, dict):
        content = [{ROW: label, **row} if isinstance(row, dict) else row for label, row in content.items()]
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise DataError(f"{path} is neither a list of objects nor an object of objects by the rows' labels")
    return _objects(content)


def _objects(records: list[dict[str, Any]]) -> pd.DataFrame:
    """Records as a table of bare objects, in which a list stays a list and a whole number a whole number."""
    names = dict.fromkeys(name for record in records for name in record)
    columns = {name: [record.get(name) for record in records] for name in names}
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def _indexed(path: Path, table: pd.DataFrame) -> pd.DataFrame:
    if ROW not in table.columns:
        remedy = did_you_mean(ROW, table.columns) or f"The file has {some(table.columns)}."
        raise DataError(str(path), [Fault(f"column {ROW!r}", "is missing; it holds the labels of the rows", remedy)])
    absent = table[ROW].isna()
    if absent.any():
        lines = [
            Fault(f"entry {place + 1}", f"has no {ROW!r}", "Name its row.") for place in absent.to_numpy().nonzero()[0]
        ]
        raise DataError(f"{path} has overrides for nobody", lines)
    return table.set_index(ROW)
