"""Proofs that a row has no counterfactual: no legal row that keeps the rules gets the class wanted.

Cheapest first: the rules leave nothing; the model is linear, a ReLU network or an ensemble of trees, and its score
stays below the class wanted wherever the rules allow; or the legal rows are so few that the model is asked about all.
What is not proved is not known, unless a legal row that gets the class turned up on the way: that is a `witness`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError
from ..region.region import Places
from ..rules.check import Bools
from ..task import Task
from .batch import ProofBatch, ProofLimits, Reason
from .bounds import PARTS, by_bounds
from .enumeration import by_enumeration
from .reading import ModelReading
from .tree_search import ASKED, BOXES, by_trees

# Legal rows of one row that the model is asked about at most.
LIMIT = 20_000
# Numbers held at a time, in arrays of ways x rows x columns.
CELLS = 2**22
MOST_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Proof:
    """What is certain about rows, one entry for each.

    `reason` is a `Reason`, or "" where nothing was proved. `witness` has a legal row for each row that is
    `possible`, checked with the user's own model; its other lines are the rows themselves. `asked` counts the
    candidates of each row that the model was asked about, `calls` what it was shown in all (what rows share is shown
    once), and `notes` says what could not be used.
    """

    reason: NDArray[np.str_]
    possible: Bools
    witness: pd.DataFrame
    asked: Places
    calls: int = 0
    notes: tuple[str, ...] = ()

    @property
    def impossible(self) -> Bools:
        """Rows that have no counterfactual, proved."""
        return np.asarray(self.reason != "")


def by_rules(batch: ProofBatch) -> None:
    """Rows to which rules, bounds and immutables leave nothing at all."""
    batch.settle(np.flatnonzero(batch.region.nothing), Reason.RULES)


PROOFS: tuple[Callable[[ProofBatch], None], ...] = (by_rules, by_bounds, by_trees, by_enumeration)
"""What is tried, in this order, each with the rows that are still open."""


def prove(
    task: Task,
    rows: pd.DataFrame,
    wanted: NDArray[Any],
    *,
    limit: int = LIMIT,
    parts: int = PARTS,
    boxes: int = BOXES,
    asks: int = ASKED,
    until: float = np.inf,
    model: ModelReading | None = None,
) -> Proof:
    """Prove for as many rows as can be that no legal row gets the class wanted, or find one that does.

    `limit` bounds the legal rows of one row that the model is asked about, and `parts` the pieces into which what a
    row may become is cut for bounds of networks; with `parts=1` nothing is cut. `boxes` is the same for trees, `asks`
    how often the model is asked about a row where their bounds do not settle it, and `until` the time, by the monotonic
    clock, at which they are given up. `model` is what was read of the task's model, where that was held against it just
    now.
    """
    rows, before = task.read(rows)
    wanted, limits = np.asarray(wanted), ProofLimits(limit, parts, boxes, asks, until)
    if len(wanted) != len(rows):
        raise DataError(f"{len(rows):,} rows, but an outcome wanted for {len(wanted):,}")
    if not len(rows):
        return Proof(np.empty(0, dtype=str), np.empty(0, dtype=bool), rows, np.empty(0, dtype=np.int64))
    model = ModelReading.of(task) if model is None else model
    step, batches = _rows_at_a_time(task), []
    for part in (slice(start, start + step) for start in range(0, len(rows), step)):
        own = {n: v[part] for n, v in before.items()}
        batches.append(ProofBatch(task, model, limits, rows.iloc[part], own, wanted[part]))
        for proof in PROOFS:
            proof(batches[-1])
    return _joined(rows, batches)


def _rows_at_a_time(task: Task) -> int:
    widths = {f.name: f.width for f in task.schema}
    columns = sum(len(g.ways) * sum(widths[n] for n in g.names) for g in task.repairer.groups)
    return max(16, min(MOST_ROWS, CELLS // max(1, columns)))


def _joined(rows: pd.DataFrame, batches: Sequence[ProofBatch]) -> Proof:
    task, model, told = batches[0].task, batches[0].model, ("reason", "possible", "asked")
    reason, possible, asked = (np.concatenate([getattr(b, name) for b in batches]) for name in told)
    natural = {n: np.concatenate([b.witness[n] for b in batches]) for n in task.schema.names}
    notes = tuple(dict.fromkeys([*model.notes, *(note for b in batches for note in b.notes)]))
    calls = sum(b.calls for b in batches) + model.shown
    return Proof(reason.astype(str), possible, task.table(natural, rows.index), asked, calls, notes)
