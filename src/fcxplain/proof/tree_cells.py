"""Cells: values of a feature that no tree of a model distinguishes. Leaves and regions of rows are sets of cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..classifier.reading.pipeline import column_values
from ..classifier.reading.trees import Questions, TreeModel, Trees
from ..errors import ClassifierError
from ..hashing import distinct
from ..region.boxes import Box, Floats
from ..region.linear import at_most, parted
from ..region.region import Choice, Places, Region
from ..rules.check import ROUNDING, Bools, truth
from ..rules.nodes import Affine, Formula
from ..schema import Feature, Natural
from ..task import Task

# The most legal values of all features together.
MOST_VALUES = 2**19
# The most numbers in an array.
MOST_CELLS = 2**27
# The stand-in for a missing number: a value that no column may have.
GAP = -np.inf
# The most combinations of values tried in the cells of a box for rules on several values at once.
TRIED_VALUES = 4096


@dataclass(frozen=True, eq=False)
class FeatureCells:
    """The cells of one feature: the first and the last code of each; that is below the first without grid values."""

    first: Places
    last: Places
    elsewhere: dict[float, int]
    """Cells of off-grid values; `GAP` stands for a missing one."""

    def __len__(self) -> int:
        return len(self.first)

    def between(self, low: int, high: int) -> Bools:
        """Which cells have codes between two given ones."""
        return np.asarray((self.first <= high) & (self.last >= low) & (self.first <= self.last) & (low <= high))

    @property
    def on_grid(self) -> Bools:
        """The number of cells with grid values; they come first."""
        return np.asarray(self.first <= self.last)

    def knows(self, value: Any) -> bool:
        """Whether an off-grid value has a cell."""
        return _key_of(value) in self.elsewhere

    def of(self, feature: Feature, value: Any) -> int:
        """The cell of a value."""
        if self.knows(value):
            return self.elsewhere[_key_of(value)]
        code = int(feature.codes(np.asarray([value]))[0])
        return int(np.flatnonzero(self.between(code, code))[0])


@dataclass(frozen=True, eq=False)
class CellSides:
    """Which cells go left at each split. A split is on `feature` (-1: `same` for all values), and its cells are `cut`.

    `cuts` has for each feature the distinct sets of its cells that some split sends left, `cuts x cells`.
    """

    grids: tuple[FeatureCells, ...]
    feature: Places
    cut: Places
    same: Bools
    cuts: tuple[Bools, ...]


def cell_sides(
    task: Task, questions: Questions, columns: Callable[[pd.DataFrame], Floats], before: Natural
) -> CellSides:
    """The cells of a task's features for splits on a model's `columns`, including off-grid values."""
    values = {}
    for f in task.schema:
        now, legal = before[f.name], f.at(np.arange((f.top or 0) + 1))
        values[f.name] = np.concatenate([legal, np.unique(now[~f.on_grid(now)])])
    if sum(map(len, values.values())) > MOST_VALUES:
        raise ClassifierError(f"the features have more than {MOST_VALUES:,} legal values together")
    known = column_values(task.table, columns, values)
    every = np.arange(len(questions.column))
    feature, cut, grids, cuts = np.full(len(every), -1), np.zeros(len(every), dtype=np.int64), [], []
    for i, (own, owned) in enumerate(zip(known.values, known.owned, strict=True)):
        grid, place = _grid(task.schema.features[i], questions, own, owned, values[task.schema.names[i]])
        which = np.flatnonzero(np.isin(questions.column, owned))
        if len(which) * len(grid) > MOST_CELLS:
            raise ClassifierError("there are too many splits for this many cells")
        goes = questions.goes_left(which[:, None], own[place][:, questions.column[which]].T)
        first, back = distinct(np.packbits(goes, axis=1).astype(np.int64))
        feature[which], cut[which] = i, back
        grids.append(grid)
        cuts.append(goes[first])
    same = questions.goes_left(every, known.base[questions.column])
    return CellSides(tuple(grids), feature, cut, same, tuple(cuts))


def _key_of(value: Any) -> float:
    """The key of an off-grid value, since missing numbers are not equal to each other."""
    return GAP if value != value else float(value)


def _grid(
    feature: Feature, questions: Questions, x: Floats, columns: Places, values: NDArray[Any]
) -> tuple[FeatureCells, Places]:
    """A feature's cells, and for each the index of one of its values."""
    keys = np.column_stack([np.zeros(len(x)), *(_key(questions, c, x[:, c]) for c in columns)])
    size = (feature.top or 0) + 1
    starts = np.flatnonzero(np.append(True, (keys[1:size] != keys[: size - 1]).any(axis=1)))
    first, last = starts.tolist(), [*(starts[1:] - 1).tolist(), size - 1]
    place, known = starts.tolist(), {keys[s].tobytes(): i for i, s in reversed(list(enumerate(starts)))}
    elsewhere = {}
    for i, value in enumerate(values[size:].tolist(), start=size):
        cell = known.setdefault(keys[i].tobytes(), len(place))
        if cell == len(place):
            place.append(i)
            first.append(1)
            last.append(0)
        elsewhere[_key_of(value)] = cell
    return FeatureCells(np.asarray(first), np.asarray(last), elsewhere), np.asarray(place)


def _key(questions: Questions, column: int, x: Floats) -> Floats:
    """Group numbers of values; values in one group go the same way at every split on a column."""
    own = questions.column == column
    numbers, keys = np.unique(questions.most[own & (questions.table < 0)]), [np.zeros(len(x))]
    if len(numbers):
        keys.append(np.searchsorted(numbers, x, side="left").astype(np.float64))
    if (own & (questions.table >= 0)).any():
        keys.append(np.where(x < 0, -1.0, x))
    return np.where(np.isnan(x)[:, None], -2.0, np.stack(keys, axis=1))


@dataclass(frozen=True, eq=False)
class CellTrees:
    """The trees of a model over cells; leaves are in the order of their trees.

    The sets of all features are numbered consecutively from 1; number 0 matches every box.
    """

    grids: tuple[FeatureCells, ...]
    spans: tuple[slice, ...]
    """The positions of each feature's cells among all cells."""
    masks: tuple[Bools, ...]
    """The distinct sets of cells of each feature, `sets x cells`."""
    blocks: tuple[slice, ...]
    """The numbers of each feature's sets."""
    uses: Places
    """The sets of each leaf, `leaves x most`, padded with 0."""
    tree: Places
    scores: Floats
    cuts: tuple[Bools, ...]
    """Sets of cells of each feature that some split sends left."""

    @property
    def size(self) -> int:
        """The number of cells."""
        return int(self.spans[-1].stop)


def cell_trees(task: Task, model: TreeModel, before: Natural) -> CellTrees:
    """The model over the cells of a task's features, including off-grid values of rows."""
    sides = cell_sides(task, model.trees.questions, model.columns, before)
    leaves, own, masks = _grown(model.trees, sides)
    uses = np.zeros(own.shape, dtype=np.int64)
    blocks, kept, start = [], [], 1
    for i, sets in enumerate(masks):
        narrow = np.flatnonzero(~np.asarray(sets.all(axis=1))[own[:, i]])
        first, back = distinct(np.packbits(sets[own[narrow, i]], axis=1).astype(np.int64))
        uses[narrow, i] = start + back
        kept.append(sets[own[narrow[first], i]])
        blocks.append(slice(start, start + len(first)))
        start += len(first)
    most = max(1, int((uses > 0).sum(axis=1).max(initial=0)))
    ends = np.cumsum([0, *map(len, sides.grids)]).tolist()
    spans = tuple(slice(a, b) for a, b in pairwise(ends))
    tree = np.searchsorted(model.trees.roots, leaves, side="right") - 1
    uses, scores = -np.sort(-uses, axis=1)[:, :most], model.trees.scores[leaves]
    return CellTrees(sides.grids, spans, tuple(kept), tuple(blocks), uses, tree, scores, sides.cuts)


def _grown(trees: Trees, sides: CellSides) -> tuple[Places, Places, list[Bools]]:
    """Leaves that legal values reach, the set of each feature for each leaf, and the distinct sets."""
    own = np.zeros((len(trees.asked), len(sides.grids)), dtype=np.int64)
    masks = [np.ones((1, len(grid)), dtype=bool) for grid in sides.grids]
    nodes, leaves = trees.roots, [np.empty(0, dtype=np.int64)]
    while len(nodes):
        asked = trees.asked[nodes]
        leaves.append(nodes[asked < 0])
        nodes, asked = nodes[asked >= 0], asked[asked >= 0]
        alike = sides.feature[asked] < 0
        further = [np.where(sides.same[asked], trees.left[nodes], trees.right[nodes])[alike]]
        own[further[0]] = own[nodes[alike]]
        for i in np.unique(sides.feature[asked[~alike]]).tolist():
            here = nodes[sides.feature[asked] == i]
            further += _parted(trees, sides, own, masks, here, i)
        nodes = np.concatenate(further)
    found = np.sort(np.concatenate(leaves))
    return found, own[found], masks


def _parted(
    trees: Trees, sides: CellSides, own: Places, masks: list[Bools], nodes: Places, i: int
) -> tuple[Places, Places]:
    """The children, left and right, of nodes that split on a feature, without those that no cell reaches."""
    cuts, cut = sides.cuts[i], sides.cut[trees.asked[nodes]]
    pairs, back = np.unique(own[nodes, i] * len(cuts) + cut, return_inverse=True)
    before, across = masks[i][pairs // len(cuts)], cuts[pairs % len(cuts)]
    halves, start = (before & across, before & ~across), len(masks[i])
    masks[i] = np.concatenate([masks[i], *halves])
    following = []
    for k, (child, half) in enumerate(zip((trees.left[nodes], trees.right[nodes]), halves, strict=True)):
        own[child] = own[nodes]
        own[child, i] = start + k * len(pairs) + back
        following.append(child[half.any(axis=1)[back]])
    return following[0], following[1]


@dataclass(frozen=True, eq=False)
class CellWays:
    """Features linked by rules, and the cells that each alternative of these rules allows, `ways x cells`.

    A comparison of several values belongs to an alternative, has a cost for each cell, and a rest: this and the least
    costs of the features' cells must not add up to more than 0.
    """

    choice: Choice
    boxes: tuple[Box, ...]
    spans: tuple[slice, ...]
    cells: Bools
    comparisons: tuple[tuple[int, Floats, float], ...]

    def open(self, boxes: Bools) -> Bools:
        """Which alternatives intersect boxes (`n x cells`), `n x ways`."""
        found = np.ones((len(boxes), len(self.boxes)), dtype=bool)
        for span in self.spans:
            found &= (boxes[:, span].astype(np.float32) @ self.cells[:, span].T.astype(np.float32)) > 0
        for way, cost, rest in self.comparisons:
            least = np.full(len(boxes), rest)
            for span in self.spans:
                inside = boxes[:, span] & self.cells[way, span]
                least += np.where(inside, cost[span], np.inf).min(axis=1)
            found[:, way] &= least <= 0
        return found

    def drawn_in(self, boxes: Bools) -> Bools:
        """Boxes without the cells that no alternative allows; a box that intersects none is empty."""
        ways, drawn = self.open(boxes).astype(np.float32), boxes.copy()
        for span in self.spans:
            drawn[:, span] &= (ways @ self.cells[:, span].astype(np.float32)) > 0
        return drawn


class CellRegion:
    """The region that rules, bounds and immutables leave to one row, in cells.

    `whole` is the smallest box around it, and `several` has the choices that a box may satisfy only in part.
    """

    def __init__(self, region: Region, row: int, trees: CellTrees) -> None:
        self.region, self.row, self.trees = region, row, trees
        self.now = {n: v[row] for n, v in region.before.items()}
        self._cells_of = dict(zip(region.schema.names, zip(trees.grids, trees.spans, strict=True), strict=True))
        self.whole = np.zeros(trees.size, dtype=bool)
        for name in region.fixed:
            grid, span = self._cells_of[name]
            self.whole[span.start + grid.of(region.schema[name], self.now[name])] = True
        self.ways = tuple(self._ways(choice) for choice in region.choices)
        for ways in self.ways:
            self.whole |= ways.cells.any(axis=0)
        self.several = tuple(ways for ways in self.ways if len(ways.boxes) > 1 or ways.comparisons)
        for ways in self.several:
            self.whole = ways.drawn_in(self.whole[None])[0]

    def _ways(self, choice: Choice) -> CellWays:
        boxes = tuple(box for box in choice.boxes if box.open[self.row])
        cells = np.zeros((len(boxes), self.trees.size), dtype=bool)
        for way, box in enumerate(boxes):
            for name in choice.names:
                grid, span = self._cells_of[name]
                cells[way, span] = self._cells(box, self.region.schema[name], grid)
        comparisons = tuple(
            (way, *self._comparison(box, affine))
            for way, box in enumerate(boxes)
            for atom in box.way.sums
            for affine in at_most(atom)
        )
        return CellWays(choice, boxes, tuple(self._cells_of[name][1] for name in choice.names), cells, comparisons)

    def _cells(self, box: Box, feature: Feature, grid: FeatureCells) -> Bools:
        """The cells of a feature in which a box has values."""
        if feature.is_category:
            found, stays = np.zeros(len(grid), dtype=bool), box.stays[feature.name][self.row]
            allowed = box.levels[feature.name][self.row]
            found[grid.on_grid] = np.logical_or.reduceat(allowed, grid.first[grid.on_grid])
        else:
            limits = box.intervals[feature.name]
            found, stays = grid.between(int(limits.low[self.row]), int(limits.high[self.row])), limits.keeps[self.row]
        if stays:
            found[grid.of(feature, self.now[feature.name])] = True
        return found

    def _comparison(self, box: Box, affine: Affine) -> tuple[Floats, float]:
        """Costs and rest of a sum that must not be positive, minus the tolerance for rounding in the exact check."""
        terms, rest, size = parted(affine, self.now)
        cost = np.zeros(self.trees.size)
        for weight, ref in terms:
            grid, span = self._cells_of[ref.name]
            low, high = self._ends(box, ref.feature, grid)
            # A missing value satisfies no sum, but a box may have other values in its cell.
            cost[span] += np.nan_to_num(np.minimum(weight * low, weight * high), nan=-np.inf)
            size += abs(weight) * float(np.nanmax(np.maximum(np.abs(low), np.abs(high)), initial=0.0))
        return cost, float(rest - 4 * ROUNDING * size)

    def _ends(self, box: Box, feature: Feature, grid: FeatureCells) -> tuple[Floats, Floats]:
        """The least and the largest value (or rank) that a box has in each cell of a feature."""
        if feature.is_category:
            ranks, allowed = feature.rank_of_level, box.levels[feature.name][self.row]
            low, high = np.zeros(len(grid)), np.zeros(len(grid))
            first = grid.first[grid.on_grid]
            low[grid.on_grid] = np.minimum.reduceat(np.where(allowed, ranks, np.inf), first)
            high[grid.on_grid] = np.maximum.reduceat(np.where(allowed, ranks, -np.inf), first)
            return np.where(low > high, 0.0, low), np.where(low > high, 0.0, high)
        limits, now = box.intervals[feature.name], float(self.now[feature.name])
        first, last = np.maximum(grid.first, limits.low[self.row]), np.minimum(grid.last, limits.high[self.row])
        # A cell without grid values of the box has only the present value, or none.
        low, high = (np.where(first > last, now, feature.at(end).astype(np.float64)) for end in (first, last))
        if limits.keeps[self.row]:
            own = grid.of(feature, now)
            low[own], high[own] = min(low[own], now), max(high[own], now)
        return low, high

    def point(self, box: Bools) -> tuple[dict[str, Any] | None, bool]:
        """A legal row in a box, close to the present one; or None, and whether it is proved that there is none."""
        found, certain = {n: self.now[n] for n in self.region.fixed}, True
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
            part, sure = self._kept(ways.choice.formula, ways.choice.names, values)
            if part is not None:
                return part, True
            certain &= sure
        return None, certain

    def _kept(
        self, formula: Formula, names: tuple[str, ...], values: list[NDArray[Any]]
    ) -> tuple[dict[str, Any] | None, bool]:
        """The first combination of values that satisfies a formula, and whether all were tried."""
        whole, most = math.prod(map(len, values)) <= TRIED_VALUES, max(2, int(TRIED_VALUES ** (1 / len(values))))
        if not whole:
            some = (np.linspace(0, len(v) - 1, min(most, len(v))).astype(np.int64) for v in values)
            values = [v if len(v) <= most else np.sort(v)[own] for v, own in zip(values, some, strict=True)]
        grids = [g.ravel() for g in np.meshgrid(*values, indexing="ij")]
        then = dict(zip(names, grids, strict=True))
        now = {n: np.full(len(grids[0]), v) for n, v in self.now.items()}
        kept = np.flatnonzero(np.broadcast_to(truth(formula, now, then), len(grids[0])))
        return ({n: v[kept[0]] for n, v in then.items()}, True) if len(kept) else (None, whole)

    def _values(self, box: Box, name: str, cells: Bools) -> NDArray[Any]:
        """Legal values of a feature in an alternative and a box, the nearest to the present one first."""
        feature, now, (grid, span) = self.region.schema[name], self.now[name], self._cells_of[name]
        own = cells[span]
        codes = [np.arange(a, b + 1) for a, b in zip(grid.first[own], grid.last[own], strict=True)]
        every = np.concatenate([np.empty(0, dtype=np.int64), *codes])
        if feature.is_category:
            every = every[box.levels[name][self.row][every]]
            if box.stays[name][self.row] and own[grid.of(feature, now)]:
                every = np.append(every, now)
            return np.asarray(every[np.argsort(every != now, kind="stable")])
        limits = box.intervals[name]
        values = feature.at(every[(every >= limits.low[self.row]) & (every <= limits.high[self.row])])
        if limits.keeps[self.row] and own[grid.of(feature, now)] and now not in values:
            values = np.append(values, now)
        return np.asarray(values[np.argsort(np.abs(values - now), kind="stable")])
