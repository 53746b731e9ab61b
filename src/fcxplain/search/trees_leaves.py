"""Leaves as cells: for each feature the set of cells that lead there. A box reaches a leaf if it meets all its sets."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..classifier.trees import TreeModel, Trees
from ..schema import Natural
from ..task import Task
from .distinct import distinct
from .reach import Bools, Floats, Places
from .trees_cells import Grid, Sides, sides_of


@dataclass(frozen=True, eq=False)
class CellTrees:
    """The trees of a model over cells; leaves stand in the order of their trees.

    The sets of all features are numbered on from 1; number 0 is met by every box.
    """

    grids: tuple[Grid, ...]
    spans: tuple[slice, ...]
    """Where among all cells those of each feature lie."""
    masks: tuple[Bools, ...]
    """The distinct sets of cells of each feature, `sets x cells`."""
    blocks: tuple[slice, ...]
    """The numbers of each feature's sets."""
    uses: Places
    """The sets of each leaf, `leaves x most`, filled up with 0."""
    tree: Places
    scores: Floats
    cuts: tuple[Bools, ...]
    """Sets of cells of each feature that some node sends left."""

    @property
    def size(self) -> int:
        """How many cells there are."""
        return int(self.spans[-1].stop)


def cell_trees(task: Task, model: TreeModel, before: Natural) -> CellTrees:
    """The model over the cells of a task's features; values of rows that are off their grids are among them."""
    sides = sides_of(task, model, before)
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


def _grown(trees: Trees, sides: Sides) -> tuple[Places, Places, list[Bools]]:
    """Leaves that legal values reach, the set of each feature that leads to each, and these sets."""
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
    trees: Trees, sides: Sides, own: Places, masks: list[Bools], nodes: Places, i: int
) -> tuple[Places, Places]:
    """What follows on nodes that ask about a feature, left and right, without what no cell leads to."""
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
