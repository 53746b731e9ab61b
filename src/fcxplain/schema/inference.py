"""Guessing features from a table, and saying what was guessed and why."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import Fault, SchemaError, did_you_mean
from .feature import EXACT, Feature, Level, default_step, plain
from .validation import is_date, is_numeric

# More levels than this are an identifier or free text, not a category.
MAX_LEVELS = 1000
# Up to this many different whole numbers written as text are taken for codes of a category.
MAX_CODES = 20
MAX_DECIMALS = 12
# A step that cuts the range finer than this is noise, not precision.
MAX_CUTS = 10**9

_NUMBER_TEXT = re.compile(r"\s*[-+]?(\d+([.,]\d+)*|\.\d+)([eE][-+]?\d+)?\s*%?\s*")


@dataclass(frozen=True)
class Guess:
    """What was guessed of one feature and why, with what to look at."""

    feature: str
    guess: str
    why: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.guess}: {self.why}.{' ' + self.advice if self.advice else ''}"


def infer(
    table: pd.DataFrame, *, label: str | None, immutable: tuple[str, ...]
) -> tuple[tuple[Feature, ...], tuple[Guess, ...]]:
    """Features and guesses for every column but the label; every column that cannot be used is a fault."""
    faults = _table_faults(table, label, immutable)
    features, guesses = [], []
    for name in [] if faults else [c for c in table.columns if c != label]:
        try:
            feature, guess = _infer_feature(name, table[name])
        except SchemaError as error:
            faults += error.faults
            continue
        features.append(feature.replace(mutable=name not in immutable))
        guesses.append(guess)
    if not faults and not features:
        faults.append(Fault("table", "has no feature columns"))
    if faults:
        raise SchemaError("no schema can be inferred from this table", faults)
    return tuple(features), tuple(guesses)


def complete(features: Iterable[Feature], table: pd.DataFrame) -> tuple[Feature, ...]:
    """Fill in bounds, steps and levels that were left open, from the values of a table."""
    done: list[Feature] = []
    faults: list[Fault] = []
    for feature in features:
        try:
            done.append(feature if feature.is_complete else _filled(feature, table[feature.name]))
        except SchemaError as error:
            faults += error.faults
    if faults:
        raise SchemaError("the schema cannot be completed from this table", faults)
    return tuple(done)


def _filled(feature: Feature, column: pd.Series) -> Feature:
    if feature.is_category:
        return feature.replace(levels=_levels(column))
    if not is_numeric(column):
        raise _unusable(
            feature.name, f"should be {feature.kind} but is {column.dtype}", "Convert it to numbers."
        )
    values = _finite(feature.name, column)
    low = float(values.min()) if feature.low is None else feature.low
    high = float(values.max()) if feature.high is None else feature.high
    if feature.kind == "integer":
        return feature.replace(low=np.floor(low), high=np.ceil(high))
    return feature.replace(**_grid(low, high, feature.step or _step_of(values)))


def _table_faults(table: pd.DataFrame, label: str | None, immutable: tuple[str, ...]) -> list[Fault]:
    if not isinstance(table, pd.DataFrame):
        return [Fault("table", f"is a {type(table).__name__}, not a pandas DataFrame")]
    faults = [
        Fault(f"column {c!r}", "stands in the table more than once", "Rename or drop one.")
        for c in table.columns[table.columns.duplicated()].unique()
    ]
    faults += [
        Fault(f"column {c!r}", f"has a {type(c).__name__} for a name", "Name it with text.")
        for c in table.columns
        if not isinstance(c, str)
    ]
    wanted = [*immutable, *([label] if label is not None else [])]
    faults += [
        Fault(f"column {name!r}", "is not in the table", did_you_mean(name, table.columns))
        for name in wanted
        if name not in table.columns
    ]
    if not len(table):
        faults.append(Fault("table", "has no rows", "Give it at least one."))
    return faults


def _infer_feature(name: str, column: pd.Series) -> tuple[Feature, Guess]:
    dtype = column.dtype
    present = column.dropna()
    if not len(present):
        raise _unusable(name, "has no values at all", "Drop the column.")
    if is_date(column):
        remedy = "Turn it into a number, e.g. days since a date, or into a category."
        raise _unusable(name, f"holds dates ({dtype}), e.g. {present.iloc[0]}", remedy)
    if isinstance(dtype, pd.CategoricalDtype):
        kind = "ordinal" if dtype.ordered else "categorical"
        feature = _category(name, kind, _levels(column))
        return feature, _guess(
            feature, f"the column's dtype is {'an ordered' if dtype.ordered else 'a'} category"
        )
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        feature = _category(name, "categorical", (False, True))
        return feature, _guess(feature, "the column is boolean")
    return _infer_number(name, column) if is_numeric(column) else _infer_text(name, present)


def _infer_number(name: str, column: pd.Series) -> tuple[Feature, Guess]:
    values = _finite(name, column)
    distinct = np.unique(values)
    whole = bool((distinct == np.rint(distinct)).all()) and float(np.abs(distinct).max()) < EXACT
    if whole and len(distinct) == 2:
        levels = tuple(int(v) for v in distinct)
        feature = _category(name, "categorical", levels)
        why = f"only two whole numbers occur, {levels[0]} and {levels[1]}"
        return feature, _guess(feature, why, "Make it an integer if it is a count.")
    low, high = float(distinct[0]), float(distinct[-1])
    advice = "It is constant and cannot change." if low == high else ""
    if whole:
        feature = Feature(name, "integer", low=low, high=high)
        return feature, _guess(feature, "every value is a whole number", advice)
    step = _step_of(distinct)
    feature = Feature(name, "continuous", **_grid(low, high, step))
    why = (
        f"values have {feature.decimals} decimal{'s' * (feature.decimals != 1)}"
        if step
        else "values have many decimals"
    )
    rounded = "" if step else f"Answers are rounded to {feature.step:g}. "
    return feature, _guess(feature, why, rounded + advice)


def _infer_text(name: str, present: pd.Series) -> tuple[Feature, Guess]:
    types = sorted({type(v).__name__ for v in present.unique()})
    if types != ["str"] and not all(t in ("str", "str_") for t in types):
        raise _unusable(
            name, f"mixes values of type {' and '.join(types)}", "Make them all text or all numbers."
        )
    levels = _levels(present)
    numeric = [bool(_NUMBER_TEXT.fullmatch(str(v))) for v in levels]
    if all(numeric) and len(levels) > MAX_CODES:
        remedy = "Convert it, e.g. pd.to_numeric, or read the file with fcxplain.load_table."
        raise _unusable(name, f"holds numbers stored as text, e.g. {levels[0]!r}", remedy)
    if sum(numeric) > max(MAX_CODES, 0.9 * len(levels)):
        odd = next(v for v, number in zip(levels, numeric, strict=True) if not number)
        remedy = "Make it missing (NaN) or a number."
        raise _unusable(name, f"holds numbers stored as text, but also {odd!r}", remedy)
    if len(levels) > 3 and all(_is_date_text(str(v)) for v in levels[:50]):
        raise _unusable(
            name, f"holds dates as text, e.g. {levels[0]!r}", "Turn it into a number, e.g. days since a date."
        )
    if len(levels) > MAX_LEVELS:
        remedy = "Drop it if it is an identifier or free text, or merge its levels."
        raise _unusable(name, f"has {len(levels):,} different values", remedy)
    advice = "The levels look like numbers; convert the column if they are." if all(numeric) else ""
    if len(present) > 20 and len(levels) > 0.5 * len(present):
        advice = "Most rows differ: drop it if it is an identifier."
    feature = _category(name, "categorical", levels)
    return feature, _guess(feature, "the values are text", advice)


def _category(name: str, kind: Any, levels: tuple[Level, ...]) -> Feature:
    return Feature(name, kind, levels=levels)


def _levels(column: pd.Series) -> tuple[Level, ...]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return tuple(plain(v) for v in column.cat.categories)
    values = [plain(v) for v in column.dropna().unique()]
    try:
        return tuple(sorted(values))
    except TypeError:
        return tuple(sorted(values, key=str))


def _guess(feature: Feature, why: str, advice: str = "") -> Guess:
    if feature.is_number:
        what = f"{feature.kind} from {feature.low:g} to {feature.high:g}"
        what += f" by {feature.step:g}" if feature.kind == "continuous" else ""
    else:
        what = f"{feature.kind} with {len(feature.levels)} level{'s' * (len(feature.levels) != 1)}"
    return Guess(feature.name, what, why, advice)


def _finite(name: str, column: pd.Series) -> NDArray[np.float64]:
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(values).any():
        bad = np.isinf(values)
        place = f"column {name!r}"
        raise SchemaError(
            "", [Fault(place, "is infinite", "Replace it by a number.", int(bad.sum()), column.index[bad][0])]
        )
    values = values[~np.isnan(values)]
    if not len(values):
        raise _unusable(name, "has no values at all", "Drop the column.")
    return np.asarray(values)


def _step_of(values: NDArray[np.float64]) -> float | None:
    """The coarsest power of ten that holds every value, if there is one worth using."""
    spread = float(values.max() - values.min())
    largest = float(np.abs(values).max())
    for decimals in range(MAX_DECIMALS + 1):
        if spread * 10.0**decimals > MAX_CUTS or largest * 10.0**decimals >= EXACT:
            break
        if np.array_equal(np.round(values, decimals), values):
            return float(f"1e-{decimals}")
    return None


def _grid(low: float, high: float, step: float | None) -> dict[str, Any]:
    """Bounds and step of a number; without a step of its own, bounds are widened to the default one."""
    if step:
        return {"low": low, "high": high, "step": step}
    one = Decimal(repr(default_step(low, high)))
    down = (Decimal(low) / one).to_integral_value(ROUND_FLOOR) * one
    up = (Decimal(high) / one).to_integral_value(ROUND_CEILING) * one
    return {"low": float(down), "high": float(up), "step": float(one)}


def _is_date_text(text: str) -> bool:
    for pattern in ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d"):
        try:
            datetime.datetime.strptime(text.strip()[:10], pattern)
        except ValueError:
            continue
        return True
    return False


def _unusable(name: str, problem: str, remedy: str) -> SchemaError:
    return SchemaError("", [Fault(f"column {name!r}", problem, remedy)])
