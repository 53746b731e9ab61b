"""Branch and bound over tree ensembles: whether any row in a row's region gets a class, or which one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..classifier.reading.trees import TreeModel
from ..errors import ClassifierError
from ..outcome import Need, Outcomes
from ..region.boxes import Floats
from ..region.region import Places
from ..rules.check import Bools
from ..task import Task
from .batch import ProofBatch, ProofLimits, Reason
from .tree_cells import CellRegion, CellTrees, CellWays

# The most boxes examined for one row, and the most leaves times boxes.
BOXES = 20_000
WORK = 2**26
# Boxes split at a time, and the most numbers in an array of leaves x boxes.
TOGETHER = 128
HELD = 2**21
# Cells with a good score in which a legal row is searched at a time.
TRIED = 8
# The most queries of the model itself for a row, where rounding decides.
ASKED = 64

# Digits used to choose cells and cuts, so that rounding has no effect.
DIGITS = 4

Singles = NDArray[np.float32]
Ask = Callable[[dict[str, Any]], bool]
"""Whether the user's own model gives a row, as natural values, its target."""


@dataclass(frozen=True)
class Verdict:
    """A proof that there is no row, or a row that gets the class, or neither; and the number of queries."""

    certain: bool
    row: dict[str, Any] | None
    asked: int


class Cuts:
    """The cuts that split a region along one feature: the cells on both sides, as zeros and ones, `cuts x cells`.

    `never_in` and `never_out` (`masks x cuts`) mark masks without a cell on one side or on the other.
    """

    def __init__(self, cuts: Bools, whole: Bools, masks: Singles) -> None:
        inside, outside = cuts & whole, ~cuts & whole
        useful = inside.any(axis=1) & outside.any(axis=1)
        self.inside, self.outside = (side[useful].astype(np.float32) for side in (inside, outside))
        self.never_in, self.never_out = (
            (masks @ side.T == 0).astype(np.float32) for side in (self.inside, self.outside)
        )


class TreeSearch:
    """The trees over one row's region, without leaves that the row cannot reach."""

    def __init__(self, region: CellRegion, demands: Sequence[Need], ask: Ask) -> None:
        trees = region.trees
        self.region, self.ask, self.asked, self.most_asked, self.undecided = region, ask, 0, ASKED, False
        self.spans = trees.spans
        self.loose, self.firm = (np.asarray([getattr(d, n) for d in demands]) for n in ("loose", "firm"))
        met = [(mask & region.whole[span]).any(axis=1) for mask, span in zip(trees.masks, trees.spans, strict=True)]
        leaves = np.flatnonzero(np.concatenate([[True], *met])[trees.uses].all(axis=1))
        self.starts = np.flatnonzero(np.diff(trees.tree[leaves], prepend=-1))
        self.sizes = np.diff(np.append(self.starts, len(leaves)))
        self.values = np.stack([trees.scores[leaves] @ d.weights for d in demands])
        # The masks that these leaves use, renumbered.
        used = np.zeros(trees.blocks[-1].stop, dtype=bool)
        used[trees.uses[leaves]] = used[0] = True
        self.uses = (used.cumsum() - 1)[trees.uses[leaves]]
        own = [used[block] for block in trees.blocks]
        self.masks = [mask[u].astype(np.float32) for mask, u in zip(trees.masks, own, strict=True)]
        ends = np.cumsum([1, *map(len, self.masks)]).tolist()
        self.blocks = [slice(a, b) for a, b in pairwise(ends)]

    @cached_property
    def cuts(self) -> list[Cuts]:
        """Cuts that split the region, for each feature."""
        whole = [self.region.whole[span] for span in self.spans]
        return [Cuts(*own) for own in zip(self.region.trees.cuts, whole, self.masks, strict=True)]

    def run(self, limits: ProofLimits) -> Verdict:
        """Examine boxes, the most promising first, until all are closed or one has a row that gets the class."""
        if not self._is_filled(self.region.whole[None])[0]:
            return Verdict(True, None, 0)
        left, bound = self.region.whole[None], np.full(1, np.inf)
        leaves, seen, self.most_asked = max(1, len(self.uses)), 0, limits.asks
        limit, together = min(limits.boxes, WORK // leaves), max(1, min(TOGETHER, HELD // leaves))
        while len(left):
            if seen >= limit or time.monotonic() > limits.until:
                return Verdict(False, None, self.asked)
            first, rest = np.split(np.argsort(-bound, kind="stable"), [together])
            row, parts, part_bound = self._look(left[first])
            if row is not None:
                return Verdict(False, row, self.asked)
            seen += len(first)
            left, bound = np.concatenate([left[rest], parts]), np.concatenate([bound[rest], part_bound])
        return Verdict(not self.undecided, None, self.asked)

    def _look(self, boxes: Bools) -> tuple[dict[str, Any] | None, Bools, Floats]:
        """A row that gets the class; or else the parts of boxes that may still have one, with bounds."""
        reached = self._reached(boxes)
        bounds = self._bounds(reached)
        is_open = (bounds + self.loose[:, None] >= 0).all(axis=0)
        boxes, reached, bounds = boxes[is_open], reached[:, is_open], bounds[:, is_open]
        # If every tree has a single leaf left, the score is known, and the box is not split any further.
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
        """Upper bounds of the scores in boxes, for each demand, `demands x boxes`."""
        found = [np.where(reached, values[:, None], -np.inf) for values in self.values]
        return np.stack([np.maximum.reduceat(f, self.starts, axis=0).sum(axis=0) for f in found])

    def _is_filled(self, boxes: Bools) -> Bools:
        starts = [span.start for span in self.spans]
        return np.asarray(np.logical_or.reduceat(boxes, starts, axis=1).all(axis=1))

    def _settled(self, boxes: Bools, score: Floats) -> dict[str, Any] | None:
        """A row in a box of constant, sufficient score; the model itself is queried where rounding decides."""
        firm = (score + self.firm[:, None] > 0).all(axis=0)
        for box, good in zip(boxes, firm, strict=True):
            row, certain = self.region.point(box)
            self.undecided |= row is None and not certain
            if row is None or (not good and self.asked >= self.most_asked):
                self.undecided |= row is not None
                continue
            self.asked += not good
            if good or self.ask(row):
                return row
        return None

    def _wanted(self, reached: Bools, lowest: Places) -> Singles:
        """The loss of boxes without each mask, `boxes x masks`, by the best leaves; the most for one tree is 1."""
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
        """A row in the cells that the best leaves prefer, if its score is sufficient."""
        parts = [weight[:, block] @ mask for block, mask in zip(self.blocks, self.masks, strict=True)]
        liking: Singles = np.concatenate(parts, axis=1).round(DIGITS)
        for ways in self.region.several:
            boxes = _in_best_way(boxes, ways, liking)
        points = np.zeros_like(boxes)
        for span in self.spans:
            best = np.where(boxes[:, span], liking[:, span], -np.inf).argmax(axis=1)
            points[np.arange(len(boxes)), span.start + best] = True
        points = points[self._is_filled(boxes)]
        good = (self._bounds(self._reached(points)) + self.firm[:, None] > 0).all(axis=0)
        for point in points[good][:TRIED]:
            row, _ = self.region.point(point)
            if row is not None:
                return row
        return None

    def _cut(self, boxes: Bools, weight: Singles) -> Bools:
        """Split all boxes, first halves first, by the cut that lowers the bound of the better half most."""
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
        for ways in self.region.several:
            halves = ways.drawn_in(halves)
        return halves

    def _worth(self, boxes: Bools, weight: Singles, cuts: Cuts) -> Singles:
        """How much cuts of one feature lower the bounds of boxes, `boxes x cuts`; negative for cuts without effect."""
        first, second = weight @ cuts.never_in, weight @ cuts.never_out
        worth = np.round(np.minimum(first, second) + 1e-3 * np.maximum(first, second), DIGITS)
        cells = boxes.astype(np.float32)
        parts = ((cells @ cuts.inside.T) > 0) & ((cells @ cuts.outside.T) > 0)
        return np.where(parts, worth, np.float32(-1.0))


def _in_best_way(boxes: Bools, ways: CellWays, liking: Singles) -> Bools:
    """Boxes restricted to the alternative with the most preferred cells."""
    worth = np.zeros((len(boxes), len(ways.boxes)))
    for span in ways.spans:
        inside = boxes[:, None, span] & ways.cells[None, :, span]
        worth += np.where(inside, liking[:, None, span], -np.inf).max(axis=2)
    chosen = np.where(ways.open(boxes), worth, -np.inf).argmax(axis=1)
    found = boxes.copy()
    for span in ways.spans:
        found[:, span] &= ways.cells[chosen, span]
    return found


def by_trees(batch: ProofBatch) -> None:
    """Refute rows by bounds on the scores of trees, or find rows that get the class: one search over cells per row."""
    # How a model reads a level outside the schema was not compared with the trees.
    rows, model, limits = np.flatnonzero(batch.open & batch.known), batch.model.trees, batch.limits
    if model is None or not len(rows):
        return
    # Rows that are found are queried once more, with all checks.
    budget, before = replace(limits, asks=limits.asks - 1), batch.region.before
    try:
        trees = batch.model.cells(batch.task, {n: v[rows] for n, v in before.items()})
        verdicts = [_verdict(batch, row, model, trees, budget) for row in rows.tolist()]
    except ClassifierError as error:
        batch.notes.append(f"nothing is proved by trees: {error}")
        return
    asked = np.asarray([v.asked for v in verdicts])
    batch.spend(rows, asked, int(asked.sum()))
    batch.settle(rows[[v.certain for v in verdicts]], Reason.BOUND)
    if limits.asks > 0:
        witness = {n: v[rows].copy() for n, v in before.items()}
        for i, verdict in enumerate(verdicts):
            for name, value in (verdict.row or {}).items():
                witness[name][i] = value
        batch.confirm(rows, np.asarray([v.row is not None for v in verdicts]), witness)


def _verdict(batch: ProofBatch, row: int, model: TreeModel, trees: CellTrees, limits: ProofLimits) -> Verdict:
    own, outcome = CellRegion(batch.region, row, trees), batch.outcomes[[row]]
    asked, certain = 0, True
    for way in model.ways(outcome, int(outcome.code[0])):
        left = replace(limits, asks=max(0, limits.asks - asked))
        verdict = TreeSearch(own, way, partial(_may_be, batch.task, outcome)).run(left)
        asked, certain = asked + verdict.asked, certain and verdict.certain
        if verdict.row is not None:
            return replace(verdict, asked=asked)
    return Verdict(certain, None, asked)


def _may_be(task: Task, outcome: Outcomes, row: dict[str, Any]) -> bool:
    """Whether the user's own model gives a row its target, or rounding decides."""
    table = task.table({f.name: np.asarray([row[f.name]]) for f in task.schema})
    known = task.classifier.decide(table, wanted=lambda _: outcome)
    return bool(outcome.met(known.probabilities, known.choice)[0] or not known.firm[0])
