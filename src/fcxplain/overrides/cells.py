"""Parse the cells of an overrides table: the values that a feature may take in one row, and the special columns."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError, did_you_mean, some
from ..outcome import as_target
from ..rules import Rule, notation
from ..rules.binding import MAX_NUMBER, decimal_comma
from ..schema import Feature, Schema, dates, level_named
from ..schema.definition import is_missing
from ..schema.feature import plain

LISTS = (list, tuple, np.ndarray, pd.Index, pd.Series)
SETS = (set, frozenset)
Problem = tuple[str, str]
"""A problem and its remedy."""


class Unreadable(Exception):
    """All problems of a cell; caught inside this package."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems


def refuse(problems: list[Problem]) -> None:
    """Raise the collected problems, if any."""
    if problems:
        raise Unreadable(*problems)


def is_empty(value: Any) -> bool:
    """Whether a cell is empty."""
    value = plain(value)
    return is_missing(value) or (isinstance(value, str) and not value.strip())


def is_number(value: Any) -> bool:
    """Whether a plain value is a number that a float can hold; infinity is one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < 2**1023
    return isinstance(value, float) and not math.isnan(value)


def frozen(value: Any, schema: Schema) -> tuple[str, ...]:
    """Rules that freeze the named features."""
    if isinstance(value, str):
        names = [value] if value in schema else notation.items(value)
    elif isinstance(value, LISTS + SETS):
        names = [str(name) for name in value]
    else:
        raise Unreadable((f"{some([value])} does not name features", "List them, e.g. ['age', 'job'] or 'age, job'."))
    refuse(_unknown(names, schema))
    written = [notation.name(n, schema) for n in sorted(set(names))]
    return tuple(f"{n}' == {n}" for n in written)


def own_rules(value: Any) -> tuple[str, ...]:
    """The lines of a text (a semicolon also ends a line), or of a list of texts or rules."""
    if isinstance(value, str):
        return tuple(notation.lines(value))
    given = list(value) if isinstance(value, LISTS) else [value]
    texts = [item.text if isinstance(item, Rule) else item for item in given]
    odd = [text for text in texts if not isinstance(text, str)]
    refuse([(f"{some([text])} is not text", "Give one rule per line, or a list of texts.") for text in odd])
    return tuple(line for text in texts for line in text.split("\n"))


def target(value: Any, classes: tuple[Any, ...]) -> Any:
    """The class or outcome of a cell; text with commas may name several classes."""
    meant = named(value, classes)
    if meant is not None:
        return plain(meant)
    try:
        return as_target(list(value) if isinstance(value, (*LISTS, *SETS)) else value, classes)
    except DataError as error:
        problems = [f"{fault.place.removeprefix('target ')} {fault.problem}" for fault in error.faults]
        remedies = [fault.remedy.replace("They are", "The classes are") for fault in error.faults]
        raise Unreadable(*zip(problems, remedies, strict=True)) from error


def difficulty(value: Any, schema: Schema) -> dict[str, float]:
    """The relative cost of changing each named feature, sorted by name."""
    if isinstance(value, str):
        value = _priced(value)
    if not isinstance(value, Mapping):
        problem = f"{some([value])} is not a mapping from features to numbers"
        raise Unreadable((problem, "Write {'age': 2} or age=2."))
    given = {str(n): plain(v) for n, v in value.items() if not is_missing(plain(v))}
    odd = {n: v for n, v in given.items() if n in schema and not (is_number(v) and 0 < v < math.inf)}
    above = "Give a number above 0; 1 is the default."
    refuse(_unknown(given, schema) + [(f"the difficulty of {n!r} is {some([v])}", above) for n, v in odd.items()])
    return {n: float(given[n]) for n in sorted(given)}


def _priced(text: str) -> dict[str, float]:
    """Parse `age=2, job=5`."""
    found: dict[str, float] = {}
    problems: list[Problem] = []
    for part in notation.parts(text):
        # A number contains neither sign, so the last one separates it from the name.
        place = max(part.rfind("="), part.rfind(":"))
        name, number = notation.bare(part[: max(place, 0)].rstrip()), part[place + 1 :].lstrip()
        if place < 1 or not re.fullmatch(notation.NUMBER, number):
            problems.append((f"{some([part])} does not assign a number to a feature", "Write e.g. age=2, job=5."))
        elif name in found:
            problems.append((f"{some([name])} has two numbers", "Drop one of the two."))
        else:
            found[name] = float(number)
    refuse(problems)
    return found


def named(value: Any, options: tuple[Any, ...]) -> Any:
    """The level or class with this name, or None.

    Missing values in a column turn 1 into 1.0, so whole floats are also tried as integers.
    """
    value = plain(value)
    if isinstance(value, (*LISTS, *SETS, Mapping)):
        return None
    meant = level_named(value, options)
    if meant is None and isinstance(value, str) and re.fullmatch(notation.NUMBER, value):
        return named(float(value), options)
    whole = isinstance(value, float) and value.is_integer()
    return level_named(int(value), options) if meant is None and whole else meant


def _unknown(names: Iterable[str], schema: Schema) -> list[Problem]:
    """A problem for each name that is not a feature."""
    known = f"There are {some(schema.names)}."
    return [(f"no feature {some([n])}", did_you_mean(n, schema.names) or known) for n in names if n not in schema]


_RANGE = re.compile(rf"({notation.NUMBER})?\s*\.\.\s*({notation.NUMBER})?")
_SIGNED = re.compile(r"(<=|>=|==|=|<|>|≤|≥)\s*(.+)", re.DOTALL)
_SIGNS = {"=": "==", "≤": "<=", "≥": ">="}
_FORMS = "Write a range as 20..40 or <= 40, values as {20, 30}, one value as 40; in Python also (20, 40)."


def allowed(value: Any, feature: Feature, schema: Schema) -> tuple[str, ...]:
    """The rule of a cell; none if it allows every value."""
    value, primed = plain(value), f"{notation.name(feature.name, schema)}'"
    if feature.is_category:
        return (_level_rule(value, feature, primed),)
    return _date_rule(value, primed) if feature.kind == "date" else _number_rule(value, primed)


def _number_rule(value: Any, primed: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return _number_text(value.strip(), primed)
    if isinstance(value, pd.Interval):
        return _between(value.left, value.right, primed, value.closed)
    if isinstance(value, LISTS):
        if len(value) == 2:
            low, high = value
            return _between(low, high, primed)
        problem = f"{some([value])} is not an interval: it has {len(value)} ends"
        raise Unreadable((problem, "Give (low, high), or a set of values such as {20, 30}."))
    return (_number_set(value if isinstance(value, SETS) else [value], primed),)


def _date_rule(value: Any, primed: str) -> tuple[str, ...]:
    """`2026-01-01..2026-12-31`, `<= 2026-12-31`, one date or a set of them; in Python also a pair and `Interval`."""
    signed = _SIGNED.fullmatch(value.strip()) if isinstance(value, str) else None
    if signed is not None:
        return (f"{primed} {_SIGNS.get(signed.group(1), signed.group(1))} {_date(signed.group(2))}",)
    if isinstance(value, str) and ".." in value:
        value = tuple(end.strip() or None for end in value.split("..", 1))
    if isinstance(value, pd.Interval):
        value = (value.left, value.right)
    if isinstance(value, LISTS) and len(value) == 2:
        low, high = (None if is_missing(plain(end)) else _date(end) for end in value)
        ends = [f"{primed} >= {low}"] * (low is not None) + [f"{primed} <= {high}"] * (high is not None)
        return tuple(ends)
    items = value if isinstance(value, LISTS + SETS) else notation.items(value) if isinstance(value, str) else [value]
    return (_one_of(sorted(map(_date, items)), primed),)


def _date(value: Any) -> str:
    try:
        day = dates.day_of(value)
    except (TypeError, ValueError):
        day = math.nan
    if day != day:
        remedy = "Write 2026-12-31, <= 2026-12-31 or 2026-01-01..2026-12-31."
        raise Unreadable((f"{some([value])} is not a date", remedy))
    return dates.iso(day)


def _number_text(text: str, primed: str) -> tuple[str, ...]:
    """`20..40`, `[20, 40]`, `<= 40`, `{20, 30}` or `40`."""
    span, signed = _RANGE.fullmatch(text), _SIGNED.fullmatch(text)
    if span is not None and any(span.groups()):
        low, high = (None if end is None else float(end) for end in span.groups())
        return _between(low, high, primed)
    if signed is not None and re.fullmatch(notation.NUMBER, signed.group(2)):
        sign = _SIGNS.get(signed.group(1), signed.group(1))
        return (f"{primed} {sign} {_number(float(signed.group(2)))}",)
    items = notation.items(text)
    if not items or not all(re.fullmatch(notation.NUMBER, item) for item in items):
        raise Unreadable((f"{some([text])} cannot be read as allowed numbers", _remedy(text)))
    values = [float(item) for item in items]
    if text.startswith("[") and len(values) == 2:
        return _between(values[0], values[1], primed)
    if len(values) > 1 and not text.startswith("{"):
        raise Unreadable((f"{some([text])} could be a range or single values", _remedy(text)))
    return (_number_set(values, primed),)


def _remedy(text: str) -> str:
    comma = decimal_comma(text) if text[:1] not in ("{", "[") else ""
    return f"{comma} {_FORMS}".strip()


def _between(low: Any, high: Any, primed: str, closed: str = "both") -> tuple[str, ...]:
    low, high = _end(low, -math.inf), _end(high, math.inf)
    if low > high or (low == high and closed != "both"):
        remedy = "Swap them." if low > high else "Include both ends."
        raise Unreadable((f"no number lies between {low:g} and {high:g}", remedy))
    if low == high:
        return (f"{primed} == {_number(low)}",)
    from_low = "<=" if closed in ("left", "both") else "<"
    to_high = "<=" if closed in ("right", "both") else "<"
    if math.isinf(low) and math.isinf(high):
        return ()
    if math.isinf(low):
        return (f"{primed} {to_high} {_number(high)}",)
    if math.isinf(high):
        return (f"{primed} {from_low.replace('<', '>')} {_number(low)}",)
    return (f"{_number(low)} {from_low} {primed} {to_high} {_number(high)}",)


def _end(value: Any, otherwise: float) -> float:
    """An end of an interval; a missing end is open."""
    value = plain(value)
    if is_missing(value):
        return otherwise
    if not is_number(value):
        raise Unreadable((f"{some([value])} is not a number", "An interval is (low, high); either may be None."))
    return float(value)


def _number_set(values: Iterable[Any], primed: str) -> str:
    values = [plain(v) for v in values]
    refuse([(f"{some([v])} is not a number", _FORMS) for v in values if not is_number(v)])
    return _one_of([_number(v) for v in sorted(set(map(float, values)))], primed)


def _one_of(texts: list[str], primed: str) -> str:
    if not texts:
        raise Unreadable(("no value is allowed", "Leave the cell empty for no limit."))
    return f"{primed} == {texts[0]}" if len(texts) == 1 else f"{primed} in {{{', '.join(texts)}}}"


def _number(value: float) -> str:
    if not abs(value) <= MAX_NUMBER:
        raise Unreadable((f"{value:g} is beyond {MAX_NUMBER:g}", "Leave that end of the interval open."))
    return notation.number(value)


def _level_rule(value: Any, feature: Feature, primed: str) -> str:
    is_text = isinstance(value, str) and named(value, feature.levels) is None
    signed = _SIGNED.fullmatch(value.strip()) if is_text else None
    sign = "" if signed is None else _SIGNS.get(signed.group(1), signed.group(1))
    if sign not in ("", "==") and feature.kind == "categorical":
        problem = f"{feature.name!r} is categorical: it has no order"
        raise Unreadable((problem, "List the allowed levels, e.g. {A, B}."))
    if signed is not None:
        items = [notation.bare(signed.group(2))]
    elif isinstance(value, LISTS + SETS):
        items = list(value)
    else:
        items = notation.items(value) if is_text else [value]
    meant = [named(item, feature.levels) for item in items]
    unknown = [item for item, level in zip(items, meant, strict=True) if level is None]
    remedies = [did_you_mean(item, feature.levels) or f"Its levels are {some(feature.levels)}." for item in unknown]
    problems = [f"{feature.name!r} has no level {some([item])}" for item in unknown]
    refuse(list(zip(problems, remedies, strict=True)))
    chosen = [_level(feature, code) for code in sorted({feature.code_of_level[level] for level in meant})]
    return f"{primed} {sign} {chosen[0]}" if sign else _one_of(chosen, primed)


def _level(feature: Feature, code: int) -> str:
    text = notation.level(str(feature.levels[code]))
    if text is None:
        problem = f"the level {some([feature.levels[code]])} cannot be written in a rule"
        raise Unreadable((problem, "Rename it, without line breaks or mixed quotes."))
    return text
