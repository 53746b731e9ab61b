"""Branch and bound over tree ensembles: whether any row in a row's region gets a class, or which one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..classifier.reading.trees import Demand
from ..region.region import Bools, Box, Choice, Floats, Places, Region, at_most
from ..rules.check import ROUNDING, evaluate, truth
from ..rules.nodes import Affine, Ref
from ..schema import Feature
from .tree_cells import CellTrees, FeatureCells

# Combinations of values tried in the cells of a box for rules on several values at once.
TRIED_VALUES = 4096


@dataclass(frozen=True, eq=False)
class CellSum:
    """A comparison of several values: the sum over features of the least `cost` of their cells must not be positive."""

    way: int
    cost: Floats
    rest: float


@dataclass(frozen=True, eq=False)
class CellWays:
    """Features whose rules are kept together, and the cells that each way of keeping them leaves, `ways x cells`."""

    choice: Choice
    boxes: tuple[Box, ...]
    spans: tuple[slice, ...]
    cells: Bools
    limits: tuple[CellSum, ...]

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
class CellRegion:
    """One row's own room among the cells."""

    reach: Region
    row: int
    trees: CellTrees
    whole: Bools
    """The least box around all that it may become."""
    ways: tuple[CellWays, ...]
    several: tuple[CellWays, ...]
    """Those that a box may lie in by part only."""

    @classmethod
    def of(cls, reach: Region, row: int, trees: CellTrees) -> CellRegion:
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

    def _part(self, ways: CellWays, box: Bools) -> tuple[dict[str, Any] | None, bool]:
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
        whole = math.prod(map(len, values)) <= TRIED_VALUES
        if not whole:
            values = [_thinned(v, max(2, int(TRIED_VALUES ** (1 / len(values))))) for v in values]
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


def _ways(choice: Choice, reach: Region, row: int, trees: CellTrees, place: dict[str, int]) -> CellWays:
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
    return CellWays(choice, boxes, spans, cells, limits)


def _cells(box: Box, reach: Region, name: str, row: int, trees: CellTrees, i: int) -> Bools:
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
    way: int, box: Box, affine: Affine, reach: Region, row: int, trees: CellTrees, place: dict[str, int]
) -> CellSum:
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
    return CellSum(way, cost, rest - 4 * ROUNDING * size)


def _ends(feature: Feature, box: Box, grid: FeatureCells, row: int, now: float) -> tuple[Floats, Floats]:
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


# Boxes looked at for one row at most, and leaves times boxes.
BOXES = 20_000
WORK = 2**26
# Boxes cut at a time, and numbers in an array of leaves x boxes.
TOGETHER = 128
HELD = 2**21
# Cells with a good score in which a legal row is looked for at a time.
TRIED = 8
# How often the model itself is asked about a row, where rounding decides.
ASKED = 64

# Digits by which cells and cuts are chosen, so that rounding does not show.
DIGITS = 4

Singles = NDArray[np.float32]
Ask = Callable[[dict[str, Any]], bool]
"""Whether the user's own model gives a row, natural values, the class wanted."""


@dataclass(frozen=True)
class TreeBudget:
    """What a search may cost: boxes, questions to the model, and the time by the monotonic clock at which it ends."""

    boxes: int = BOXES
    asks: int = ASKED
    until: float = np.inf


@dataclass(frozen=True)
class Verdict:
    """Certain that there is no row, or a row that gets the class, or neither; and how often the model was asked."""

    certain: bool
    row: dict[str, Any] | None
    asked: int


@dataclass(frozen=True, eq=False)
class Cuts:
    """Ways to part boxes along one feature: the cells on both sides, as zeros and ones, `cuts x cells`.

    `never_in` and `never_out` (`masks x cuts`) mark masks that have no cell on the one side or on the other.
    """

    inside: Singles
    outside: Singles
    never_in: Singles
    never_out: Singles

    @classmethod
    def of(cls, cuts: Bools, whole: Bools, masks: Singles) -> Cuts:
        """The cuts that part a room."""
        inside, outside = cuts & whole, ~cuts & whole
        useful = inside.any(axis=1) & outside.any(axis=1)
        sides = [side[useful].astype(np.float32) for side in (inside, outside)]
        never_in, never_out = ((masks @ side.T == 0).astype(np.float32) for side in sides)
        return cls(sides[0], sides[1], never_in, never_out)


class TreeSearch:
    """The trees over one row's room, with nothing in them that the row cannot reach."""

    def __init__(self, room: CellRegion, demands: Sequence[Demand], ask: Ask) -> None:
        trees = room.trees
        self.room, self.ask, self.asked, self.most_asked, self.lost = room, ask, 0, ASKED, False
        self.spans = trees.spans
        self.loose, self.firm = (np.asarray([getattr(d, n) for d in demands]) for n in ("loose", "firm"))
        met = [(mask & room.whole[span]).any(axis=1) for mask, span in zip(trees.masks, trees.spans, strict=True)]
        leaves = np.flatnonzero(np.concatenate([[True], *met])[trees.uses].all(axis=1))
        self.starts = np.flatnonzero(np.diff(trees.tree[leaves], prepend=-1))
        self.sizes = np.diff(np.append(self.starts, len(leaves)))
        self.values = np.stack([trees.scores[leaves] @ d.weights for d in demands])
        self._keep_masks(trees, trees.uses[leaves])

    def _keep_masks(self, trees: CellTrees, uses: Places) -> None:
        """The masks that leaves use, numbered anew."""
        used = np.zeros(trees.blocks[-1].stop, dtype=bool)
        used[uses] = used[0] = True
        number = used.cumsum() - 1
        self.uses = number[uses]
        own = [used[block] for block in trees.blocks]
        self.masks = [mask[u].astype(np.float32) for mask, u in zip(trees.masks, own, strict=True)]
        ends = np.cumsum([1, *map(len, self.masks)]).tolist()
        self.blocks = [slice(a, b) for a, b in pairwise(ends)]

    @cached_property
    def cuts(self) -> list[Cuts]:
        """Cuts that part the room, for each feature."""
        whole = [self.room.whole[span] for span in self.spans]
        return [Cuts.of(*own) for own in zip(self.room.trees.cuts, whole, self.masks, strict=True)]

    def run(self, limits: TreeBudget) -> Verdict:
        """Look at boxes, the most promising first, until all are closed or one has a row that gets the class."""
        if not self._is_filled(self.room.whole[None])[0]:
            return Verdict(True, None, 0)
        left, bound = self.room.whole[None], np.full(1, np.inf)
        limit, seen, self.most_asked = min(limits.boxes, WORK // max(1, len(self.uses))), 0, limits.asks
        while len(left):
            if seen >= limit or time.monotonic() > limits.until:
                return Verdict(False, None, self.asked)
            order = np.argsort(-bound, kind="stable")
            first, rest = order[: self._together], order[self._together :]
            row, parts, part_bound = self._look(left[first])
            if row is not None:
                return Verdict(False, row, self.asked)
            seen += len(first)
            left, bound = np.concatenate([left[rest], parts]), np.concatenate([bound[rest], part_bound])
        return Verdict(not self.lost, None, self.asked)

    @property
    def _together(self) -> int:
        return int(max(1, min(TOGETHER, HELD // max(1, len(self.uses)))))

    def _look(self, boxes: Bools) -> tuple[dict[str, Any] | None, Bools, Floats]:
        """A row that gets the class; or else the parts of boxes that may still have one, with bounds."""
        reached = self._reached(boxes)
        bounds = self._bounds(reached)
        is_open = (bounds + self.loose[:, None] >= 0).all(axis=0)
        boxes, reached, bounds = boxes[is_open], reached[:, is_open], bounds[:, is_open]
        # Where every tree has a single leaf left, the score is known, and the box is not cut any further.
        settled = reached.sum(axis=0) == len(self.starts)
        row = self._settled(boxes[settled], bounds[:, settled])
        boxes, reached, bounds = boxes[~settled], reached[:, ~settled], bounds[:, ~settled]
        if row is not None or not len(boxes):
            return row, boxes[:0], np.empty(0)
        lowest = (bounds + self.loose[:, None]).argmin(axis=0)
        weight = self._wanted(reached, lowest)
        row = self._agreed(boxes, weight)
        parts = self._cut(boxes, weight)
        filled = self._is_filled(parts)
        return row, parts[filled], np.tile((bounds + self.loose[:, None]).min(axis=0), 2)[filled]

    def _reached(self, boxes: Bools) -> Bools:
        """Which leaves boxes reach, `leaves x boxes`."""
        cells, met = boxes.T.astype(np.float32), np.ones((self.blocks[-1].stop, len(boxes)), dtype=bool)
        for block, mask, span in zip(self.blocks, self.masks, self.spans, strict=True):
            met[block] = (mask @ cells[span]) > 0
        found = met[self.uses[:, 0]]
        for column in self.uses.T[1:]:
            found &= met[column]
        return np.asarray(found)

    def _bounds(self, reached: Bools) -> Floats:
        """No row of a box has more than this, for each demand, `demands x boxes`."""
        found = [np.where(reached, values[:, None], -np.inf) for values in self.values]
        return np.stack([np.maximum.reduceat(f, self.starts, axis=0).sum(axis=0) for f in found])

    def _is_filled(self, boxes: Bools) -> Bools:
        starts = [span.start for span in self.spans]
        return np.asarray(np.logical_or.reduceat(boxes, starts, axis=1).all(axis=1))

    def _settled(self, boxes: Bools, score: Floats) -> dict[str, Any] | None:
        """A row in a box with one score all over, good enough; by the model's own word where rounding decides."""
        firm = (score + self.firm[:, None] > 0).all(axis=0)
        for box, good in zip(boxes, firm, strict=True):
            row, certain = self.room.point(box)
            self.lost |= row is None and not certain
            if row is None or (not good and self.asked >= self.most_asked):
                self.lost |= row is not None
                continue
            self.asked += not good
            if good or self.ask(row):
                return row
        return None

    def _wanted(self, reached: Bools, lowest: Places) -> Singles:
        """What boxes lose without each mask, `boxes x masks`, by the best leaves; the most for one tree is 1."""
        values = self.values[lowest].T
        best, worst = np.where(reached, values, -np.inf), np.where(reached, values, np.inf)
        most = np.maximum.reduceat(best, self.starts, axis=0)
        spread = most - np.minimum.reduceat(worst, self.starts, axis=0)
        spread = spread / np.maximum(spread.max(axis=0), np.finfo(np.float64).tiny)
        places = np.arange(len(values))[:, None]
        top = np.where(best == np.repeat(most, self.sizes, axis=0), places, len(values))
        leaf = np.minimum.reduceat(top, self.starts, axis=0)
        count, box = self.blocks[-1].stop, np.arange(leaf.shape[1])
        weight = np.zeros(len(box) * count)
        for column in self.uses.T:
            weight += np.bincount((box * count + column[leaf]).ravel(), spread.ravel(), minlength=len(weight))
        return weight.reshape(len(box), count).astype(np.float32)

    def _agreed(self, boxes: Bools, weight: Singles) -> dict[str, Any] | None:
        """A row in the cells that the best leaves want most, if it really is good."""
        parts = [weight[:, block] @ mask for block, mask in zip(self.blocks, self.masks, strict=True)]
        liking: Singles = np.concatenate(parts, axis=1).round(DIGITS)
        for ways in self.room.several:
            boxes = _in_best_way(boxes, ways, liking)
        points = np.zeros_like(boxes)
        for span in self.spans:
            best = np.where(boxes[:, span], liking[:, span], -np.inf).argmax(axis=1)
            points[np.arange(len(boxes)), span.start + best] = True
        points = points[self._is_filled(boxes)]
        good = (self._bounds(self._reached(points)) + self.firm[:, None] > 0).all(axis=0)
        for point in points[good][:TRIED]:
            row, _ = self.room.point(point)
            if row is not None:
                return row
        return None

    def _cut(self, boxes: Bools, weight: Singles) -> Bools:
        """All boxes in halves, first ones first, by the cut that takes most from the better of the two."""
        worth = [
            self._worth(boxes[:, s], weight[:, b], c)
            for s, b, c in zip(self.spans, self.blocks, self.cuts, strict=True)
        ]
        ends = np.cumsum([0, *(w.shape[1] for w in worth)])
        chosen = np.concatenate(worth, axis=1).argmax(axis=1)
        first, second = boxes.copy(), boxes.copy()
        for i, span in enumerate(self.spans):
            own = np.flatnonzero((chosen >= ends[i]) & (chosen < ends[i + 1]))
            cut = chosen[own] - ends[i]
            first[own, span] &= self.cuts[i].outside[cut] == 0
            second[own, span] &= self.cuts[i].inside[cut] == 0
        halves = np.concatenate([first, second])
        for ways in self.room.several:
            halves = ways.drawn_in(halves)
        return halves

    def _worth(self, boxes: Bools, weight: Singles, cuts: Cuts) -> Singles:
        """What cuts of one feature take away from boxes, `boxes x cuts`; negative for those that part nothing."""
        first, second = weight @ cuts.never_in, weight @ cuts.never_out
        worth = np.round(np.minimum(first, second) + 1e-3 * np.maximum(first, second), DIGITS)
        cells = boxes.astype(np.float32)
        parts = ((cells @ cuts.inside.T) > 0) & ((cells @ cuts.outside.T) > 0)
        return np.where(parts, worth, np.float32(-1.0))


def _in_best_way(boxes: Bools, ways: CellWays, liking: Singles) -> Bools:
    """Boxes with only the way left that offers the cells liked most."""
    worth = np.zeros((len(boxes), len(ways.boxes)))
    for span in ways.spans:
        inside = boxes[:, None, span] & ways.cells[None, :, span]
        worth += np.where(inside, liking[:, None, span], -np.inf).max(axis=2)
    chosen = np.where(ways.open(boxes), worth, -np.inf).argmax(axis=1)
    found = boxes.copy()
    for span in ways.spans:
        found[:, span] &= ways.cells[chosen, span]
    return found
