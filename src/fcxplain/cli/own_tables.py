"""A person's own table: its schema as guessed, without the columns that are no features, and how to correct it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..datasets import DATASETS, Dataset, load_table, read_table
from ..errors import DataError, Fault, SchemaError, did_you_mean
from ..schema import Schema


@dataclass(frozen=True)
class Guessed:
    """The schema of the columns that can be features, and why the others cannot."""

    schema: Schema
    left_out: tuple[Fault, ...] = ()


def located(data: str) -> str:
    """A data set's name as it is, a file by its whole path; what is neither is refused."""
    path = Path(data)
    if data in DATASETS:
        return data
    if path.exists() or path.suffix or path.name != data:
        return whole_path(path)
    listing = f"There are {', '.join(DATASETS)}; or give a CSV or parquet file."
    remedy = f"{did_you_mean(data, DATASETS)} {listing}".strip()
    raise DataError("", [Fault("data", f"no data set and no file {data!r}", remedy)])


def whole_path(path: str | Path) -> str:
    """A path that means the same wherever it is read again."""
    return str(Path(path).expanduser().resolve())


def guessed(table: pd.DataFrame, label: str | None, ignore: Sequence[str] = ()) -> Guessed:
    """A schema for a table, whatever else is in it. Only if no column can be a feature is that an error."""
    kept = without(table, label, ignore)
    faults = unusable(kept, label)
    if len(faults) == len([c for c in kept.columns if c != label]):
        return Guessed(Schema.infer(kept, label=label))
    return Guessed(Schema.infer(kept.drop(columns=list(faults)), label=label), tuple(faults.values()))


def without(table: pd.DataFrame, label: str | None, ignore: Sequence[str]) -> pd.DataFrame:
    """The table without the columns named; a name that is no column, or is the label, is refused."""
    faults = [
        Fault(f"--ignore {name}", "is no column of the table", did_you_mean(name, table.columns))
        for name in ignore
        if name not in table.columns
    ]
    faults += [Fault(f"--ignore {label}", "is the label", "Drop one of the two.")] if label in ignore else []
    if faults:
        raise DataError("", faults)
    return table.drop(columns=list(ignore))


def unusable(table: pd.DataFrame, label: str | None) -> dict[str, Fault]:
    """Columns that cannot be features, and why."""
    found: dict[str, Fault] = {}
    for place, name in enumerate(table.columns):
        try:
            if name != label:
                Schema.infer(table.iloc[:, [place]])
        except SchemaError as error:
            found[name] = error.faults[0]
    return found


def load_own(path: str, *, label: str, schema: Schema | Path | None, ignore: Sequence[str] = (), **how: Any) -> Dataset:
    """A table in its parts; what cannot be a feature is told with the words that leave it out."""
    _refuse_both(schema, ignore)
    if ignore:
        rows = without(read_table(path), label, ignore)
        schema = _inferred(rows.dropna() if label in rows.columns else rows, label)
    try:
        return load_table(path, label=label, schema=schema, **how)
    except SchemaError as error:
        if schema is not None:
            raise
        raise _with_remedy(error, unusable(read_table(path), label)) from error


def _inferred(table: pd.DataFrame, label: str | None) -> Schema:
    try:
        return Schema.infer(table, label=label)
    except SchemaError as error:
        raise _with_remedy(error, unusable(table, label)) from error


def _with_remedy(error: SchemaError, columns: dict[str, Fault]) -> SchemaError:
    """The same error, with the option that leaves the columns out."""
    if not columns:
        return error
    options = " ".join(f"--ignore {name!r}" if " " in name else f"--ignore {name}" for name in columns)
    told = f"columns that cannot be features; convert them, or leave them out with {options}"
    return SchemaError(told, error.faults)


def complete_rows(table: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, str]:
    """The rows without missing values, and what to say of the others."""
    missing = schema.missing(table)
    left = missing.any(axis=1).to_numpy()
    if not left.any():
        return table, ""
    counts = missing.sum()
    columns = ", ".join(f"{name} {count:,}" for name, count in counts[counts > 0].items())
    first = table.index[left][0]
    told = f"{int(left.sum()):,} of {len(table):,} rows have missing values ({columns}; first at index {first})"
    return _whole_numbers(table[~left], schema), f"{told} and are left out"


def _whole_numbers(table: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Integers as such again, which were kept as floats beside missing values."""
    names = [f.name for f in schema if f.kind == "integer" and f.name in table and table[f.name].dtype == "float64"]
    whole = [n for n in names if (table[n] == table[n].round()).all() and table[n].abs().max() < 2**53]
    return table.astype(dict.fromkeys(whole, "int64"))


def own_rows(
    path: str, schema_file: Path | None, label: str | None = None, ignore: Sequence[str] = ()
) -> tuple[Schema, pd.DataFrame, str]:
    """The schema of a table that needs no label, given or guessed, its complete rows, and what to say of the others."""
    _refuse_both(schema_file, ignore)
    given = None if schema_file is None else Schema.from_toml(schema_file)
    table = read_table(path, schema=given)
    schema = _inferred(without(table, label, ignore), label) if given is None else given.complete(table)
    return schema, *complete_rows(table, schema)


def _refuse_both(schema: object, ignore: Sequence[str]) -> None:
    if schema is not None and ignore:
        remedy = "Delete their sections from the schema file: what it does not name is left out."
        raise DataError("", [Fault(f"--ignore {', '.join(ignore)}", "does not go with --schema", remedy)])
