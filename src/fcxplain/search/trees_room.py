"""What one row may become, in cells: the ways that rules leave it, and real values in the cells of a box."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rules.check import ROUNDING, evaluate, truth
from ..rules.nodes import Affine, Ref
from ..schema import Feature
from .reach import Bools, Box, Choice, Floats, Reach, at_most
from .trees_cells import Grid
from .trees_leaves import CellTrees

# Combinations of values tried in the cells of a box for rules on several values at once.
TRIED = 4096


@dataclass(frozen=True, eq=False)
class Limit:
    """A comparison of several values: the sum over features of the least `cost` of their cells must not be positive."""

    way: int
    cost: Floats
    rest: float


@dataclass(frozen=True, eq=False)
class Ways:
    """Features whose rules are kept together, and the cells that each way of keeping them leaves, `ways x cells`."""

    choice: Choice
    boxes: tuple[Box, ...]
    spans: tuple[slice, ...]
    cells: Bools
    limits: tuple[Limit, ...]

    def open(self, boxes: Bools) -> Bools:
        """Which ways lead into boxes (`n x cells`), `n x ways`."""
        found = np.ones((len(boxes), len(self.boxes)), dtype=bool)
        for span in self.spans:
            found &= (boxes[:, span].astype(np.float32) @ self.cells[:, span].T.astype(np.float32)) > 0
        for limit in self.limits:
            least = np.full(len(boxes), limit.rest)
            for span in self.spans:
                inside = boxes[:, span] & self.cells[limit.way, span]
                least += np.where(inside, limit.cost[span], np.inf).min(axis=1)
            found[:, limit.way] &= least <= 0
        return found

    def drawn_in(self, boxes: Bools) -> Bools:
        """Boxes without the cells that no way leads to; a box that none leads into is empty."""
        ways, drawn = self.open(boxes).astype(np.float32), boxes.copy()
        for span in self.spans:
            drawn[:, span] &= (ways @ self.cells[:, span].astype(np.float32)) > 0
        return drawn


@dataclass(frozen=True, eq=False)
class Room:
    """One row's own room among the cells."""

    reach: Reach
    row: int
    trees: CellTrees
    whole: Bools
    """The least box around all that it may become."""
    ways: tuple[Ways, ...]
    several: tuple[Ways, ...]
    """Those that a box may lie in by part only."""

    @classmethod
    def of(cls, reach: Reach, row: int, trees: CellTrees) -> Room:
        """What the rules, bounds and immutables leave to a row."""
        whole = np.zeros((1, trees.size), dtype=bool)
        place = {name: i for i, name in enumerate(reach.schema.names)}
        for name in reach.fixed:
            i = place[name]
            whole[0, trees.spans[i].start + trees.grids[i].of(reach.schema[name], reach.before[name][row])] = True
        ways = tuple(_ways(choice, reach, row, trees, place) for choice in reach.choices)
        for own in ways:
            whole |= own.cells.any(axis=0)
        several = tuple(w for w in ways if len(w.boxes) > 1 or w.limits)
        for own in several:
            whole = own.drawn_in(whole)
        return cls(reach, row, trees, whole[0], ways, several)

    def point(self, box: Bools) -> tuple[dict[str, Any] | None, bool]:
        """A legal row in a box, near to the present one; or None, and whether it is certain that there is none."""
        found = {n: self.reach.before[n][self.row] for n in self.reach.fixed}
        certain = True
        for ways in self.ways:
            part, sure = self._part(ways, box)
            if part is None and sure:
                return None, True
            certain &= part is not None
            found |= part or {}
        return (found, True) if certain else (None, False)

    def _part(self, ways: Ways, box: Bools) -> tuple[dict[str, Any] | None, bool]:
        """Values for the features of one choice."""
        certain = True
        for way in np.flatnonzero(ways.open(box[None])[0]):
            values = [self._values(ways.boxes[way], name, box) for name in ways.choice.names]
            if not all(map(len, values)):
                continue
            if ways.choice.formula is None:
                return {n: v[0] for n, v in zip(ways.choice.names, values, strict=True)}, True
            part, sure = self._kept(ways.choice, values)
            if part is not None:
                return part, True
            certain &= sure
        return None, certain

    def _kept(self, choice: Choice, values: list[NDArray[Any]]) -> tuple[dict[str, Any] | None, bool]:
        """The first combination of values that keeps a choice's rules, and whether all were tried."""
        whole = math.prod(map(len, values)) <= TRIED
        if not whole:
            values = [_thinned(v, max(2, int(TRIED ** (1 / len(values))))) for v in values]
        grids = [g.ravel() for g in np.meshgrid(*values, indexing="ij")]
        then = dict(zip(choice.names, grids, strict=True))
        now = {n: np.full(len(grids[0]), v[self.row]) for n, v in self.reach.before.items()}
        assert choice.formula is not None
        kept = np.flatnonzero(np.broadcast_to(truth(choice.formula, now, then), len(grids[0])))
        return ({n: v[kept[0]] for n, v in then.items()}, True) if len(kept) else (None, whole)

    def _values(self, box: Box, name: str, cells: Bools) -> NDArray[Any]:
        """Legal values of a feature in a way and a box, the nearest to the present one first."""
        i, feature, now = (
            self.reach.schema.names.index(name),
            self.reach.schema[name],
            self.reach.before[name][self.row],
        )
        grid, own = self.trees.grids[i], cells[self.trees.spans[i]]
        codes = [np.arange(a, b + 1) for a, b in zip(grid.first[own], grid.last[own], strict=True)]
        every = np.concatenate([np.empty(0, dtype=np.int64), *codes])
        if feature.is_category:
            every = every[box.levels[name][self.row][every]]
            return np.asarray(every[np.argsort(every != now, kind="stable")])
        limits = box.intervals[name]
        values = feature.at(every[(every >= limits.low[self.row]) & (every <= limits.high[self.row])])
        if limits.keeps[self.row] and own[grid.of(feature, now)] and now not in values:
            values = np.append(values, now)
        return np.asarray(values[np.argsort(np.abs(values - now), kind="stable")])


def _thinned(values: NDArray[Any], most: int) -> NDArray[Any]:
    return values if len(values) <= most else np.sort(values)[np.linspace(0, len(values) - 1, most).astype(np.int64)]


def _ways(choice: Choice, reach: Reach, row: int, trees: CellTrees, place: dict[str, int]) -> Ways:
    boxes = tuple(box for box in choice.boxes if box.open[row])
    cells = np.zeros((len(boxes), trees.size), dtype=bool)
    spans = tuple(trees.spans[place[name]] for name in choice.names)
    for way, box in enumerate(boxes):
        for name in choice.names:
            cells[way, trees.spans[place[name]]] = _cells(box, reach, name, row, trees, place[name])
    limits = tuple(
        _limit(way, box, affine, reach, row, trees, place)
        for way, box in enumerate(boxes)
        for atom in box.wide
        for affine in at_most(atom)
    )
    return Ways(choice, boxes, spans, cells, limits)


def _cells(box: Box, reach: Reach, name: str, row: int, trees: CellTrees, i: int) -> Bools:
    """The cells of a feature that a box has values in."""
    grid, feature = trees.grids[i], reach.schema[name]
    if feature.is_category:
        return np.logical_or.reduceat(box.levels[name][row], grid.first)
    limits = box.intervals[name]
    found = grid.between(int(limits.low[row]), int(limits.high[row]))
    if limits.keeps[row]:
        found[grid.of(feature, reach.before[name][row])] = True
    return found


def _limit(
    way: int, box: Box, affine: Affine, reach: Reach, row: int, trees: CellTrees, place: dict[str, int]
) -> Limit:
    """A sum that must not be positive, less what the exact reading takes for rounding."""
    now = {n: v[row : row + 1] for n, v in reach.before.items()}
    primed = [(w, ref) for w, ref in affine.terms if isinstance(ref, Ref) and ref.primed]
    present = Affine(tuple(t for t in affine.terms if t not in primed), affine.constant)
    rest, size = (float(np.broadcast_to(part, 1)[0]) for part in evaluate(present, now, now))
    cost = np.zeros(trees.size)
    for weight, ref in primed:
        i = place[ref.name]
        low, high = _ends(ref.feature, box, trees.grids[i], row, float(now[ref.name][0]))
        cost[trees.spans[i]] += np.minimum(weight * low, weight * high)
        size += abs(weight) * float(np.maximum(np.abs(low), np.abs(high)).max())
    return Limit(way, cost, rest - 4 * ROUNDING * size)


def _ends(feature: Feature, box: Box, grid: Grid, row: int, now: float) -> tuple[Floats, Floats]:
    """The least and the largest value (or rank) that a box has in each cell of a feature."""
    if feature.is_category:
        ranks, allowed = feature.rank_of_level, box.levels[feature.name][row]
        low, high = np.where(allowed, ranks, np.inf), np.where(allowed, ranks, -np.inf)
        low, high = np.minimum.reduceat(low, grid.first), np.maximum.reduceat(high, grid.first)
        return np.where(low > high, 0.0, low), np.where(low > high, 0.0, high)
    limits = box.intervals[feature.name]
    first, last = np.maximum(grid.first, limits.low[row]), np.minimum(grid.last, limits.high[row])
    low, high = feature.at(first).astype(np.float64), feature.at(last).astype(np.float64)
    # A cell without grid values of the box has the present value or nothing.
    low, high = np.where(first > last, now, low), np.where(first > last, now, high)
    if limits.keeps[row]:
        own = grid.of(feature, now)
        low[own], high[own] = min(low[own], now), max(high[own], now)
    return low, high
