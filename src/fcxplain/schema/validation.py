"""Holding a table against its features. Finds every fault first; raising is the caller's last act."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import Fault, SchemaError, did_you_mean, some
from .feature import Feature


def raise_on_faults(faults: Iterable[Fault]) -> None:
    """Raise one error with all the faults, if there are any."""
    found = tuple(faults)
    if found:
        raise SchemaError("the table does not fit the schema", found)


def faults(features: tuple[Feature, ...], table: pd.DataFrame) -> list[Fault]:
    """Every fault of the table: absent, doubled or mistyped columns, missing and illegal values."""
    found = column_faults(features, table)
    for feature in features:
        if (table.columns == feature.name).sum() == 1:
            found += _value_faults(feature, table[feature.name])
    return found


def column_faults(features: tuple[Feature, ...], table: pd.DataFrame) -> list[Fault]:
    """Columns that are absent or stand twice."""
    if not isinstance(table, pd.DataFrame):
        return [Fault("table", f"is a {type(table).__name__}, not a pandas DataFrame")]
    found, names = [], [f.name for f in features]
    spare = [c for c in table.columns if c not in names]
    for name in names:
        count = int((table.columns == name).sum())
        if count == 0:
            remedy = did_you_mean(name, spare) or f"The table has {some(table.columns)}."
            found.append(Fault(f"column {name!r}", "is not in the table", remedy))
        elif count > 1:
            found.append(
                Fault(f"column {name!r}", f"stands in the table {count} times", "Rename or drop one.")
            )
    return found


def is_numeric(column: pd.Series) -> bool:
    """Whether a column holds numbers (not booleans, not text), whatever its dtype."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return False
    if pd.api.types.is_numeric_dtype(column.dtype):
        return not pd.api.types.is_complex_dtype(column.dtype)
    kinds = ("integer", "floating", "mixed-integer-float", "decimal", "empty")
    return (
        pd.api.types.is_object_dtype(column.dtype) and pd.api.types.infer_dtype(column, skipna=True) in kinds
    )


def is_date(column: pd.Series) -> bool:
    """Whether a column holds dates, times or durations."""
    dtype = column.dtype
    if pd.api.types.is_datetime64_any_dtype(dtype) or pd.api.types.is_timedelta64_dtype(dtype):
        return True
    if isinstance(dtype, pd.PeriodDtype) or str(dtype).startswith(("date", "time", "duration")):
        return True
    return pd.api.types.is_object_dtype(dtype) and pd.api.types.infer_dtype(column, skipna=True) in (
        "datetime",
        "date",
        "time",
    )


def _value_faults(feature: Feature, column: pd.Series) -> Iterator[Fault]:
    missing = column.isna().to_numpy(dtype=bool)
    if missing.any():
        yield _fault(column, missing, "is missing", "Fill it in or leave the row out.")
    yield from (
        _number_faults(feature, column) if feature.is_number else _level_faults(feature, column, missing)
    )


def _number_faults(feature: Feature, column: pd.Series) -> Iterator[Fault]:
    if not is_numeric(column) and not pd.api.types.is_bool_dtype(column.dtype):
        present = column.dropna()
        sample = f", e.g. {present.iloc[0]!r}" if len(present) else ""
        remedy = f"Convert it first, e.g. pd.to_numeric(table[{feature.name!r}])."
        yield Fault(
            f"column {feature.name!r}", f"should be {feature.kind} but is {column.dtype}{sample}", remedy
        )
        return
    values = feature.natural(column)
    infinite = np.isinf(values)
    if infinite.any():
        yield _fault(column, infinite, "is infinite", "Replace it by a number.")
    finite = np.isfinite(values)
    if feature.kind == "integer":
        broken = finite & (values != np.rint(values))
        if broken.any():
            yield _fault(column, broken, "is not a whole number", "Round it, or make the feature continuous.")
    for bound, outside in (
        ("low", values < _or(feature.low, -np.inf)),
        ("high", values > _or(feature.high, np.inf)),
    ):
        if (outside & finite).any():
            limit, side = getattr(feature, bound), "below" if bound == "low" else "above"
            remedy = f"Correct it, or widen {bound!r} in the schema."
            yield _fault(column, outside & finite, f"is {side} {limit:g}", remedy)


def _level_faults(feature: Feature, column: pd.Series, missing: NDArray[np.bool_]) -> Iterator[Fault]:
    if not feature.levels:
        return
    unknown = (feature.natural(column) < 0) & ~missing
    if not unknown.any():
        return
    values = column[unknown].unique().tolist()
    hint = did_you_mean(values[0], feature.levels)
    remedy = hint or f"Legal: {some(feature.levels)}. Correct it, or add the level to the schema."
    what = (
        f"is {some(values, 4)}, no known level"
        if len(values) == 1
        else f"has unknown levels {some(values, 4)}"
    )
    yield Fault(f"column {feature.name!r}", what, remedy, int(unknown.sum()), column.index[unknown][0])


def _fault(column: pd.Series, rows: NDArray[np.bool_], problem: str, remedy: str) -> Fault:
    first = column[rows].iloc[0]
    value = "" if pd.isna(first) else f", e.g. {first}"
    place = f"column {column.name!r}"
    return Fault(place, problem + value, remedy, int(rows.sum()), column.index[rows][0])


def _or(bound: float | None, otherwise: float) -> float:
    return otherwise if bound is None else bound
