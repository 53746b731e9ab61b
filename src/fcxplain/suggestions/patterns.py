"""Patterns that no training row breaks: ordered numbers, levels that never co-occur, ranges tied to a value."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
from numpy.typing import NDArray

from .evidence import Bar, Bools, Floats, ValueColumn
from .suggestion import MOST_LISTED, Candidate, Writer


def order_rules(first: ValueColumn, second: ValueColumn, bar: Bar, writer: Writer) -> Iterator[Candidate]:
    """The rule that the first number is at most the second, or equal to it, if no row contradicts it."""
    a, b = first.feature, second.feature
    if a.unit and b.unit and a.unit != b.unit:
        return
    known = first.known & second.known
    x, y = first.values[known], second.values[known]
    same = bool((x == y).all())
    # The reverse order of a pair of equals yields it.
    if not len(x) or (x > y).any() or (same and a.name > b.name):
        return
    excluded = pairs_above(x, y) / len(x)
    names = frozenset((a.name, b.name))
    if bar.passes(np.asarray([len(x)]), np.asarray([int(excluded)]), len(x)).all():
        text = f"{writer.name(a.name)} {'==' if same else '<='} {writer.name(b.name)}"
        yield Candidate(text, "order", names, len(x), excluded, excluded / len(x))


def pairs_above(x: Floats, y: Floats) -> float:
    """The number of pairs of an x of one row and a y of any row in which x is greater."""
    return float(np.searchsorted(np.sort(y), np.sort(x), side="left").sum())


Counts = NDArray[np.int64]


def meetings(first: ValueColumn, second: ValueColumn) -> Counts:
    """The number of rows with each pair of parts, `parts x parts`."""
    both = (first.part_of >= 0) & (second.part_of >= 0)
    width = len(second.parts)
    places = first.part_of[both] * width + second.part_of[both]
    return np.bincount(places, minlength=len(first.parts) * width).reshape(len(first.parts), width)


def level_rules(first: ValueColumn, second: ValueColumn, bar: Bar, writer: Writer) -> Iterator[Candidate]:
    """Rules by which a condition on the first feature excludes levels of the second, a category."""
    table = meetings(first, second)
    rows, conditions = int(table.sum()), first.conditions
    # A category's conditions are its levels, one by one.
    seen, of_level = conditions @ table if first.is_ordered else table, table.sum(axis=0)
    support = seen.sum(axis=1)
    never = (seen == 0) & bar.passes(support[:, None], of_level[None, :], rows)
    for chosen, allowed in _merged_levels(first, conditions, seen, never, of_level):
        condition, consequence = writer.chosen(first, chosen), writer.chosen(second, allowed)
        if condition is None or consequence is None:
            continue
        count = int(table[chosen].sum())
        expected = count * float(of_level[~allowed].sum()) / rows
        names = frozenset((first.feature.name, second.feature.name))
        yield Candidate(f"{condition} => {consequence}", "levels", names, count, expected, expected / rows)


def _merged_levels(
    first: ValueColumn, conditions: Bools, seen: Counts, never: Bools, of_level: Counts
) -> Iterator[tuple[Bools, Bools]]:
    """Conditions and the levels they allow; levels of a category that allow the same are merged."""
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
    """The levels that occur, if few; else all but the most frequent of the clearly excluded ones."""
    if met.sum() <= min(MOST_LISTED, excluded.sum()):
        return met
    allowed = ~excluded
    spare = np.flatnonzero(excluded)
    allowed[spare[np.argsort(-of_level[spare], kind="stable")][MOST_LISTED:]] = True
    return allowed


# As many rows are inspected inside a bound as lie beyond it, but at most this share of all.
ZONE = 0.05
# A group with less than this fraction of its usual density there thins out towards the bound.
LEAST_SHARP = 0.15

Ends = tuple[float | None, float | None]


def range_rules(first: ValueColumn, second: ValueColumn, bar: Bar, writer: Writer) -> Iterator[Candidate]:
    """Rules by which a condition on the first feature bounds the second, a number or an ordinal."""
    pair = _Pair(first, second)
    names = frozenset((first.feature.name, second.feature.name))
    for chosen, bounds in pair.bounded(bar):
        ends, support, excluded, sharp = pair.sharp(chosen, bounds)
        if ends == (None, None):
            continue
        expected, applies = support * excluded / pair.rows, support
        if _leaves_one(first, chosen):
            # "Every level but one stays within" reads better as "values beyond have that level".
            condition, consequence, applies = writer.beyond(second, *ends), writer.chosen(first, ~chosen), excluded
        else:
            condition, consequence = writer.chosen(first, chosen), writer.between(second, *ends)
        if condition is not None and consequence is not None:
            text, share = f"{condition} => {consequence}", expected / pair.rows
            yield Candidate(text, "range", names, applies, expected, share, sharp)


def _leaves_one(column: ValueColumn, chosen: Bools) -> bool:
    """Whether a set of levels leaves out a single one of more than two."""
    return not column.is_ordered and 1 == int((~chosen).sum()) < int(chosen.sum())


class _Pair:
    """Two columns, in the rows where both are known."""

    def __init__(self, first: ValueColumn, second: ValueColumn) -> None:
        self.first, self.second = first, second
        self.known = first.known & second.known
        self.rows = int(self.known.sum())
        whole = self.rows == len(second.in_order)
        self.ordered = second.in_order if whole else np.sort(second.values[self.known])

    def bounded(self, bar: Bar) -> Iterator[tuple[Bools, Ends]]:
        """Sets of parts of the first column, and the significant bounds of the second."""
        if not self.rows:
            return
        conditions = self.first.conditions
        if not self.first.is_ordered and len(self.first.parts) > 2:
            conditions = np.concatenate([conditions, ~conditions])
        count, low, high = extremes(self.first, self.second)
        support = conditions @ count
        least = np.where(conditions, low, np.inf).min(axis=1)
        most = np.where(conditions, high, -np.inf).max(axis=1)
        below = np.searchsorted(self.ordered, least, side="left")
        above = self.rows - np.searchsorted(self.ordered, most, side="right")
        floors, ceilings = (bar.passes(support, beyond, self.rows) for beyond in (below, above))
        found = [
            (conditions[i], (float(least[i]) if floors[i] else None, float(most[i]) if ceilings[i] else None))
            for i in np.flatnonzero(floors | ceilings)
        ]
        yield from found if self.first.is_ordered else _merged(self.first, found)

    def sharp(self, chosen: Bools, ends: Ends) -> tuple[Ends, int, int, float]:
        """The bounds at which the data ends abruptly instead of thinning out, rows inside and beyond, and how sharp."""
        group = self.second.values[self.known & chosen[self.first.part_of]]
        kept, excluded, sharps = [], 0, [1.0]
        for end, everyone, mine in ((ends[0], self.ordered, group), (_minus(ends[1]), -self.ordered[::-1], -group)):
            sharp = 0.0 if end is None else sharpness(everyone, mine, end)
            kept.append(end if sharp >= LEAST_SHARP else None)
            if end is not None and sharp >= LEAST_SHARP:
                excluded += int(np.searchsorted(everyone, end, side="left"))
                sharps.append(sharp)
        return self._rounded(kept[0], _minus(kept[1])), len(group), excluded, min(sharps)

    def _rounded(self, low: float | None, high: float | None) -> Ends:
        """The bounds rounded, without crossing any value that occurs."""
        if low == high or not self.second.feature.is_number:
            return low, high
        if low is not None:
            before = np.searchsorted(self.ordered, low, side="left") - 1
            low = roundest(low, float(self.ordered[before]))
        if high is not None:
            behind = np.searchsorted(self.ordered, high, side="right")
            high = roundest(high, float(self.ordered[behind]))
        return low, high


def extremes(first: ValueColumn, second: ValueColumn) -> tuple[NDArray[np.int64], Floats, Floats]:
    """For each part of the first column: rows, minimum and maximum of the second; infinite if there are none."""
    parts, order = np.arange(len(first.parts)), first.by_part
    codes, values = first.part_of[order], second.values[order]
    starts, ends = np.searchsorted(codes, parts, side="left"), np.searchsorted(codes, parts, side="right")
    rows = np.bincount(first.part_of[first.known & second.known], minlength=len(parts))
    low, high, filled = np.full(len(parts), np.inf), np.full(len(parts), -np.inf), ends > starts
    # fmin and fmax skip missing values; a part with nothing else has no rows and is left out below.
    low[filled] = np.fmin.reduceat(values, starts[filled])
    high[filled] = np.fmax.reduceat(values, starts[filled])
    return rows, np.where(rows > 0, low, np.inf), np.where(rows > 0, high, -np.inf)


def _merged(column: ValueColumn, found: list[tuple[Bools, Ends]]) -> Iterator[tuple[Bools, Ends]]:
    """Merge levels that come with the same bounds."""
    together: dict[Ends, Bools] = {}
    for chosen, ends in found:
        if _leaves_one(column, chosen):
            yield chosen, ends
        else:
            together[ends] = together.get(ends, np.zeros_like(chosen)) | chosen
    yield from ((chosen, ends) for ends, chosen in together.items())


def _minus(value: float | None) -> float | None:
    return None if value is None else -value


def sharpness(everyone: Floats, group: Floats, bound: float) -> float:
    """The density of a group just above its minimum, relative to all rows there; 1 if as dense as overall.

    `everyone` is in ascending order.
    """
    start = int(np.searchsorted(everyone, bound, side="left"))
    width = max(1, min(start, int(ZONE * len(everyone))))
    edge = everyone[min(start + width, len(everyone)) - 1]
    inside = int(np.searchsorted(everyone, edge, side="right")) - start
    expected = len(group) * inside / len(everyone)
    return min(1.0, float((group <= edge).sum()) / expected)


def roundest(value: float, other: float) -> float:
    """The number with the fewest digits between a value and another one, excluding the latter."""
    exact = Decimal(repr(value))
    towards = ROUND_CEILING if other > value else ROUND_FLOOR
    for digits in range(17):
        found = float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits), rounding=towards))
        if min(value, other) <= found <= max(value, other) and found != other:
            return found
    return value
