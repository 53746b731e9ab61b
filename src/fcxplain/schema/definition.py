"""Check that a feature's fields fit together and that its grid is not too fine. Finds every fault at once."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import pandas as pd

from ..errors import did_you_mean, some

# A continuous feature without a step is divided into at least this many values.
DEFAULT_CUTS = 100_000
# Whole numbers up to here are exact in a double.
EXACT = 2**53
# Grids with more values than this do not survive the few roundings of encoding in double precision.
FINEST = 2**48
# Powers of ten up to here are exact in a double, so that one division gives the number of a file.
MAX_DECIMALS = 22
# Kinds of number of which every value is whole; a date is a number of days.
WHOLE = ("integer", "date")
# Parts of a domain that may be guessed, and how missing values may be handled.
DOMAIN = ("low", "high", "levels")
MISSING = ("kept", "may_be_filled", "never")


def exact(value: float) -> Decimal:
    """The number as it is written, not as it is stored."""
    return Decimal(repr(float(value)))


def decimals_of(value: float) -> int:
    """Number of digits after the decimal point."""
    return max(0, -int(exact(value).normalize().as_tuple().exponent))


def default_step(low: float, high: float) -> float:
    """A power of ten that divides the range into `DEFAULT_CUTS` values or more, if doubles allow it."""
    largest = max(abs(low), abs(high)) or 1.0
    cut = (high / DEFAULT_CUTS - low / DEFAULT_CUTS) or largest / DEFAULT_CUTS
    wanted = math.floor(math.log10(max(cut, sys.float_info.min)))
    finest = math.ceil(math.log10(max(largest / FINEST, sys.float_info.min)) + math.log10(2))
    return float(Decimal(1).scaleb(max(wanted, finest)))


def is_too_fine(largest: float, step: float) -> bool:
    """Whether values up to `largest` in this step can no longer be distinguished after encoding."""
    decimals = decimals_of(step)
    return decimals > MAX_DECIMALS or largest * 10.0**decimals >= EXACT or largest / step >= FINEST


A_DATE = "Write it as 2026-12-31."
KIND_OF_WHOLE = {
    "integer": ("an integer", "Round them, or make it continuous."),
    "date": ("a date", "Its step is a number of days."),
}

Fields = Mapping[str, Any]
"""The values given for a feature, of any type, by field name."""
Problem = tuple[str, str]
"""What is wrong, and what to do about it."""


def faults(fields: Fields, kinds: tuple[str, ...]) -> list[Problem]:
    """Every reason why these fields are not a valid feature."""
    found = [*_name_faults(fields["name"]), *_type_faults(fields)]
    if fields["kind"] not in kinds:
        problem = f"no kind {fields['kind']!r}; choose one of {', '.join(kinds)}"
        return [(problem, did_you_mean(fields["kind"], kinds)), *found]
    numeric = fields["kind"] in (*WHOLE, "continuous")
    return found + list(_number_faults(fields) if numeric else _category_faults(fields))


def is_missing(value: Any) -> bool:
    """Whether a single value stands for a missing one."""
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def _name_faults(name: Any) -> Iterator[Problem]:
    if not isinstance(name, str) or not name.strip() or any(c in name for c in "\n\r`"):
        yield "a name is text without line breaks or backticks", ""
    elif not is_text(name):
        yield "the name is not valid Unicode", ""


def _type_faults(fields: Fields) -> Iterator[Problem]:
    for field in ("low", "high", "step"):
        value = fields[field]
        if value is not None and not _is_finite(value):
            is_day = fields["kind"] == "date" and field != "step"
            yield f"{field} is {value!r}, not a {'date' if is_day else 'finite number'}", A_DATE if is_day else ""
    if fields["decimals"] is not None and not _is_whole(fields["decimals"]):
        yield f"decimals is {fields['decimals']!r}, not a whole number", ""
    mutable: object = fields["mutable"]
    if not isinstance(mutable, bool):
        yield f"mutable is {mutable!r}, neither true nor false", ""
    for field in ("label", "unit"):
        if not is_text(fields[field]):
            yield f"{field} is {fields[field]!r}, not text", ""
    if not isinstance(fields["labels"], Mapping):
        yield f"labels is {fields['labels']!r}, not a table", 'Write labels = {level = "what people call it"}.'
    if fields["missing"] not in (None, *MISSING):
        yield f"missing is {fields['missing']!r}", f"Choose one of {', '.join(MISSING)}."
    for field in ("levels", "ranks", "guessed"):
        if not isinstance(fields[field], tuple):
            yield f"{field} is {fields[field]!r}, not a list", f"Write {field} = [...]."
    for field in fields["guessed"] if isinstance(fields["guessed"], tuple) else ():
        if field not in DOMAIN:
            yield f"guessed names {field!r}, which is not one of {', '.join(DOMAIN)}", did_you_mean(field, DOMAIN)


def _number_faults(fields: Fields) -> Iterator[Problem]:
    low, high, step = (v if _is_finite(v) else None for v in (fields["low"], fields["high"], fields["step"]))
    if fields["levels"] or fields["ranks"]:
        yield "levels and ranks are for categorical and ordinal features only", ""
    if fields["labels"]:
        yield "labels are for the levels of categorical and ordinal features", "Use label for the feature's own name."
    if low is not None and high is not None and low > high:
        yield f"low {low} is above high {high}", "Exchange them."
    if step is not None and step <= 0:
        yield f"step {step} is not positive", ""
    if fields["kind"] in WHOLE and any(v is not None and v != int(v) for v in (low, high, step)):
        what, remedy = KIND_OF_WHOLE[fields["kind"]]
        yield f"bounds and step of {what} must be whole numbers", remedy
    if _is_whole(fields["decimals"]):
        yield from _decimals_faults(fields, step)


def _decimals_faults(fields: Fields, step: float | None) -> Iterator[Problem]:
    decimals = fields["decimals"] or 0
    if fields["kind"] in WHOLE and decimals:
        what = KIND_OF_WHOLE[fields["kind"]][0]
        yield f"{what} has no decimals, but decimals is {decimals}", "Make it continuous."
    elif not 0 <= decimals <= 15 and step is None:
        yield f"decimals {decimals} is not between 0 and 15", ""
    elif step is not None and decimals_of(step) > decimals:
        yield f"step {step} has more than {decimals} decimals", "Give one of the two."


def _category_faults(fields: Fields) -> Iterator[Problem]:
    for field in ("low", "high", "step", "decimals"):
        if fields[field] is not None:
            yield f"{field} is for numbers only", ""
    if isinstance(fields["levels"], tuple):
        yield from _level_faults(fields["levels"])
        if isinstance(fields["ranks"], tuple):
            yield from _rank_faults(fields)
        if fields["labels"] and isinstance(fields["labels"], Mapping) and all(map(_is_level, fields["levels"])):
            yield from _label_faults(fields["labels"], fields["levels"])


def _level_faults(levels: tuple[Any, ...]) -> Iterator[Problem]:
    if any(is_missing(level) for level in levels):
        yield "a level is missing (NaN or None)", "Name it, e.g. 'unknown'."
    odd = [v for v in levels if not is_missing(v) and not _is_level(v)]
    if odd:
        problem = f"a level is valid text, a finite number, true or false, but {some(odd, 3)} is not"
        yield problem, "Convert it to text."
        return
    twice = [text for text, count in Counter(str(level) for level in levels).items() if count > 1]
    if twice:
        yield f"levels written alike: {some(twice, 5)}", ""
    elif len(set(levels)) < len(levels):
        # True, 1 and 1.0 are one and the same key to Python.
        alike = [v for v, count in Counter(levels).items() if count > 1]
        yield f"levels that are equal: {some(alike, 5)}", "Write them as text."


def _label_faults(labels: Mapping[Any, Any], levels: tuple[Any, ...]) -> Iterator[Problem]:
    for level, label in labels.items():
        # Levels that are left open are read from a table later.
        if levels and level not in levels:
            known = f"The levels are {some(levels)}."
            yield f"labels names {level!r}, which is not a level", did_you_mean(level, levels) or known
        if not is_text(label) or not label.strip():
            yield f"the label of {level!r} is {label!r}, not text", ""
    shown = Counter(str(labels.get(level, level)) for level in levels if is_text(labels.get(level, "")))
    twice = [label for label, count in shown.items() if count > 1]
    if twice:
        yield f"several levels would be called {some(twice, 3)}", "Give each level its own label."


def _rank_faults(fields: Fields) -> Iterator[Problem]:
    ranks = fields["ranks"]
    if ranks and fields["kind"] != "ordinal":
        yield "ranks are for ordinal features only", ""
    elif ranks and len(ranks) != len(fields["levels"]):
        yield f"{len(fields['levels'])} levels but {len(ranks)} ranks", "Give each level one rank."
    odd = [rank for rank in ranks if not _is_whole(rank)]
    if odd:
        yield f"ranks are whole numbers, but {some(odd, 3)} is not", ""


def _is_finite(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an int that is too long for a float
        return False


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53


def _is_level(value: Any) -> bool:
    return isinstance(value, bool) or _is_finite(value) or is_text(value)


def is_text(value: Any) -> bool:
    """Whether a value is text that a file can hold; half a surrogate pair cannot be written."""
    try:
        return isinstance(value, str) and value.encode("utf-8") is not None
    except UnicodeEncodeError:
        return False
