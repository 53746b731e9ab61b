"""Proofs that a row has no counterfactual: no legal row that keeps the rules gets the class wanted.

Cheapest first: the rules leave nothing; the model is linear, a ReLU network or an ensemble of trees, and its score
stays below the class wanted wherever the rules allow; or the legal rows are so few that the model is asked about all.
What is not proved is not known, unless a legal row that gets the class turned up on the way: that is a `witness`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..classifier.reading.networks import ReluNetwork
from ..classifier.reading.trees import TreeModel
from ..encoding import TableEncoder
from ..errors import ClassifierError, DataError
from ..explanation import check
from ..region.boxes import Floats
from ..region.encoded import encoded_regions
from ..region.region import Places
from ..rules.check import Bools
from ..schema import Natural
from ..task import Task
from .bounds import PARTS, Splitter
from .enumeration import enumerate_rows
from .reading import TO_READ, own_network, own_trees
from .tree_search import ASKED, BOXES, TreeBudget, prove_by_trees

# Legal rows of one row that the model is asked about at most.
LIMIT = 20_000
# Numbers held at a time, in arrays of ways x rows x columns.
CELLS = 2**22
MOST_ROWS = 4096


class Reason(StrEnum):
    """Why it is certain that a row has no counterfactual."""

    RULES = "rules"
    """The rules, bounds and immutables leave no row at all, whatever the model."""
    BOUND = "bound"
    """The model's score stays below the class wanted all over what is allowed."""
    TRIED = "tried"
    """The model was asked about every legal row."""


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
) -> Proof:
    """Prove for as many rows as can be that no legal row gets the class wanted, or find one that does.

    `limit` bounds the legal rows of one row that the model is asked about, and `parts` the pieces into which what a
    row may become is cut for bounds of networks; with `parts=1` nothing is cut. `boxes` is the same for trees, `asks`
    how often the model is asked about a row where their bounds do not settle it, and `until` the time, by the monotonic
    clock, at which they are given up.
    """
    rows, before = task.read(rows)
    wanted = np.asarray(wanted)
    if len(wanted) != len(rows):
        raise DataError(f"{len(rows):,} rows, but a class wanted for {len(wanted):,}")
    if not len(rows):
        return Proof(np.empty(0, dtype=str), np.empty(0, dtype=bool), rows, np.empty(0, dtype=np.int64))
    network, encoder, notes = own_network(task)
    trees, problems = own_trees(task)
    widths = {f.name: f.width for f in task.schema}
    columns = sum(len(g.ways) * sum(widths[n] for n in g.names) for g in task.repairer.groups)
    step = max(16, min(MOST_ROWS, CELLS // max(1, columns)))
    found = []
    for part in (slice(start, start + step) for start in range(0, len(rows), step)):
        batch = _Batch(task, rows.iloc[part], {n: v[part] for n, v in before.items()}, wanted[part])
        batch.bound(network, encoder, parts)
        batch.search_trees(trees, TreeBudget(boxes, asks, until))
        batch.enumerate(limit)
        found.append(batch)
    return _joined(rows, found, [*notes, *problems], 0 if trees is None else TO_READ)


class _Batch:
    """Rows on their way through the methods, and what was found out about them; `witness` is in natural columns."""

    def __init__(self, task: Task, rows: pd.DataFrame, before: Natural, wanted: NDArray[Any]) -> None:
        self.task, self.rows, self.wanted = task, rows, wanted
        self.places = task.class_places(wanted)
        self.region = task.region(before)
        self.uncertain = self.region.uncertain
        self.reason = np.full(len(wanted), "", dtype=object)
        self.possible = np.zeros(len(wanted), dtype=bool)
        self.witness = {n: v.copy() for n, v in before.items()}
        self.asked, self.calls = np.zeros(len(wanted), dtype=np.int64), 0
        self.notes: tuple[str, ...] = ()
        self._settle(np.flatnonzero(self.region.nothing), Reason.RULES)

    def bound(self, network: ReluNetwork | None, encoder: TableEncoder, parts: int) -> None:
        """Refute rows by bounds on a network's scores."""
        if network is None:
            return
        for target in np.unique(self.places).tolist():
            rows = np.flatnonzero(self._open & (self.places == target))
            if not len(rows):
                continue
            own = [area.take(rows) for area in encoded_regions(self.region, encoder)]
            now = {n: v[rows] for n, v in self.region.before.items()}
            result = Splitter(network, target, own, encoder, now).refute(parts=parts)
            self._settle(rows[result.certain], Reason.BOUND)
            self._confirm(rows, result.reached, _natural(encoder, result.x, now))

    def search_trees(self, trees: TreeModel | None, limits: TreeBudget) -> None:
        """Refute rows by bounds on the scores of trees, or find what gets the class."""
        rows = np.flatnonzero(self._open)
        if trees is None or not len(rows):
            return
        try:
            # What is found is asked about once more, with all its checks.
            own = replace(limits, asks=limits.asks - 1)
            result = prove_by_trees(self.task, self.region, rows, self.places, trees, own)
        except ClassifierError as error:
            self.notes = (f"nothing is proved by trees: {error}",)
            return
        self.calls += int(result.asked.sum())
        self.asked[rows] += result.asked
        self._settle(rows[result.certain], Reason.BOUND)
        if limits.asks > 0:
            self._confirm(rows, result.found, result.witness)

    def enumerate(self, limit: int) -> None:
        """Ask the model about every legal row of rows that are still open and have few."""
        rows = np.flatnonzero(self._open & (self.region.count <= limit))
        if not len(rows):
            return
        try:
            result = enumerate_rows(self.task, self.region, rows, self.places)
        except ClassifierError as error:
            self.notes = (*self.notes, f"{len(rows):,} rows could not be tried out: {error}")
            return
        self.calls += result.calls
        self.asked[rows] += result.asked
        self._settle(rows[~result.found & ~result.undecided], Reason.TRIED)
        self._confirm(rows, result.found, result.witness)

    def _settle(self, rows: Places, reason: Reason) -> None:
        self.reason[rows[~self.uncertain[rows]]] = reason

    @property
    def _open(self) -> Bools:
        return np.asarray((self.reason == "") & ~self.possible)

    def _confirm(self, rows: Places, found: Bools, natural: Natural) -> None:
        """Take those of some rows for possible whose witness passes every check, by the user's own model."""
        rows, natural = rows[found], {n: v[found] for n, v in natural.items()}
        if not len(rows):
            return
        checks = check(self.task, self.rows.iloc[rows], self.task.table(natural), self.wanted[rows])
        passed = checks.passed & checks.firm
        self.calls += len(rows)
        self.asked[rows] += 1
        self.possible[rows[passed]] = True
        for name, values in natural.items():
            self.witness[name][rows[passed]] = values[passed]


def _natural(encoder: TableEncoder, x: Floats, now: Natural) -> dict[str, NDArray[Any]]:
    """Natural columns of encoded rows whose numbers are grid values or present ones."""
    found: dict[str, NDArray[Any]] = {}
    for feature in encoder.schema_:
        span = encoder.spans_[feature.name]
        if feature.is_category:
            found[feature.name] = x[:, span].argmax(axis=1)
            continue
        low, spread = encoder.scale_[feature.name]
        values, present = feature.at(feature.codes(x[:, span.start] * spread + low)), now[feature.name]
        found[feature.name] = np.where(x[:, span.start] == (present - low) / spread, present, values)
    return found


def _joined(rows: pd.DataFrame, batches: Sequence[_Batch], notes: list[str], shown: int) -> Proof:
    task = batches[0].task
    reason = np.concatenate([b.reason for b in batches]).astype(str)
    natural = {n: np.concatenate([b.witness[n] for b in batches]) for n in task.schema.names}
    possible = np.concatenate([b.possible for b in batches])
    said = dict.fromkeys([*notes, *(note for b in batches for note in b.notes)])
    asked, calls = np.concatenate([b.asked for b in batches]), sum(b.calls for b in batches) + shown
    return Proof(reason, possible, task.table(natural, rows.index), asked, calls, tuple(said))
