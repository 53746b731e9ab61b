"""Guessing features from a table: each one from its column, with what was guessed and why.

Values given by the user are kept; only open ones are filled in.
"""

from __future__ import annotations

import datetime
import math
import re
import warnings
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, Fault, FcxWarning, SchemaError, did_you_mean, some
from ..text import words_of
from . import dates
from .column import first_label, float64, is_numeric, is_time, short_float
from .definition import decimals_of, default_step, exact, is_too_fine
from .feature import Feature, Level, in_order, plain
from .validation import EMPTY, TIME_OF_DAY, is_of_kind, not_a_table
from .words import likely_order, order_lines

# Beyond this many decimals a file shows arithmetic, not precision.
MOST_DECIMALS = 12
# A step that cuts the range finer than this is noise, not precision.
MAX_CUTS = 10**9
# With fewer distinct values, those in between may just not have occurred yet.
FEWEST = 10
# A common divisor counts as intended if chance would produce it in fewer than one of this many columns.
CHANCE = 1e-6


def decimal_step(values: NDArray[np.float64]) -> float | None:
    """The coarsest power of ten that holds every value, if there is one worth using."""
    largest = float(np.abs(values).max())
    for decimals in range(MOST_DECIMALS + 1):
        step = float(f"1e-{decimals}")
        if is_too_fine(largest, step) or float(values.max() - values.min()) / step > MAX_CUTS:
            break
        if np.array_equal(np.round(values, decimals), values):
            return step
    return None


def _divisor(parts: NDArray[np.float64]) -> int:
    """The greatest common divisor of whole numbers, or 1 if it may be chance."""
    divisor = int(np.gcd.reduce(parts.astype(np.int64))) if len(parts) + 1 >= FEWEST else 1
    is_meant = divisor > 1 and len(parts) * math.log(divisor) >= -math.log(CHANCE)
    return divisor if is_meant else 1


# An answer should not change a category with more levels than this, such as a postcode or an employer.
MANY_LEVELS = 250
# Columns with more levels than this are not categories.
MAX_LEVELS = 10_000
# Most values of free text have at least this many words.
PROSE = 4
# Up to this many different whole numbers written as text are taken for codes of a category.
MAX_CODES = 20
# Among fewer rows than this, distinct values say nothing.
FEW = 20

# Names of identifier columns; a column that numbers the rows may have another name.
_IDS = frozenset({"id", "ids", "identifier", "uuid", "guid"})
_COUNTERS = frozenset({"index", "row", "rownum", "no", "nr", "number", "key", "unnamed"})
_CODE = re.compile(r"0[0-9]+")
_NUMBER_TEXT = re.compile(r"\s*[-+]?(\d+([.,]\d+)*|\.\d+)([eE][-+]?\d+)?\s*%?\s*")


@dataclass(frozen=True)
class Guess:
    """A guess about one feature, the reason for it, and what to check."""

    feature: str
    guess: str
    why: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.guess}: {self.why}.{' ' + self.advice if self.advice else ''}"


class NoFeature(SchemaError):
    """A text column that cannot be meant as a feature: an identifier, or free text."""


def guess_feature(name: str, column: pd.Series, *, sure: bool = False) -> tuple[Feature, Guess]:
    """A feature for a column; one that cannot be a feature is an error, and an identifier a `NoFeature`.

    The user may be `sure` that it is a feature.
    """
    dtype = column.dtype
    present = column.dropna()
    if not len(present):
        raise unusable(name, "has no values at all", "Drop the column.")
    if is_time(column):
        remedy = "Turn it into a number, e.g. of hours, or into a category."
        raise unusable(name, f"holds times ({dtype}), e.g. {present.iloc[0]}", remedy)
    if dates.is_date_column(column):
        return _infer_date(name, column)
    if isinstance(dtype, pd.CategoricalDtype):
        kind = "ordinal" if dtype.ordered else "categorical"
        feature = _category(name, kind, levels_of(name, column))
        why = f"the column's dtype is {'an ordered' if dtype.ordered else 'a'} category"
        return _guessed(feature, why, "" if feature.mutable else FIXED)
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        return _guessed(_category(name, "categorical", (False, True)), "the column is boolean")
    if not sure and tells_rows_apart(name, present):
        raise _no_feature(name, present)
    return _infer_number(name, column) if is_numeric(column) else _infer_text(name, present, sure)


def tells_rows_apart(name: str, present: pd.Series) -> bool:
    """Whether a column with such a name is an identifier or numbers the rows: hardly any two values are equal."""
    words = words_of(name)
    ends = {*words[:1], *words[-1:]}
    if len(present) <= FEW or not ends & (_IDS | _COUNTERS):
        return False
    if ends & _IDS:
        return bool(present.nunique() > 0.5 * len(present))
    return (
        is_numeric(present)
        and present.is_unique
        and bool(float64(present).max() - float64(present).min() < 2 * len(present))
    )


def _no_feature(name: str, present: pd.Series) -> NoFeature:
    remedy = "An identifier or free text is not a feature; if it is a category, merge its levels."
    problem = f"has {present.nunique():,} different values in {len(present):,} rows"
    return NoFeature("", [Fault(f"column {name!r}", problem, remedy)])


def _infer_number(name: str, column: pd.Series) -> tuple[Feature, Guess]:
    distinct = distinct_values(name, column)
    whole = bool((distinct == np.rint(distinct)).all())
    if whole and is_too_fine(float(np.abs(distinct).max()), 1):
        largest = f"{np.abs(distinct).max():g}"
        remedy = "Drop it if it is an identifier, or rescale it."
        raise unusable(name, f"holds whole numbers up to {largest}, too many to tell apart", remedy)
    if whole and len(distinct) == 2:
        levels = tuple(int(v) for v in distinct)
        why = f"only two whole numbers occur, {levels[0]} and {levels[1]}"
        return _guessed(_category(name, "categorical", levels), why, "Make it an integer if it is a count.")
    advice = CONSTANT if len(distinct) == 1 else ""
    if whole and len(column) > FEW and len(distinct) == len(column):
        advice = "No two rows are equal: leave it out if it is an identifier."
    return (_whole if whole else _decimal)(name, distinct, advice)


def _whole(name: str, distinct: NDArray[np.float64], advice: str) -> tuple[Feature, Guess]:
    # How far rising numbers lie apart.
    low, high, step = float(distinct[0]), float(distinct[-1]), _divisor(np.diff(distinct))
    feature = Feature(name, "integer", low=low, high=high, step=step)
    if step == 1:
        return _guessed(feature, "every value is a whole number", advice)
    apart = f"a multiple of {step}" if low % step == 0 else f"a multiple of {step} above {feature.low}"
    return _guessed(feature, f"every value is {apart}", _finer(step, 1, advice))


def _decimal(name: str, distinct: NDArray[np.float64], advice: str) -> tuple[Feature, Guess]:
    low, high, finest = float(distinct[0]), float(distinct[-1]), decimal_step(distinct)
    # A multiple of the finest step of which every value is a multiple too, such as 0.25.
    step = float(_divisor(np.rint(distinct / finest)) * exact(finest)) if finest else default_step(low, high)
    low, high = widened(low, high, step)
    feature = Feature(name, "continuous", low=low, high=high, step=step)
    if finest is None:
        return _guessed(feature, "values have many decimals", f"Answers are rounded to {step:g}. {advice}".rstrip())
    if step != finest:
        return _guessed(feature, f"every value is a multiple of {step:g}", _finer(step, finest, advice))
    return _guessed(feature, f"values have {feature.decimals} decimal{'s' * (feature.decimals != 1)}", advice)


def _infer_date(name: str, column: pd.Series) -> tuple[Feature, Guess]:
    distinct = _distinct_days(name, column)
    feature = Feature(name, "date", low=distinct[0], high=distinct[-1])
    return _guessed(feature, "the values are dates", CONSTANT if len(distinct) == 1 else "")


def _distinct_days(name: str, column: pd.Series) -> NDArray[np.float64]:
    """The different days in rising order; a time of day is refused."""
    days = np.unique(dates.days_in(column.dropna()))
    if not len(days):
        raise unusable(name, "has no values at all", "Drop the column.")
    if (days != np.rint(days)).any():
        raise unusable(name, f"{TIME_OF_DAY[0]}, e.g. {column.dropna().iloc[0]}", TIME_OF_DAY[1])
    return days


def bounds(feature: Feature) -> str:
    """The bounds of a number as text."""
    shown = feature.text if feature.kind == "date" else str
    return f"{shown(feature.low)} to {shown(feature.high)}"


def _finer(step: float, finest: float, advice: str) -> str:
    between = f"set step = {finest:g} in the schema if values between are possible"
    return f"Answers go in steps of {step:g} too; {between}. {advice}".rstrip()


def _infer_text(name: str, present: pd.Series, sure: bool) -> tuple[Feature, Guess]:
    levels = levels_of(name, present)
    types = sorted({type(v).__name__ for v in levels})
    if types != ["str"]:
        problem = f"{'holds' if len(types) == 1 else 'mixes'} values of type {' and '.join(types)}"
        raise unusable(name, problem, "Make them all text or all numbers.")
    if len(levels) > 3 and all(_is_date_text(str(v)) for v in levels[:50]):
        remedy = "Write dates as 2026-12-31, or convert the column with pd.to_datetime."
        raise unusable(name, f"holds dates that are not in ISO format, e.g. {levels[0]!r}", remedy)
    are_codes = any(_CODE.fullmatch(str(v)) for v in levels)
    numeric = [not are_codes and bool(_NUMBER_TEXT.fullmatch(str(v))) for v in levels]
    if all(numeric) and len(levels) > MAX_CODES:
        remedy = (
            "Convert it, e.g. pd.to_numeric, or read the file with fcxplain.load_table. If they are codes, such as zip "
            f"codes, make it a category: table[{name!r}].astype('category')."
        )
        raise unusable(name, f"holds numbers stored as text, e.g. {levels[0]!r}", remedy)
    if sum(numeric) > max(MAX_CODES, 0.9 * len(levels)):
        odd = next(v for v, number in zip(levels, numeric, strict=True) if not number)
        raise unusable(name, f"holds numbers stored as text, but also {odd!r}", "Make it missing (NaN) or a number.")
    mostly_differ = len(present) > FEW and len(levels) > 0.5 * len(present)
    if len(levels) > MAX_LEVELS and not mostly_differ:
        raise unusable(name, f"has {len(levels):,} different values", "Merge its levels, or leave it out.")
    is_prose = bool(np.median([len(str(level).split()) for level in levels]) >= PROSE)
    is_loose = len(levels) == len(present) or len(levels) > MANY_LEVELS or is_prose
    if mostly_differ and is_loose and not sure:
        raise _no_feature(name, present)
    advice = "The levels look like numbers; convert the column if they are." if all(numeric) else ""
    if mostly_differ:
        advice = "Most rows differ: leave it out if it is an identifier."
    feature = _category(name, "categorical", levels)
    ordered = likely_order(levels)
    if ordered and not advice:
        advice = f"If its levels have an order, such as this, write: {order_lines(ordered)}"
    why = "the values are codes, some of which begin with 0" if are_codes else "the values are text"
    return _guessed(feature, why, advice if feature.mutable else FIXED)


CONSTANT = "It is constant and cannot change."
FIXED = "With this many levels, answers leave it unchanged; if they may change it, set mutable = true in the schema."


def _category(name: str, kind: Any, levels: tuple[Level, ...]) -> Feature:
    return Feature(name, kind, levels=levels, mutable=len(levels) <= MANY_LEVELS)


def levels_of(name: str, column: pd.Series) -> tuple[Level, ...]:
    """The levels of a category, in order."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return tuple(plain(v) for v in column.cat.categories)
    try:
        values = [plain(v) for v in column.dropna().unique()]
    except (TypeError, NotImplementedError) as error:
        raise unusable(name, f"holds values that are not levels ({error})", "Convert them to text.") from error
    # Whole numbers with missing values are stored as floats, but not written that way.
    if all(isinstance(v, float) and v.is_integer() for v in values):
        values = [int(v) for v in values]
    return in_order(values)


def _guessed(feature: Feature, why: str, advice: str = "") -> tuple[Feature, Guess]:
    if feature.is_number:
        what = f"{feature.kind} from {bounds(feature)}"
        what += f" by {feature.step}" if feature.step != 1 or feature.kind == "continuous" else ""
    else:
        what = f"{feature.kind} with {len(feature.levels)} level{'s' * (len(feature.levels) != 1)}"
    return feature, Guess(feature.name, what, why, advice)


def distinct_values(name: str, column: pd.Series) -> NDArray[np.float64]:
    """The different values in rising order; without missing ones, and refusing infinite ones."""
    values = float64(column)
    infinite = np.isinf(values)
    if infinite.any():
        place, count, first = f"column {name!r}", int(infinite.sum()), first_label(column, infinite)
        raise SchemaError("", [Fault(place, "is infinite", "Replace it by a number.", count, first)])
    distinct = np.unique(values[~np.isnan(values)])
    if not len(distinct):
        raise unusable(name, "has no values at all", "Drop the column.")
    short = short_float(column.dtype)
    # A single-precision 0.1 is meant as 0.1, though it is stored as 0.10000000149.
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


def infer(
    table: pd.DataFrame, *, label: str | None, immutable: tuple[str, ...], ignore: tuple[str, ...] = ()
) -> tuple[tuple[Feature, ...], tuple[Guess, ...]]:
    """Features and guesses for every column but the label and those to ignore.

    An identifier is left out with a warning; any other column that cannot be used is a fault.
    """
    _refuse(_table_faults(table, label, immutable, ignore))
    features, guesses, faults, left_out = [], [], list[Fault](), dict[str, Fault]()
    for name in [c for c in table.columns if c != label and c not in ignore]:
        try:
            feature, guess = guess_feature(name, table[name], sure=name in immutable)
        except SchemaError as error:
            if isinstance(error, NoFeature):
                left_out[name] = error.faults[0]
            else:
                faults += error.faults
            continue
        domain = ("low", "high") if feature.is_number else ("levels",)
        features.append(feature.replace(mutable=feature.mutable and name not in immutable, guessed=domain))
        guesses.append(guess)
    if not faults and not features:
        _refuse([*left_out.values()] or [Fault("table", "has no feature columns")])
    unusable_ones = [c for c in table.columns if any(f.place == f"column {c!r}" for f in faults)]
    _refuse(faults, f"; fix these columns, or leave them out with ignore={unusable_ones}")
    for name, fault in left_out.items():
        warnings.warn(_leaving_out(name, fault), FcxWarning, stacklevel=3)
    for feature in features:
        if not feature.mutable and feature.name not in immutable:
            message = f"column {feature.name!r} has {len(feature.levels):,} levels. {FIXED}"
            warnings.warn(message, FcxWarning, stacklevel=3)
    return tuple(features), tuple(guesses)


def _leaving_out(name: str, fault: Fault, also: str = "") -> str:
    """The message for an identifier that is left out, with the option that confirms it; `also` names alternatives."""
    agree = f"If that is right, confirm it with ignore=[{name!r}]"
    keep = f"To keep it unchanged in every row: immutable=[{name!r}]."
    return (
        f"{fault.place} is left out, since it {fault.problem}, as identifiers and free text have. {agree}{also}. {keep}"
    )


def _refuse(faults: list[Fault], remedy: str = "") -> None:
    if faults:
        raise SchemaError(f"no schema can be inferred from this table{remedy}", faults)


def complete(features: Iterable[Feature], table: pd.DataFrame) -> tuple[Feature, ...]:
    """Fill in bounds, steps and levels that were left open, from the values of a table."""
    done, faults = list[Feature](), list[Fault]()
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
        return feature.replace(levels=levels_of(feature.name, column), guessed=("levels",))
    is_day = feature.kind == "date"
    if not is_of_kind(feature, column):
        remedy = "Convert it to dates." if is_day else "Convert it to numbers."
        raise unusable(feature.name, f"should be {feature.kind} but is {column.dtype}", remedy)
    values = (_distinct_days if is_day else distinct_values)(feature.name, column)
    low = float(values[0]) if feature.low is None else feature.low
    high = float(values[-1]) if feature.high is None else feature.high
    step = feature.step or decimal_step(values) or default_step(low, high)
    # Bounds given by the schema stay as they are; those of the data are widened to hold every row.
    down, up = widened(low, high, 10.0 ** -decimals_of(step))
    guessed = tuple(f for f in ("low", "high") if getattr(feature, f) is None or f in feature.guessed)
    return feature.replace(
        low=down if feature.low is None else low,
        high=up if feature.high is None else high,
        step=step,
        guessed=guessed,
    )


def _table_faults(
    table: pd.DataFrame, label: str | None, immutable: tuple[str, ...], ignore: tuple[str, ...]
) -> list[Fault]:
    if not isinstance(table, pd.DataFrame):
        return [not_a_table(table)]
    faults = [
        Fault(f"column {c!r}", "occurs in the table more than once", "Rename or drop one.")
        for c in table.columns[table.columns.duplicated()].unique()
    ]
    faults += [
        Fault(f"column {c!r}", f"has a {type(c).__name__} for a name", "Name it with text.")
        for c in table.columns
        if not isinstance(c, str)
    ]
    wanted = [*immutable, *ignore, *([label] if label is not None else [])]
    faults += [
        Fault(f"column {name!r}", "is not in the table", did_you_mean(name, table.columns))
        for name in wanted
        if name not in table.columns
    ]
    faults += [
        Fault(f"column {name!r}", "is to be ignored, but is also named as a feature or as the label", "Drop one.")
        for name in ignore
        if name in (*immutable, label)
    ]
    if not len(table):
        faults.append(Fault("table", "has no rows", "Give it at least one."))
    return faults


# Roles of the columns of a user's table: one labels the rows, some are not features, the rest are


def called_by(table: pd.DataFrame, index: str | None, schema: Container[object] | None, where: str) -> pd.DataFrame:
    """The table with a column as its index, which is then not a feature."""
    if index is None:
        return table
    faults = list(_index_faults(table, index, schema))
    if faults:
        raise DataError(where, faults)
    return table.set_index(index)


def _index_faults(table: pd.DataFrame, index: str, schema: Container[object] | None) -> Iterator[Fault]:
    place = f"index {index!r}"
    if index not in table.columns:
        yield _no_column(place, index, table)
        return
    if schema is not None and index in schema:
        yield Fault(place, "is also a feature of the schema", "Take it out of one.")
    empty, again = table[index].isna(), table[index].duplicated()
    if empty.any():
        yield Fault(place, EMPTY, "Fill it in, or choose another column.", int(empty.sum()), empty.idxmax())
    elif again.any():
        problem = f"has the same value in several rows, e.g. {some(table[index][again].tolist()[:1])}"
        yield Fault(place, problem, "Choose another column.", int(again.sum()), again.idxmax())


def without_ignored(
    table: pd.DataFrame, ignore: tuple[str, ...], features: tuple[str, ...], label: str | None, where: str = ""
) -> pd.DataFrame:
    """The table without ignored columns; unknown names, known features and the label are refused."""
    faults = [_no_column(f"ignore {n!r}", n, table) for n in ignore if n not in table.columns]
    faults += [
        Fault(f"ignore {n!r}", "is also named as the label or as a feature", "Drop one of the two.")
        for n in ignore
        if n == label or n in features
    ]
    if faults:
        raise DataError(where, faults)
    return table.drop(columns=list(ignore))


def without_identifiers(
    table: pd.DataFrame, label: str, features: tuple[str, ...]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The table without identifiers, with a warning and a note for each; known `features` stay."""
    others, found = [n for n in table.columns if n != label and n not in features], dict[str, Fault]()
    for name in others:
        try:
            # Only its name distinguishes an identifier from a number.
            if not is_numeric(table[name]) or tells_rows_apart(name, table[name].dropna()):
                guess_feature(name, table[name])
        except NoFeature as error:
            found[name] = error.faults[0]
        except SchemaError:
            continue
    # If nothing is left, the error about the schema says more.
    if len(found) == len(others):
        return table, ()
    for name, fault in found.items():
        message = _leaving_out(name, fault, f", or use it as the row labels with index={name!r}")
        warnings.warn(message, FcxWarning, stacklevel=3)
    notes = tuple(f"Left out {name!r}, which {fault.problem}." for name, fault in found.items())
    return table.drop(columns=list(found)), notes


def _no_column(place: str, name: str, table: pd.DataFrame) -> Fault:
    return Fault(place, "is not a column", did_you_mean(name, table.columns) or f"The table has {some(table.columns)}.")
