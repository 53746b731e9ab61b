"""Proofs by trees, row by row: the ensemble over cells once for all rows, then a search through each row's own room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..classifier.checking import PROBE_ROWS
from ..classifier.rows import legal_rows
from ..classifier.trees import TreeModel, read_trees
from ..task import Task
from .reach import Bools, Places, Reach
from .trees import Limits, TreeSearch
from .trees_leaves import cell_trees
from .trees_room import Room

# Rows that a model is shown when its trees are read: for its scores, and for its probabilities.
TO_READ = 2 * PROBE_ROWS


@dataclass(frozen=True)
class Felled:
    """Of some rows: which certainly have no counterfactual, which have one and what it is, and how often was asked."""

    certain: Bools
    hopeful: Bools
    best: dict[str, NDArray[Any]]
    asked: Places


def own_trees(task: Task) -> tuple[TreeModel | None, tuple[str, ...]]:
    """The trees of a task's classifier, if it has any that can be read, and what was in the way."""
    if task.classifier.module is not None:
        return None, ()
    return read_trees(task.classifier, legal_rows(task.schema, PROBE_ROWS, seed=0, dtypes=task.encoder.dtypes_))


def by_trees(task: Task, reach: Reach, rows: Places, places: Places, model: TreeModel, limits: Limits) -> Felled:
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

        search = TreeSearch(Room.of(reach, row, trees), model.demands(target, threshold), is_good)
        verdict = search.run(limits)
        certain[i], hopeful[i], asked[i] = verdict.certain, verdict.row is not None, verdict.asked
        for name, value in (verdict.row or {}).items():
            best[name][i] = value
    return Felled(certain, hopeful, best, asked)


def _may_be(task: Task, row: dict[str, Any], target: int) -> bool:
    """Whether the user's own model gives a row this class, or rounding decides."""
    known = task.classifier.decide(task.table({f.name: np.asarray([row[f.name]]) for f in task.schema}))
    return bool(known.choice[0] == target or not known.firm[0])
