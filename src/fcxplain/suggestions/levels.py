"""Levels that never meet: if a feature has this value, a category never has those levels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .chance import Bar
from .columns import Bools, Column
from .suggestion import Candidate
from .writing import MOST_LISTED, Writer

Counts = NDArray[np.int64]


def meetings(first: Column, second: Column) -> Counts:
    """How many rows have each pair of parts, `parts x parts`."""
    both = (first.part_of >= 0) & (second.part_of >= 0)
    width = len(second.parts)
    places = first.part_of[both] * width + second.part_of[both]
    return np.bincount(places, minlength=len(first.parts) * width).reshape(len(first.parts), width)


def level_rules(first: Column, second: Column, bar: Bar, writer: Writer) -> Iterator[Candidate]:
    """Rules that let a condition on the first feature exclude levels of the second, a category."""
    table = meetings(first, second)
    rows, conditions = int(table.sum()), first.conditions
    # A category's conditions are its levels, one by one.
    seen, of_level = conditions @ table if first.is_ordered else table, table.sum(axis=0)
    support = seen.sum(axis=1)
    never = (seen == 0) & bar.passes(support[:, None], of_level[None, :], rows)
    for chosen, allowed in _merged(first, conditions, seen, never, of_level):
        condition, consequence = writer.chosen(first, chosen), writer.chosen(second, allowed)
        if condition is None or consequence is None:
            continue
        count = int(table[chosen].sum())
        expected = count * float(of_level[~allowed].sum()) / rows
        names = frozenset((first.feature.name, second.feature.name))
        yield Candidate(f"{condition} => {consequence}", "levels", names, count, expected, expected / rows)


def _merged(
    first: Column, conditions: Bools, seen: Counts, never: Bools, of_level: Counts
) -> Iterator[tuple[Bools, Bools]]:
    """Conditions and the levels they allow; levels of a category that allow the same stand together."""
    together: dict[bytes, Bools] = {}
    for chosen, met, excluded in zip(conditions, seen > 0, never, strict=True):
        if not excluded.any():
            continue
        allowed = _allowed(met, excluded, of_level)
        if first.is_ordered:
            yield chosen, allowed
        else:
            together[allowed.tobytes()] = together.get(allowed.tobytes(), np.zeros_like(chosen)) | chosen
    for packed, chosen in together.items():
        yield chosen, np.frombuffer(packed, dtype=bool)


def _allowed(met: Bools, excluded: Bools, of_level: Counts) -> Bools:
    """The levels met, if they are few; else all but the most frequent of those that are clearly excluded."""
    if met.sum() <= min(MOST_LISTED, excluded.sum()):
        return met
    allowed = ~excluded
    spare = np.flatnonzero(excluded)
    allowed[spare[np.argsort(-of_level[spare], kind="stable")][MOST_LISTED:]] = True
    return allowed
