"""Proofs that a row has no counterfactual: no legal row that keeps the rules gets the class wanted.

Cheapest first: the rules leave nothing; the model is linear, a ReLU network or an ensemble of trees, and its score
stays below the class wanted wherever the rules allow; or the legal rows are so few that the model is asked about all.
What is not proved is not known, unless a legal row that gets the class turned up on the way: that is a `witness`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..classifier.reading.networks import ReluNetwork, read_network
from ..classifier.reading.trees import TreeModel
from ..classifier.rows import legal_rows
from ..encoding import TableEncoder
from ..errors import ClassifierError, DataError, some
from ..explanation import check
from ..region.region import Bools, Floats, Places, Region, encoded_regions, width_of_boxes
from ..region.repair import Repairer
from ..schema import Natural
from ..task import Task
from .bounds import PARTS, Splitter
from .enumeration import counts, try_all
from .tree_search import ASKED, BOXES, TreeBudget
from .trees import TO_READ, by_trees, own_trees

# Legal rows of one row that the model is asked about at most.
LIMIT = 20_000
# Numbers held at a time, in arrays of ways x rows x columns.
CELLS = 2**22
MOST_ROWS = 4096
# Training rows, and legal rows beside them, on which a module must answer as its classifier does.
PROBES = 64


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
    network, encoder, notes = own_network(task) if len(rows) else (None, task.encoder, [])
    trees, problems = own_trees(task) if len(rows) else (None, ())
    repairer = Repairer(task.rules, task.schema, task.units)
    step = max(16, min(MOST_ROWS, CELLS // max(1, width_of_boxes(repairer))))
    found = []
    for part in (slice(start, start + step) for start in range(0, len(rows), step)):
        own = {n: v[part] for n, v in before.items()}
        prover = _Prover(task, repairer, rows.iloc[part], own, wanted[part])
        prover.bound(network, encoder, parts)
        prover.search_trees(trees, boxes, asks, until)
        found.append(prover.tried(limit))
    shown = 0 if trees is None else TO_READ
    return _joined(task, rows, found, [*notes, *problems], shown)


def _places(task: Task, wanted: NDArray[Any]) -> Places:
    known = {name: i for i, name in enumerate(task.classes)}
    strange = sorted({str(w) for w in wanted.tolist() if w not in known})
    if strange:
        raise DataError(f"the class wanted, {some(strange)}, is none of the model's: {some(task.classes)}")
    return np.asarray([known[w] for w in wanted.tolist()], dtype=np.int64)


@dataclass(frozen=True)
class _Found:
    """What was found out about one batch of rows; `witness` is in natural columns."""

    reason: NDArray[Any]
    possible: Bools
    witness: dict[str, NDArray[Any]]
    asked: Places
    calls: int
    notes: tuple[str, ...]


class _Prover:
    """One batch of rows on its way through the methods."""

    def __init__(self, task: Task, repairer: Repairer, rows: pd.DataFrame, before: Natural, wanted: NDArray[Any]):
        self.task, self.rows, self.before, self.wanted = task, rows, before, wanted
        self.places = _places(task, wanted)
        self.reach = Region.of(repairer, before)
        self.doubtful = self.reach.uncertain(task.rules)
        self.reason = np.full(len(wanted), "", dtype=object)
        self.possible = np.zeros(len(wanted), dtype=bool)
        self.witness = {n: v.copy() for n, v in before.items()}
        self.asked, self.calls = np.zeros(len(wanted), dtype=np.int64), 0
        self.notes: tuple[str, ...] = ()
        self._settle(np.flatnonzero(self.reach.nothing), Reason.RULES)

    def bound(self, network: ReluNetwork | None, encoder: TableEncoder, parts: int) -> None:
        """Refute rows by bounds on a network's scores."""
        for target in np.unique(self.places) if network is not None else ():
            assert network is not None
            self._bound(network, encoder, int(target), parts)

    def search_trees(self, trees: TreeModel | None, boxes: int, asks: int, until: float) -> None:
        """Refute rows by bounds on the scores of trees, or find what gets the class."""
        rows = np.flatnonzero(self._open)
        if trees is None or not len(rows):
            return
        try:
            # What is found is asked about once more, with all its checks.
            limits = TreeBudget(boxes, asks - 1, until)
            result = by_trees(self.task, self.reach, rows, self.places, trees, limits)
        except ClassifierError as error:
            self.notes = (f"nothing is proved by trees: {error}",)
            return
        self.calls += int(result.asked.sum())
        self.asked[rows] += result.asked
        self._settle(rows[result.certain], Reason.BOUND)
        if asks > 0:
            self._confirm(rows[result.hopeful], {n: v[result.hopeful] for n, v in result.best.items()})

    def tried(self, limit: int) -> _Found:
        """All that was found out, after the model was asked about rows that are still open and have few legal ones."""
        self._try(limit)
        return _Found(self.reason, self.possible, self.witness, self.asked, self.calls, self.notes)

    def _settle(self, rows: Places, reason: Reason) -> None:
        self.reason[rows[~self.doubtful[rows]]] = reason

    @property
    def _open(self) -> Bools:
        return np.asarray((self.reason == "") & ~self.possible)

    def _bound(self, network: ReluNetwork, encoder: TableEncoder, target: int, parts: int) -> None:
        rows = np.flatnonzero(self._open & (self.places == target))
        if not len(rows):
            return
        own = [area.take(rows) for area in encoded_regions(self.reach, encoder)]
        now = {n: v[rows] for n, v in self.before.items()}
        result = Splitter(network, target, own, encoder, now).refute(parts=parts)
        self._settle(rows[result.certain], Reason.BOUND)
        found = _natural(encoder, result.x, now)
        self._confirm(rows[result.hopeful], {n: v[result.hopeful] for n, v in found.items()})

    def _try(self, limit: int) -> None:
        rows = np.flatnonzero(self._open & (counts(self.reach) <= limit))
        if not len(rows):
            return
        try:
            tried = try_all(self.task, self.reach, rows, self.places)
        except ClassifierError as error:
            self.notes = (*self.notes, f"{len(rows):,} rows could not be tried out: {error}")
            return
        self.calls += tried.calls
        self.asked[rows] += tried.asked
        self._settle(rows[~tried.found & ~tried.doubtful], Reason.TRIED)
        self._confirm(rows[tried.found], {n: v[tried.found] for n, v in tried.best.items()})

    def _confirm(self, rows: Places, natural: Natural) -> None:
        """Take rows for possible whose candidate passes every check, by the user's own model."""
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


def own_network(task: Task) -> tuple[ReluNetwork | None, TableEncoder, list[str]]:
    """The classifier's own module as numbers, if it can be read, and the columns that it reads."""
    classifier = task.classifier
    source = getattr(classifier, "encoder", None) or task.encoder
    encoder = TableEncoder().restore(task.schema, source.scale_, task.units, task.encoder.dtypes_)
    if classifier.module is None or classifier.parts or source.names != encoder.names:
        return None, encoder, []
    network = read_network(classifier.module, classifier.threshold, source.dtype_)
    if network is None or len(network.layers[-1].bias) != len(task.classes):
        return None, encoder, []
    if not _agrees(network, task, encoder):
        return None, encoder, ["the classifier's module answers otherwise than the classifier, so it proves nothing"]
    return network, encoder, []


def _agrees(network: ReluNetwork, task: Task, encoder: TableEncoder) -> bool:
    """Whether module and classifier give rows the same class, wherever rounding cannot decide."""
    made_up = legal_rows(task.schema, PROBES, seed=0, dtypes=task.encoder.dtypes_)
    rows = pd.concat([task.read(task.train.iloc[:PROBES])[0], made_up], ignore_index=True)
    x = encoder.encode_natural(task.schema.natural(rows)).double().numpy()
    logits = network.logits(x)
    size = max(network.sizes(row)[0].sum() + network.sizes(row)[1] for row in np.eye(len(task.classes)))
    best = np.sort(logits, axis=1)
    clear = best[:, -1] - best[:, -2] > 2 * size * (1 + np.abs(x).max()) + network.slack
    names = np.empty(len(task.classes), dtype=object)
    names[:] = task.classes
    return bool((names[logits.argmax(axis=1)] == task.predict(rows))[clear].all())


def _joined(task: Task, rows: pd.DataFrame, found: Sequence[_Found], notes: list[str], shown: int) -> Proof:
    if not found:
        return Proof(np.empty(0, dtype=str), np.empty(0, dtype=bool), rows, np.empty(0, dtype=np.int64))
    reason = np.concatenate([f.reason for f in found]).astype(str)
    natural = {n: np.concatenate([f.witness[n] for f in found]) for n in task.schema.names}
    possible = np.concatenate([f.possible for f in found])
    said = dict.fromkeys([*notes, *(note for f in found for note in f.notes)])
    asked, calls = np.concatenate([f.asked for f in found]), sum(f.calls for f in found) + shown
    return Proof(reason, possible, task.table(natural, rows.index), asked, calls, tuple(said))
