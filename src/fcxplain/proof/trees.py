"""Proofs by trees, row by row: the ensemble over cells once for all rows, then a search through each row's own room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..classifier.checking import PROBE_ROWS
from ..classifier.protocol import CheckedClassifier
from ..classifier.reading.trees import TreeModel, compare, read_trees
from ..classifier.rows import legal_codes, legal_rows
from ..errors import ClassifierError
from ..region.region import Bools, Places, Region
from ..task import Task
from .tree_cells import cell_trees
from .tree_search import CellRegion, TreeBudget, TreeSearch

# Rows that a model is shown whenever its trees are read: for its scores, and for its probabilities.
TO_READ = 2 * PROBE_ROWS
# Training rows and leaves that a reading is held against, once for a classifier.
PROBED_ROWS, PROBED_LEAVES = 512, 2_048

_COMPARED: WeakSet[CheckedClassifier] = WeakSet()


@dataclass(frozen=True)
class Felled:
    """Of some rows: which certainly have no counterfactual, which have one and what it is, and how often was asked."""

    certain: Bools
    hopeful: Bools
    best: dict[str, NDArray[Any]]
    asked: Places


def own_trees(task: Task) -> tuple[TreeModel | None, tuple[str, ...]]:
    """The trees of a task's classifier, if it has any that can be read, and what was in the way.

    They are held against the model on a few rows each time, and once on many: where the model's regions are.
    """
    if task.classifier.module is not None:
        return None, ()
    classifier = task.classifier
    model, notes = read_trees(classifier, legal_rows(task.schema, PROBE_ROWS, seed=0, dtypes=task.encoder.dtypes_))
    if model is None or classifier in _COMPARED:
        return model, notes
    try:
        compare(classifier, model, _probes(task, model))
    except (ValueError, ClassifierError) as error:
        return None, (f"nothing is proved by the trees of {classifier.name}: {error}",)
    _COMPARED.add(classifier)
    return model, notes


def _probes(task: Task, model: TreeModel) -> pd.DataFrame:
    """Training rows, the same with one feature changed, and with what leads to some leaf just inside its bounds."""
    generator = np.random.default_rng(0)
    usual = task.sample[generator.permutation(len(task.sample))[:PROBED_ROWS]]
    beside, every = usual.copy(), np.arange(len(usual))
    feature = generator.integers(len(task.schema), size=len(usual))
    beside[every, feature] = legal_codes(task.schema, len(usual), generator)[every, feature]
    trees = cell_trees(task, model, {f.name: f.at(np.empty(0, dtype=np.int64)) for f in task.schema})
    leaves = generator.permutation(len(trees.uses))[:PROBED_LEAVES]
    inside = usual[generator.integers(len(usual), size=len(leaves))]
    for i, (grid, block, sets) in enumerate(zip(trees.grids, trees.blocks, trees.masks, strict=True)):
        for line, use in np.argwhere((trees.uses[leaves] >= block.start) & (trees.uses[leaves] < block.stop)).tolist():
            cells = np.flatnonzero(sets[trees.uses[leaves[line], use] - block.start])
            first, last = grid.first[cells], grid.last[cells]
            if not ((first <= inside[line, i]) & (inside[line, i] <= last)).any():
                inside[line, i] = generator.choice([first, last][generator.integers(2)])
    return task.encoder.from_codes(np.concatenate([usual, beside, inside]))


def by_trees(task: Task, reach: Region, rows: Places, places: Places, model: TreeModel, limits: TreeBudget) -> Felled:
    """Search the rooms of some rows; `places` has the class wanted of every row of the reach."""
    trees = cell_trees(task, model, {n: v[rows] for n, v in reach.before.items()})
    threshold = task.classifier.threshold
    certain, hopeful = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
    best = {n: v[rows].copy() for n, v in reach.before.items()}
    asked = np.zeros(len(rows), dtype=np.int64)
    for i, row in enumerate(rows.tolist()):
        target = int(places[row])

        def is_good(found: dict[str, Any], target: int = target) -> bool:
            return _may_be(task, found, target)

        search = TreeSearch(CellRegion.of(reach, row, trees), model.demands(target, threshold), is_good)
        verdict = search.run(limits)
        certain[i], hopeful[i], asked[i] = verdict.certain, verdict.row is not None, verdict.asked
        for name, value in (verdict.row or {}).items():
            best[name][i] = value
    return Felled(certain, hopeful, best, asked)


def _may_be(task: Task, row: dict[str, Any], target: int) -> bool:
    """Whether the user's own model gives a row this class, or rounding decides."""
    known = task.classifier.decide(task.table({f.name: np.asarray([row[f.name]]) for f in task.schema}))
    return bool(known.choice[0] == target or not known.firm[0])
