"""Check a table against its features. All faults are collected first and raised together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype

from ..errors import Fault, SchemaError, did_you_mean, some
from .column import first_label, is_numeric, natural
from .dates import day_of, is_date_column
from .feature import MISSING, Feature, plain

MAX_FLOAT = np.finfo(np.float64).max
EMPTY = "is empty or marked as missing, e.g. n/a"
"""The problem of a column with a missing value."""
GAPS = "Fill it in or leave the row out, or give the model an imputer and fit it on rows with gaps."
"""The remedy."""
FRACTION = ("is not a whole number", "Round it, or make the feature continuous.")
TIME_OF_DAY = ("has a time of day", "Keep the day alone, e.g. with .dt.normalize(), or make it a number of hours.")


def raise_on_faults(faults: Iterable[Fault]) -> None:
    """Raise one error with all the faults, if there are any."""
    found = tuple(faults)
    if found:
        raise SchemaError("the table does not fit the schema", found)


def not_a_table(given: object) -> Fault:
    """The fault for a value that is not a table, with how to make one."""
    ways = {
        pd.Series: "A single row as a table is rows.iloc[[0]], or rows.loc[[label]].",
        np.ndarray: "Give the rows with their names: pd.DataFrame(rows, columns=task.schema.names).",
        dict: "A single row as a table is pd.DataFrame([row]).",
    }
    remedy = next((way for kind, way in ways.items() if isinstance(given, kind)), "")
    return Fault("table", f"is a {type(given).__name__}, not a pandas DataFrame", remedy)


def read(features: tuple[Feature, ...], table: pd.DataFrame) -> tuple[dict[str, NDArray[Any]], list[Fault]]:
    """Natural columns and every fault (of columns and of values) in one pass: reading text is most of the work."""
    natural: dict[str, NDArray[Any]] = {}
    found = column_faults(features, table)
    count = Counter(table.columns) if isinstance(table, pd.DataFrame) else Counter()
    for feature in features:
        if count[feature.name] == 1:
            natural[feature.name], new = read_column(feature, table[feature.name])
            found += new
    return natural, found


def salvaged(
    features: tuple[Feature, ...], table: pd.DataFrame
) -> tuple[dict[str, NDArray[Any]], dict[int, tuple[str, ...]]]:
    """Natural columns, missing where a value cannot be read, and every reason why single rows cannot, by position.

    An absent column is an error, since it is not the fault of a single row.
    """
    raise_on_faults(column_faults(features, table))
    natural: dict[str, NDArray[Any]] = {}
    reasons: dict[int, tuple[str, ...]] = {}
    for feature in features:
        values, faults = read_cells(feature, table[feature.name])
        for one in faults:
            values = np.where(one.rows, np.nan if feature.is_number else MISSING, values)
            for row in np.flatnonzero(one.rows).tolist():
                reasons[row] = (*reasons.get(row, ()), one.reason(row))
        natural[feature.name] = values
    return natural, dict(sorted(reasons.items()))


def column_faults(features: tuple[Feature, ...], table: pd.DataFrame) -> list[Fault]:
    """Columns that are absent or duplicate."""
    if not isinstance(table, pd.DataFrame):
        return [not_a_table(table)]
    found, names, given = [], [f.name for f in features], table.columns.tolist()
    if given == names:
        return []
    count = Counter(given)
    for name in names:
        if count[name] == 0:
            spare = [c for c in table.columns if c not in names]
            remedy = did_you_mean(name, spare) or f"The table has {some(table.columns)}."
            found.append(Fault(f"column {name!r}", "is not in the table", remedy))
        elif count[name] > 1:
            found.append(Fault(f"column {name!r}", f"occurs in the table {count[name]} times", "Rename or drop one."))
    return found


@dataclass(frozen=True, eq=False)
class ColumnFault:
    """A fault of a column in some rows, and the message for each of them: `{}` stands for its value."""

    column: pd.Series
    rows: NDArray[np.bool_]
    problem: str
    remedy: str
    of_row: str

    @property
    def fault(self) -> Fault:
        """All of it as one fault."""
        first, count = first_label(self.column, self.rows), int(self.rows.sum())
        return Fault(f"column {self.column.name!r}", self.problem, self.remedy, count, first)

    def reason(self, row: int) -> str:
        """What is wrong with one row."""
        value = some([plain(self.column.iloc[row])])
        return str(Fault(f"column {self.column.name!r}", self.of_row.replace("{}", value), self.remedy))


def read_column(feature: Feature, column: pd.Series) -> tuple[NDArray[Any], list[Fault]]:
    """The natural column and its faults."""
    values, found = read_cells(feature, column)
    return values, [one.fault for one in found]


def read_cells(feature: Feature, column: pd.Series) -> tuple[NDArray[Any], list[ColumnFault]]:
    """The natural column and its faults by row. Extremes alone show that a column has none."""
    if feature.is_number and not is_of_kind(feature, column):
        return _mixed(feature, column)
    try:
        values = natural(feature, column)
    except SchemaError as error:
        every = np.ones(len(column), dtype=bool)
        return np.full(len(column), np.nan if feature.is_number else MISSING), [
            ColumnFault(column, every, fault.problem, fault.remedy, fault.problem) for fault in error.faults
        ]
    if not len(values):
        return values, []
    if feature.is_category:
        return values, [] if values.min() >= 0 else list(_level_faults(feature, column, values))
    is_whole = not feature.is_whole or column.dtype.kind in "iu" or bool((values == np.rint(values)).all())
    low, high = _or(feature.low, -MAX_FLOAT), _or(feature.high, MAX_FLOAT)
    is_clean = is_whole and low <= values.min() and values.max() <= high
    return values, [] if is_clean else list(_number_faults(feature, column, values))


def is_of_kind(feature: Feature, column: pd.Series) -> bool:
    """Whether a column can be read as numbers at all."""
    if feature.kind == "date":
        return is_date_column(column) or not column.notna().any()
    return is_numeric(column) or bool(is_bool_dtype(column.dtype))


def _mixed(feature: Feature, column: pd.Series) -> tuple[NDArray[Any], list[ColumnFault]]:
    """Read a column of numbers that holds other things, cell by cell."""
    missing = column.isna().to_numpy(dtype=bool)
    values, odd = np.full(len(column), np.nan), np.zeros(len(column), dtype=bool)
    cells = column.tolist()
    for i in np.flatnonzero(~missing).tolist():
        try:
            values[i] = _cell(feature, cells[i])
        except (TypeError, ValueError, OverflowError):
            odd[i] = True
    convert = "pd.to_datetime" if feature.kind == "date" else "pd.to_numeric"
    remedy = f"Convert it first, e.g. {convert}(table[{feature.name!r}])."
    rest = [replace(f, rows=f.rows & ~odd) for f in _number_faults(feature, column, values)]
    found = [f for f in rest if f.rows.any()]
    if odd.any():
        problem = f"should be {feature.kind} but is {column.dtype}, e.g. {some([plain(column[odd].iloc[0])])}"
        found.append(ColumnFault(column, odd, problem, remedy, f"should be {feature.kind} but is {{}}"))
    return values, found


def _cell(feature: Feature, value: Any) -> float:
    """One cell of a number, as text too, or a date; a `ValueError` for anything else."""
    if feature.kind == "date" and not isinstance(value, Real):
        return day_of(value)
    if feature.kind == "date" or isinstance(value, bool) or not isinstance(value, Real | str):
        raise ValueError(f"{value!r} is not a value of kind {feature.kind}")
    return float(value)


def _number_faults(feature: Feature, column: pd.Series, values: NDArray[np.float64]) -> Iterator[ColumnFault]:
    finite, gaps = np.isfinite(values), np.isnan(values)
    broken = finite & (values != np.rint(values)) & feature.is_whole
    stays = feature.may_stay(values)
    below = finite & ~stays & (values < _or(feature.low, -np.inf))
    above = finite & ~stays & (values > _or(feature.high, np.inf))
    correct = "Correct it, or widen {!r} in the schema and fit again."
    for rows, problem, remedy in (
        (np.isinf(values), "is infinite", "Replace it by a number."),
        (broken, *(TIME_OF_DAY if feature.kind == "date" else FRACTION)),
        (below, f"is below {_bound(feature, feature.low)}", correct.format("low")),
        (above, f"is above {_bound(feature, feature.high)}", correct.format("high")),
    ):
        if rows.any():
            example = f"{problem}, e.g. {plain(column[rows].iloc[0])}"
            yield ColumnFault(column, rows, example, remedy, f"{problem}: {{}}")
    if (gaps & ~stays).any():
        yield _missing(column, gaps)


def _level_faults(feature: Feature, column: pd.Series, codes: NDArray[np.int64]) -> Iterator[ColumnFault]:
    missing, stays = column.isna().to_numpy(dtype=bool), feature.may_stay(codes)
    if (missing & ~stays).any():
        yield _missing(column, missing)
    unknown = (codes < 0) & ~missing & ~(stays & _alike(feature, column))
    if not unknown.any() or not feature.levels:
        return
    values = [plain(v) for v in column[unknown].unique().tolist()]
    one = f"is {some(values)}, which is not a known level"
    what = one if len(values) == 1 else f"has unknown levels {some(values, 4)}"
    yield ColumnFault(column, unknown, what, _level_remedy(feature, values[0]), "is {}, which is not a known level")


def _alike(feature: Feature, column: pd.Series) -> NDArray[np.bool_]:
    """Which values have the type of the levels: only those could be new levels."""
    kinds = {float if isinstance(v, float) else type(v) for v in feature.levels}
    if len(kinds) != 1:
        return np.ones(len(column), dtype=bool)
    return np.array([_is_kind(plain(value), *kinds) for value in column.tolist()], dtype=bool)


def _is_kind(value: Any, kind: type) -> bool:
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if kind is int:
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, int | float if kind is float else kind)


def _level_remedy(feature: Feature, value: Any) -> str:
    alike = feature.level_of_text.get(str(value))
    if alike is not None:
        level = feature.levels[alike]
        kinds = f"a {type(level).__name__}, not a {type(value).__name__}"
        return f"The level {some([level])} is {kinds}: convert the column, or the levels in the schema."
    near = did_you_mean(value, feature.levels)
    return near or f"Legal: {some(feature.levels)}. Correct it, or add the level to the schema and fit again."


def _missing(column: pd.Series, rows: NDArray[np.bool_]) -> ColumnFault:
    return ColumnFault(column, rows, EMPTY, GAPS, EMPTY)


def _bound(feature: Feature, bound: float | None) -> str:
    return feature.text(bound) if feature.kind == "date" else str(bound)


def _or(bound: float | None, otherwise: float) -> float:
    return otherwise if bound is None else bound
