"""Proofs that a row has no counterfactual: no legal row that satisfies the rules gets the target class.

The cheapest proof comes first: the rules leave no legal row; the model is linear, a ReLU network or an ensemble of
trees, and its score misses the target class everywhere in the region; or the model is queried on all legal rows, if
they are few. Without a proof nothing is known, unless a legal row that gets the class was found, a `witness`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError
from ..region.region import Places
from ..rules.check import Bools
from ..task import Task
from .batch import ModelReading, ProofBatch, ProofLimits, Reason
from .bounds import PARTS, by_bounds
from .enumeration import by_enumeration
from .tree_search import ASKED, BOXES, by_trees

# The most legal rows of one row on which the model is queried.
LIMIT = 20_000
# The most numbers in an array of ways x rows x columns.
CELLS = 2**22
MOST_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Proof:
    """The results of proofs, one entry per row.

    `reason` is a `Reason`, or "" if nothing was proved. `witness` has a legal row for each row that is `possible`,
    checked with the user's own model; its other lines are the rows themselves. `asked` counts the candidates of each
    row on which the model was queried, `calls` all queries (shared candidates are queried once), and `notes` says what
    could not be used.
    """

    reason: NDArray[np.str_]
    possible: Bools
    witness: pd.DataFrame
    asked: Places
    calls: int = 0
    notes: tuple[str, ...] = ()

    @property
    def impossible(self) -> Bools:
        """Rows that are proved to have no counterfactual."""
        return np.asarray(self.reason != "")


def by_rules(batch: ProofBatch) -> None:
    """Settle rows to which rules, bounds and immutables leave no legal row."""
    batch.settle(np.flatnonzero(batch.region.nothing), Reason.RULES)


PROOFS: tuple[Callable[[ProofBatch], None], ...] = (by_rules, by_bounds, by_trees, by_enumeration)
"""The proofs in their order, each for the rows that are still open."""


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
    """Prove for as many rows as possible that no legal row gets the target class, or find one that does.

    `limit` is the most legal rows of one row on which the model is queried. `parts` is the most parts into which a
    row's region is split for bounds of networks; with `parts=1` it is not split. `boxes` is the same for trees, `asks`
    the most queries for a row that their bounds do not settle (with 0, the model confirms no witness either, so that no
    row is `possible`), and `until` the time, by the monotonic clock, at which they are given up. `model` is the task's
    model as numbers, if it was compared with the model just before.
    """
    rows, before = task.read(rows)
    wanted, limits = np.asarray(wanted), ProofLimits(limit, parts, boxes, asks, until)
    if len(wanted) != len(rows):
        raise DataError(f"{len(rows):,} rows, but {len(wanted):,} target outcomes")
    if not len(rows):
        return Proof(np.empty(0, dtype=str), np.empty(0, dtype=bool), rows, np.empty(0, dtype=np.int64))
    model = ModelReading.of(task) if model is None else model
    widths = {f.name: f.width for f in task.schema}
    columns = sum(len(g.ways) * sum(widths[n] for n in g.names) for g in task.repairer.groups)
    step, batches = max(16, min(MOST_ROWS, CELLS // max(1, columns))), []
    for part in (slice(start, start + step) for start in range(0, len(rows), step)):
        own = {n: v[part] for n, v in before.items()}
        batches.append(ProofBatch(task, model, limits, rows.iloc[part], own, wanted[part]))
        for proof in PROOFS:
            proof(batches[-1])
    reason, possible, asked = (
        np.concatenate([getattr(b, name) for b in batches]) for name in ("reason", "possible", "asked")
    )
    natural = {n: np.concatenate([b.witness[n] for b in batches]) for n in task.schema.names}
    notes = tuple(dict.fromkeys([*model.notes, *(note for b in batches for note in b.notes)]))
    calls = sum(b.calls for b in batches) + model.shown
    return Proof(reason.astype(str), possible, task.table(natural, rows.index), asked, calls, notes)
