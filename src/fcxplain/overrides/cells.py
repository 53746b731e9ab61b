"""The special columns of a table of overrides: what a cell of `freeze`, `rules`, `target` or `difficulty` says."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..errors import did_you_mean, some
from ..rules import Rule, notation
from ..schema import Schema, level_named
from ..schema.definition import is_missing
from ..schema.feature import plain

LISTS = (list, tuple, np.ndarray, pd.Index, pd.Series)
SETS = (set, frozenset)
Problem = tuple[str, str]
"""What is wrong, and what to do about it."""


class Unreadable(Exception):
    """All that is wrong with a cell; never leaves this package."""

    def __init__(self, problem: str, remedy: str = "", *, more: Iterable[Problem] = ()) -> None:
        self.problems = [(problem, remedy), *more]


def refuse(problems: list[Problem]) -> None:
    """Raise what was collected, if anything."""
    if problems:
        raise Unreadable(*problems[0], more=problems[1:])


def is_empty(value: Any) -> bool:
    """Whether a cell says nothing."""
    value = plain(value)
    return is_missing(value) or (isinstance(value, str) and not value.strip())


def is_number(value: Any) -> bool:
    """Whether a plain value is a number that a float can hold; infinity is one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < 2**1023
    return isinstance(value, float) and not math.isnan(value)


def frozen(value: Any, schema: Schema) -> tuple[str, ...]:
    """Rules that keep the named features as they are."""
    if isinstance(value, str):
        names = [value] if value in schema else notation.items(value)
    elif isinstance(value, LISTS + SETS):
        names = [str(name) for name in value]
    else:
        raise Unreadable(f"{some([value])} names no features", "List them, e.g. ['age', 'job'] or 'age, job'.")
    refuse(_unknown(names, schema))
    written = [notation.name(n, schema) for n in sorted(set(names))]
    return tuple(f"{n}' == {n}" for n in written)


def own_rules(value: Any) -> tuple[str, ...]:
    """The lines of a text (semicolons end a line too), or of a list of texts or rules."""
    if isinstance(value, str):
        return tuple(notation.lines(value))
    given = list(value) if isinstance(value, LISTS) else [value]
    texts = [item.text if isinstance(item, Rule) else item for item in given]
    odd = [text for text in texts if not isinstance(text, str)]
    refuse([(f"{some([text])} is no text", "Give one rule a line, or a list of texts.") for text in odd])
    return tuple(line for text in texts for line in text.split("\n"))


def target(value: Any, classes: tuple[Any, ...]) -> Any:
    """The class that is meant."""
    meant = named(value, classes)
    if meant is None:
        remedy = f"{did_you_mean(value, classes)} The classes are {some(classes)}.".strip()
        raise Unreadable(f"{some([value])} is not one of the classes", remedy)
    return plain(meant)


def difficulty(value: Any, schema: Schema) -> dict[str, float]:
    """What changing each named feature costs, sorted by name."""
    if isinstance(value, str):
        value = _priced(value)
    if not isinstance(value, Mapping):
        problem = f"{some([value])} is no mapping from features to numbers"
        raise Unreadable(problem, "Write {'age': 2} or age=2.")
    given = {str(n): plain(v) for n, v in value.items() if not is_missing(plain(v))}
    odd = {n: v for n, v in given.items() if n in schema and not (is_number(v) and 0 < v < math.inf)}
    above = "Give a number above 0; 1 is usual."
    refuse(_unknown(given, schema) + [(f"the difficulty of {n!r} is {some([v])}", above) for n, v in odd.items()])
    return {n: float(given[n]) for n in sorted(given)}


def _priced(text: str) -> dict[str, float]:
    """Features and their numbers from `age=2, job=5`."""
    found: dict[str, float] = {}
    problems: list[Problem] = []
    for part in notation.parts(text):
        # A number holds neither sign, so that the last one parts it from the name.
        place = max(part.rfind("="), part.rfind(":"))
        name, number = notation.bare(part[: max(place, 0)].rstrip()), part[place + 1 :].lstrip()
        if place < 1 or not re.fullmatch(notation.NUMBER, number):
            problems.append((f"{some([part])} gives no feature a number", "Write e.g. age=2, job=5."))
        elif name in found:
            problems.append((f"{some([name])} is given two numbers", "Drop one of the two."))
        else:
            found[name] = float(number)
    refuse(problems)
    return found


def named(value: Any, options: tuple[Any, ...]) -> Any:
    """The level or class that is meant, else None.

    A column with gaps turns 1 into 1.0, so whole numbers are tried as such too.
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
    """A problem for each name that no feature has."""
    known = f"There are {some(schema.names)}."
    return [(f"no feature {some([n])}", did_you_mean(n, schema.names) or known) for n in names if n not in schema]
