"""Guessing one feature from its column, and saying what was guessed and why."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import Fault, SchemaError
from .column import first_label, float64, is_date, is_numeric, short_float
from .feature import Feature, Level, plain
from .grid import default_step, exact, is_too_fine
from .steps import coarser, decimal_step, whole_step

# More levels than this are an identifier or free text, not a category.
MAX_LEVELS = 1000
# Up to this many different whole numbers written as text are taken for codes of a category.
MAX_CODES = 20
# Among so few rows, that no two are equal says nothing.
FEW = 20

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


class NoFeature(SchemaError):
    """A column of text that nobody could mean as a feature: an identifier, or free text."""


def guess_feature(name: str, column: pd.Series) -> tuple[Feature, Guess]:
    """A feature for a column; one that cannot be a feature is an error, and an identifier a `NoFeature`."""
    dtype = column.dtype
    present = column.dropna()
    if not len(present):
        raise unusable(name, "has no values at all", "Drop the column.")
    if is_date(column):
        remedy = "Turn it into a number, e.g. days since a date, or into a category."
        raise unusable(name, f"holds dates ({dtype}), e.g. {present.iloc[0]}", remedy)
    if isinstance(dtype, pd.CategoricalDtype):
        kind = "ordinal" if dtype.ordered else "categorical"
        feature = _category(name, kind, levels_of(name, column))
        return feature, _guess(feature, f"the column's dtype is {'an ordered' if dtype.ordered else 'a'} category")
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        feature = _category(name, "categorical", (False, True))
        return feature, _guess(feature, "the column is boolean")
    return _infer_number(name, column) if is_numeric(column) else _infer_text(name, present)


def _infer_number(name: str, column: pd.Series) -> tuple[Feature, Guess]:
    distinct = distinct_values(name, column)
    whole = bool((distinct == np.rint(distinct)).all())
    if whole and is_too_fine(float(np.abs(distinct).max()), 1):
        largest = f"{np.abs(distinct).max():g}"
        remedy = "Drop it if it is an identifier, or rescale it."
        raise unusable(name, f"holds whole numbers up to {largest}, too many to tell apart", remedy)
    if whole and len(distinct) == 2:
        levels = tuple(int(v) for v in distinct)
        feature = _category(name, "categorical", levels)
        why = f"only two whole numbers occur, {levels[0]} and {levels[1]}"
        return feature, _guess(feature, why, "Make it an integer if it is a count.")
    low, high = float(distinct[0]), float(distinct[-1])
    advice = "It is constant and cannot change." if low == high else ""
    if whole and len(column) > FEW and len(distinct) == len(column):
        advice = "No two rows are equal: leave it out if it is an identifier."
    return (_whole if whole else _decimal)(name, distinct, advice)


def _whole(name: str, distinct: NDArray[np.float64], advice: str) -> tuple[Feature, Guess]:
    low, high, step = float(distinct[0]), float(distinct[-1]), whole_step(distinct)
    feature = Feature(name, "integer", low=low, high=high, step=step)
    if step == 1:
        return feature, _guess(feature, "every value is a whole number", advice)
    apart = f"a multiple of {step}" if low % step == 0 else f"a multiple of {step} above {feature.low}"
    return feature, _guess(feature, f"every value is {apart}", _finer(step, 1, advice))


def _decimal(name: str, distinct: NDArray[np.float64], advice: str) -> tuple[Feature, Guess]:
    finest = decimal_step(distinct)
    step = coarser(finest, distinct) if finest else default_step(float(distinct[0]), float(distinct[-1]))
    low, high = widened(float(distinct[0]), float(distinct[-1]), step)
    feature = Feature(name, "continuous", low=low, high=high, step=step)
    if finest is None:
        return feature, _guess(
            feature, "values have many decimals", f"Answers are rounded to {step:g}. {advice}".rstrip()
        )
    if step != finest:
        return feature, _guess(feature, f"every value is a multiple of {step:g}", _finer(step, finest, advice))
    why = f"values have {feature.decimals} decimal{'s' * (feature.decimals != 1)}"
    return feature, _guess(feature, why, advice)


def _finer(step: float, finest: float, advice: str) -> str:
    between = f"set step = {finest:g} in the schema if values between are possible"
    return f"Answers go in steps of {step:g} too; {between}. {advice}".rstrip()


def _infer_text(name: str, present: pd.Series) -> tuple[Feature, Guess]:
    levels = levels_of(name, present)
    types = sorted({type(v).__name__ for v in levels})
    if types != ["str"]:
        verb = "holds" if len(types) == 1 else "mixes"
        remedy = "Make them all text or all numbers."
        raise unusable(name, f"{verb} values of type {' and '.join(types)}", remedy)
    numeric = [bool(_NUMBER_TEXT.fullmatch(str(v))) for v in levels]
    if all(numeric) and len(levels) > MAX_CODES:
        remedy = "Convert it, e.g. pd.to_numeric, or read the file with fcxplain.load_table."
        raise unusable(name, f"holds numbers stored as text, e.g. {levels[0]!r}", remedy)
    if sum(numeric) > max(MAX_CODES, 0.9 * len(levels)):
        odd = next(v for v, number in zip(levels, numeric, strict=True) if not number)
        remedy = "Make it missing (NaN) or a number."
        raise unusable(name, f"holds numbers stored as text, but also {odd!r}", remedy)
    if len(levels) > 3 and all(_is_date_text(str(v)) for v in levels[:50]):
        raise unusable(
            name, f"holds dates as text, e.g. {levels[0]!r}", "Turn it into a number, e.g. days since a date."
        )
    mostly_differ = len(present) > FEW and len(levels) > 0.5 * len(present)
    if len(levels) > MAX_LEVELS or (mostly_differ and len(levels) == len(present)):
        remedy = "An identifier or free text is no feature; if it is a category, merge its levels."
        fault = Fault(f"column {name!r}", f"has {len(levels):,} different values in {len(present):,} rows", remedy)
        raise (NoFeature if mostly_differ else SchemaError)("", [fault])
    advice = "The levels look like numbers; convert the column if they are." if all(numeric) else ""
    if mostly_differ:
        advice = "Most rows differ: leave it out if it is an identifier."
    feature = _category(name, "categorical", levels)
    return feature, _guess(feature, "the values are text", advice)


def _category(name: str, kind: Any, levels: tuple[Level, ...]) -> Feature:
    return Feature(name, kind, levels=levels)


def levels_of(name: str, column: pd.Series) -> tuple[Level, ...]:
    """The levels of a category, in order."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return tuple(plain(v) for v in column.cat.categories)
    try:
        values = [plain(v) for v in column.dropna().unique()]
    except (TypeError, NotImplementedError) as error:
        raise unusable(name, f"holds values that are no levels ({error})", "Convert them to text.") from error
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
        what += f" by {feature.step}" if feature.step != 1 or feature.kind == "continuous" else ""
    else:
        what = f"{feature.kind} with {len(feature.levels)} level{'s' * (len(feature.levels) != 1)}"
    return Guess(feature.name, what, why, advice)


def distinct_values(name: str, column: pd.Series) -> NDArray[np.float64]:
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
        raise unusable(name, "has no values at all", "Drop the column.")
    short = short_float(column.dtype)
    # The 0.1 of a single is written 0.1, though it is stored as 0.10000000149.
    return distinct if short is None else np.array([float(str(v)) for v in distinct.astype(short)])


def widened(low: float, high: float, step: float) -> tuple[float, float]:
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


def unusable(name: str, problem: str, remedy: str) -> SchemaError:
    """The error for a column that cannot be a feature."""
    return SchemaError("", [Fault(f"column {name!r}", problem, remedy)])
