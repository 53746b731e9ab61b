"""Holding a table against its features. Finds every fault first; raising is the caller's last act."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype

from ..errors import Fault, SchemaError, did_you_mean, some
from .column import first_label, is_numeric, natural
from .dates import is_date_column
from .feature import Feature, plain

MAX_FLOAT = np.finfo(np.float64).max
EMPTY = "is empty or marked as missing, e.g. n/a"
"""What is wrong with a column in which a value is missing."""


FRACTION = ("is not a whole number", "Round it, or make the feature continuous.")
TIME_OF_DAY = ("has a time of day", "Keep the day alone, e.g. with .dt.normalize(), or make it a number of hours.")


def raise_on_faults(faults: Iterable[Fault]) -> None:
    """Raise one error with all the faults, if there are any."""
    found = tuple(faults)
    if found:
        raise SchemaError("the table does not fit the schema", found)


def not_a_table(given: object) -> Fault:
    """The fault of what stands where a table should, with the way to make one of it."""
    ways = {
        pd.Series: "A single row as a table is rows.iloc[[0]], or rows.loc[[label]].",
        np.ndarray: "Give the rows with their names: pd.DataFrame(rows, columns=task.schema.names).",
        dict: "A single row as a table is pd.DataFrame([row]).",
    }
    remedy = next((way for kind, way in ways.items() if isinstance(given, kind)), "")
    return Fault("table", f"is a {type(given).__name__}, not a pandas DataFrame", remedy)


def faults(features: tuple[Feature, ...], table: pd.DataFrame) -> list[Fault]:
    """Every fault of the table: absent, doubled or mistyped columns, missing and illegal values."""
    return read(features, table)[1]


def read(features: tuple[Feature, ...], table: pd.DataFrame) -> tuple[dict[str, NDArray[Any]], list[Fault]]:
    """Natural columns and every fault, in one go: reading text is most of the work of checking it."""
    natural: dict[str, NDArray[Any]] = {}
    found = column_faults(features, table)
    count = Counter(table.columns) if found and isinstance(table, pd.DataFrame) else Counter()
    unread = {f.name for f in features if count[f.name] != 1} if found else set()
    for feature in features:
        if feature.name not in unread:
            natural[feature.name], new = read_column(feature, table[feature.name])
            found += new
    return natural, found


def column_faults(features: tuple[Feature, ...], table: pd.DataFrame) -> list[Fault]:
    """Columns that are absent or stand twice."""
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
            found.append(Fault(f"column {name!r}", f"stands in the table {count[name]} times", "Rename or drop one."))
    return found


def read_column(feature: Feature, column: pd.Series) -> tuple[NDArray[Any], list[Fault]]:
    """The natural column and its faults. The common case, a column without any, is told by its extremes."""
    if feature.is_number and not is_of_kind(feature, column):
        return np.empty(0), list(_type_faults(feature, column))
    try:
        values = natural(feature, column)
    except SchemaError as error:
        return np.empty(0), list(error.faults)
    if not len(values):
        return values, []
    if feature.is_category:
        return values, [] if values.min() >= 0 else list(_level_faults(feature, column, values))
    is_whole = not feature.is_whole or column.dtype.kind in "iu" or _all_whole(values)
    low, high = _or(feature.low, -MAX_FLOAT), _or(feature.high, MAX_FLOAT)
    is_clean = is_whole and low <= values.min() and values.max() <= high
    return values, [] if is_clean else list(_number_faults(feature, column, values))


def is_of_kind(feature: Feature, column: pd.Series) -> bool:
    """Whether a number's column can be read as such at all."""
    if feature.kind == "date":
        return is_date_column(column) or not column.notna().any()
    return is_numeric(column) or bool(is_bool_dtype(column.dtype))


def _all_whole(values: NDArray[np.float64]) -> bool:
    return bool((values == np.rint(values)).all())


def _type_faults(feature: Feature, column: pd.Series) -> Iterator[Fault]:
    missing = column.isna().to_numpy(dtype=bool)
    if missing.any():
        yield _missing(column, missing)
    present = column[~missing]
    sample = f", e.g. {some([plain(present.iloc[0])])}" if len(present) else ""
    problem = f"should be {feature.kind} but is {column.dtype}{sample}"
    convert = "pd.to_datetime" if feature.kind == "date" else "pd.to_numeric"
    remedy = f"Convert it first, e.g. {convert}(table[{feature.name!r}])."
    yield Fault(f"column {feature.name!r}", problem, remedy)


def _number_faults(feature: Feature, column: pd.Series, values: NDArray[np.float64]) -> Iterator[Fault]:
    finite = np.isfinite(values)
    broken = finite & (values != np.rint(values)) & feature.is_whole
    below = finite & (values < _or(feature.low, -np.inf))
    above = finite & (values > _or(feature.high, np.inf))
    correct = "Correct it, or widen {!r} in the schema and fit again."
    for rows, problem, remedy in (
        (np.isinf(values), "is infinite", "Replace it by a number."),
        (broken, *(TIME_OF_DAY if feature.kind == "date" else FRACTION)),
        (below, f"is below {_bound(feature, feature.low)}", correct.format("low")),
        (above, f"is above {_bound(feature, feature.high)}", correct.format("high")),
    ):
        if rows.any():
            yield _fault(column, rows, f"{problem}, e.g. {plain(column[rows].iloc[0])}", remedy)
    if np.isnan(values).any():
        yield _missing(column, np.isnan(values))


def _level_faults(feature: Feature, column: pd.Series, codes: NDArray[np.int64]) -> Iterator[Fault]:
    missing = column.isna().to_numpy(dtype=bool)
    if missing.any():
        yield _missing(column, missing)
    unknown = (codes < 0) & ~missing
    if not unknown.any() or not feature.levels:
        return
    values = [plain(v) for v in column[unknown].unique().tolist()]
    one = f"is {some(values)}, no known level"
    what = one if len(values) == 1 else f"has unknown levels {some(values, 4)}"
    yield _fault(column, unknown, what, _level_remedy(feature, values[0]))


def _level_remedy(feature: Feature, value: Any) -> str:
    alike = feature.level_of_text.get(str(value))
    if alike is not None:
        level = feature.levels[alike]
        kinds = f"a {type(level).__name__}, not a {type(value).__name__}"
        return f"The level {some([level])} is {kinds}: convert the column, or the levels in the schema."
    near = did_you_mean(value, feature.levels)
    return near or f"Legal: {some(feature.levels)}. Correct it, or add the level to the schema and fit again."


def _missing(column: pd.Series, rows: NDArray[np.bool_]) -> Fault:
    return _fault(column, rows, EMPTY, "Fill it in or leave the row out.")


def _fault(column: pd.Series, rows: NDArray[np.bool_], problem: str, remedy: str) -> Fault:
    return Fault(f"column {column.name!r}", problem, remedy, int(rows.sum()), first_label(column, rows))


def _bound(feature: Feature, bound: float | None) -> str:
    return feature.text(bound) if feature.kind == "date" else str(bound)


def _or(bound: float | None, otherwise: float) -> float:
    return otherwise if bound is None else bound
