"""A person's own table: its schema as guessed, without the columns that are no features, and how to correct it."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from ..datasets import DATASETS, Dataset, load_table, read_table
from ..errors import DataError, Fault, FcxWarning, SchemaError, did_you_mean
from ..schema import Schema
from ..schema.inference import identifiers

# What to say to the column that is left out, if it is so.
NO_USE = "If that is right, say so with --ignore {0}."
NAMES_ROWS = "If it names the rows, say --id {0}; if it is of no use, --ignore {0}."


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


def load_own(
    path: str,
    *,
    label: str,
    schema: Schema | Path | None,
    ignore: Sequence[str] = (),
    immutable: Sequence[str] = (),
    index: str | None = None,
    **how: Any,
) -> Dataset:
    """A table in its parts; what cannot be a feature is told with the words that leave it out."""
    _refuse_both(schema, ignore)
    if schema is None:
        rest = without(read_table(path), label, ignore).drop(columns=[] if index is None else index, errors="ignore")
        ignore = (*ignore, *unfit_columns(rest, (label, *immutable), NAMES_ROWS if index is None else NO_USE))
    try:
        return load_table(path, label=label, schema=schema, ignore=ignore, immutable=immutable, index=index, **how)
    except SchemaError as error:
        raise error if schema is not None else _with_remedy(error, unusable(rest, label)) from error
    except DataError as error:
        raise as_options(error) from error


def unfit_columns(table: pd.DataFrame, known: Sequence[str | None], remedy: str = NO_USE) -> tuple[str, ...]:
    """Columns that hold identifiers or free text, each told once, but for those known; none if none would be left."""
    names = [name for name in table.columns if name not in known]
    found = identifiers(table, names)
    if len(found) == len(names):
        return ()
    for name, fault in found.items():
        told = f"{fault.place} is left out, since it {fault.problem}, as identifiers and free text have"
        warnings.warn(f"{told}. {remedy.format(shlex.quote(name))}", FcxWarning, stacklevel=3)
    return tuple(found)


def as_options(error: DataError) -> DataError:
    """The same error about columns, with the options of the command line for the arguments of Python."""
    faults = error.faults
    for word, option in (("index", "--id"), ("ignore", "--ignore")):
        faults = tuple(replace(f, place=re.sub(rf"^{word} '(.*)'$", rf"{option} \1", f.place)) for f in faults)
    return DataError(error.message, faults)


def _inferred(table: pd.DataFrame, label: str | None) -> Schema:
    table = table.drop(columns=list(unfit_columns(table, (label,))))
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
