"""Features for people to look over: a line each, or a table with what each may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import some
from ..markup import Glance, counted, grid
from .feature import Feature
from .guessing import Guess

HEAD = ("feature", "kind", "values", "unit", "may change")
FEW = 6
"""So many levels of a category are named."""


def summary(features: Sequence[Feature]) -> str:
    """How many features there are of which kind, and how many of them may change."""
    numbers, free = sum(f.is_number for f in features), sum(f.mutable for f in features)
    categories = len(features) - numbers
    kinds = f"{counted(numbers, 'number')}, {categories:,} categor{'y' if categories == 1 else 'ies'}"
    return f"{counted(len(features), 'feature')} ({kinds}; {free:,} may change)"


def glance(features: Sequence[Feature], guesses: Sequence[Guess]) -> Glance:
    """A table with a line for each feature."""
    guessed = f"{counted(len(guesses), 'feature')} guessed from a table; report() says why" if guesses else ""
    columns = [i for i, title in enumerate(HEAD) if title != "unit" or any(f.unit for f in features)]
    cells = [(f.name, f.kind, values(f), f.unit, "yes" if f.mutable else "no") for f in features]
    rows = [tuple(row[i] for i in columns) for row in cells]
    table = grid([HEAD[i] for i in columns], rows, "feature")
    return Glance(f"Schema: {summary(features)}", (guessed,) if guessed else (), grids=(table,))


def line(feature: Feature) -> str:
    """A feature in one line."""
    kept = "" if feature.mutable else ", immutable"
    unit = f" {feature.unit}" if feature.unit else ""
    if feature.is_number:
        return f"{feature.name}: {feature.kind}, {feature.low} to {feature.high}{unit} by {feature.step}{kept}"
    return f"{feature.name}: {feature.kind}, {_levels(feature)}{kept}"


def values(feature: Feature) -> str:
    """What a feature may be."""
    if not feature.is_complete:
        return "not known yet"
    if feature.is_category:
        return _levels(feature)
    return f"{_number(feature.low)} to {_number(feature.high)} by {_number(feature.step)}"


def _levels(feature: Feature) -> str:
    return f"{len(feature.levels)} levels: {some(feature.levels, FEW)}"


def _number(value: Any) -> str:
    return f"{value:,.12g}"
