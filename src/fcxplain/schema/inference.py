"""Guessing features from a table, and saying what was guessed and why."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import Fault, SchemaError, did_you_mean
from .column import first_label, float64, is_date, is_numeric, short_float
from .feature import Feature, Level, plain
from .grid import decimals_of, default_step, exact, is_too_fine

# More levels than this are an identifier or free text, not a category.
MAX_LEVELS = 1000
# Up to this many different whole numbers written as text are taken for codes of a category.
MAX_CODES = 20
# Among so few rows, that no two are equal says nothing.
FEW = 20
# Beyond this many decimals a file shows arithmetic, not precision.
MOST_DECIMALS = 12
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
        return feature.replace(levels=_levels(feature.name, column))
    if not is_numeric(column) and not pd.api.types.is_bool_dtype(column.dtype):
        remedy = "Convert it to numbers."
        raise _unusable(feature.name, f"should be {feature.kind} but is {column.dtype}", remedy)
    values = _distinct(feature.name, column)
    low = float(values[0]) if feature.low is None else feature.low
    high = float(values[-1]) if feature.high is None else feature.high
    step = feature.step or _step_of(values) or default_step(low, high)
    # Bounds that the schema gives stand as they are; those of the data are widened to hold every row.
    down, up = _widened(low, high, 10.0 ** -decimals_of(step))
    return feature.replace(
        low=down if feature.low is None else low, high=up if feature.high is None else high, step=step
    )


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
        feature = _category(name, kind, _levels(name, column))
        return feature, _guess(feature, f"the column's dtype is {'an ordered' if dtype.ordered else 'a'} category")
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        feature = _category(name, "categorical", (False, True))
        return feature, _guess(feature, "the column is boolean")
    return _infer_number(name, column) if is_numeric(column) else _infer_text(name, present)


def _infer_number(name: str, column: pd.Series) -> tuple[Feature, Guess]:
    distinct = _distinct(name, column)
    whole = bool((distinct == np.rint(distinct)).all())
    if whole and is_too_fine(float(np.abs(distinct).max()), 1):
        largest = f"{np.abs(distinct).max():g}"
        remedy = "Drop it if it is an identifier, or rescale it."
        raise _unusable(name, f"holds whole numbers up to {largest}, too many to tell apart", remedy)
    if whole and len(distinct) == 2:
        levels = tuple(int(v) for v in distinct)
        feature = _category(name, "categorical", levels)
        why = f"only two whole numbers occur, {levels[0]} and {levels[1]}"
        return feature, _guess(feature, why, "Make it an integer if it is a count.")
    low, high = float(distinct[0]), float(distinct[-1])
    advice = "It is constant and cannot change." if low == high else ""
    if whole and len(column) > FEW and len(distinct) == len(column):
        advice = "No two rows are equal: leave it out if it is an identifier."
    if whole:
        feature = Feature(name, "integer", low=low, high=high)
        return feature, _guess(feature, "every value is a whole number", advice)
    step = _step_of(distinct)
    settled = step or default_step(low, high)
    low, high = _widened(low, high, settled)
    feature = Feature(name, "continuous", low=low, high=high, step=settled)
    why = (
        f"values have {feature.decimals} decimal{'s' * (feature.decimals != 1)}"
        if step
        else "values have many decimals"
    )
    rounded = "" if step else f"Answers are rounded to {feature.step:g}. "
    return feature, _guess(feature, why, rounded + advice)


def _infer_text(name: str, present: pd.Series) -> tuple[Feature, Guess]:
    levels = _levels(name, present)
    types = sorted({type(v).__name__ for v in levels})
    if types != ["str"]:
        verb = "holds" if len(types) == 1 else "mixes"
        remedy = "Make them all text or all numbers."
        raise _unusable(name, f"{verb} values of type {' and '.join(types)}", remedy)
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
    if len(present) > FEW and len(levels) > 0.5 * len(present):
        advice = "Most rows differ: drop it if it is an identifier."
    feature = _category(name, "categorical", levels)
    return feature, _guess(feature, "the values are text", advice)


def _category(name: str, kind: Any, levels: tuple[Level, ...]) -> Feature:
    return Feature(name, kind, levels=levels)


def _levels(name: str, column: pd.Series) -> tuple[Level, ...]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return tuple(plain(v) for v in column.cat.categories)
    try:
        values = [plain(v) for v in column.dropna().unique()]
    except (TypeError, NotImplementedError) as error:
        raise _unusable(name, f"holds values that are no levels ({error})", "Convert them to text.") from error
    # Whole numbers beside missing ones are stored as floats, but nobody writes them so.
    if all(isinstance(v, float) and v.is_integer() for v in values):
        values = [int(v) for v in values]
    try:
        return tuple(sorted(values))
    except TypeError:
        return tuple(sorted(values, key=str))


def _guess(feature: Feature, why: str, advice: str = "") -> Guess:
    if feature.is_number:
        what = f"{feature.kind} from {feature.low} to {feature.high}"
        what += f" by {feature.step}" if feature.kind == "continuous" else ""
    else:
        what = f"{feature.kind} with {len(feature.levels)} level{'s' * (len(feature.levels) != 1)}"
    return Guess(feature.name, what, why, advice)


def _distinct(name: str, column: pd.Series) -> NDArray[np.float64]:
    """The different values in rising order; without missing ones, and refusing infinite ones."""
    values = float64(column)
    infinite = np.isinf(values)
    if infinite.any():
        place, count = f"column {name!r}", int(infinite.sum())
        remedy = "Replace it by a number."
        fault = Fault(place, "is infinite", remedy, count, first_label(column, infinite))
        raise SchemaError("", [fault])
    distinct = np.unique(values[~np.isnan(values)])
    if not len(distinct):
        raise _unusable(name, "has no values at all", "Drop the column.")
    short = short_float(column.dtype)
    # The 0.1 of a single is written 0.1, though it is stored as 0.10000000149.
    return distinct if short is None else np.array([float(str(v)) for v in distinct.astype(short)])


def _step_of(values: NDArray[np.float64]) -> float | None:
    """The coarsest power of ten that holds every value, if there is one worth using."""
    largest = float(np.abs(values).max())
    for decimals in range(MOST_DECIMALS + 1):
        step = float(f"1e-{decimals}")
        if is_too_fine(largest, step) or float(values.max() - values.min()) / step > MAX_CUTS:
            break
        if np.array_equal(np.round(values, decimals), values):
            return step
    return None


def _widened(low: float, high: float, step: float) -> tuple[float, float]:
    """Bounds moved outwards to multiples of the step."""
    one = exact(step)
    down = (exact(low) / one).to_integral_value(ROUND_FLOOR) * one
    up = (exact(high) / one).to_integral_value(ROUND_CEILING) * one
    return float(down), float(up)


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
