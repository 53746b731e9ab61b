"""Enumeration of the legal rows of a row, if they are few: the user's own model is queried once per distinct row.

The result is exact for any model: either none of them gets the target class, or the cheapest one that does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..classifier.protocol import Predictions
from ..errors import ClassifierError
from ..explanation import ChangeCosts
from ..outcome import Outcomes
from ..region.region import Places
from ..schema import Natural
from ..task import Task
from .batch import ProofBatch, Reason

# Legal rows processed at a time, unless a single row has more.
BATCH = 200_000
# Rows per query of the model.
SHOWN = 65_536


def by_enumeration(batch: ProofBatch) -> None:
    """Query the model on every legal row of the open rows that have few."""
    rows = np.flatnonzero(batch.open & (batch.region.count <= batch.limits.limit))
    own = batch.outcomes[rows]
    # Rows with a single target class share queries; other outcomes have their own decision boundaries.
    alike = np.zeros_like(own.code) if own.is_plain else own.code
    for code in np.unique(alike):
        _try_out(batch, rows[alike == code], None if own.is_plain else own[alike == code][:1])


def _try_out(batch: ProofBatch, rows: Places, wanted: Outcomes | None) -> None:
    memory = AskedRows(batch.task, {n: v[rows] for n, v in batch.region.before.items()}, wanted)
    asked, undecided = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=bool)
    found, witness = undecided.copy(), {n: v[rows].copy() for n, v in batch.region.before.items()}
    try:
        for i, natural, said in _tried(batch, rows, memory):
            outcome = batch.outcomes[np.full(len(said.choice), rows[i])]
            hits = np.flatnonzero(outcome.met(said.probabilities, said.choice) & said.firm)
            asked[i], undecided[i], found[i] = len(said.choice), not said.firm.all(), len(hits) > 0
            if len(hits):
                now = {n: v[rows[i]] for n, v in batch.region.before.items()}
                cost = ChangeCosts().total(batch.task, now, {n: v[hits] for n, v in natural.items()})
                cheapest = hits[cost.argmin()]
                for name, values in natural.items():
                    witness[name][i] = values[cheapest]
    except ClassifierError as error:
        batch.notes.append(f"the legal rows of {len(rows):,} rows could not be enumerated: {error}")
        return
    batch.spend(rows, asked, memory.calls)
    batch.settle(rows[~found & ~undecided], Reason.TRIED)
    batch.confirm(rows, found, witness)


def _tried(batch: ProofBatch, rows: Places, memory: AskedRows) -> Iterator[tuple[int, Natural, Predictions]]:
    """Indices in `rows`, with the legal rows of each and the model's predictions (see `AskedRows`)."""
    region, names = batch.region, batch.task.schema.names
    # Rows that share immutable values are processed together.
    order = np.lexsort([region.before[n][rows] for n in region.fixed] or [np.zeros(len(rows))])
    part = region.count[rows][order].cumsum() // BATCH
    for places in (order[part == one] for one in np.unique(part)):
        points = [region.points(int(rows[i])).legal() for i in places]
        every = {n: np.concatenate([p[n] for p in points]) for n in names}
        ends = np.cumsum([len(p[names[0]]) for p in points])
        said = memory.predictions(int(ends[-1]), partial(_taken, every))
        yield from zip(places.tolist(), points, map(said.take, np.split(np.arange(ends[-1]), ends[:-1])), strict=True)


class AskedRows:
    """The model's predictions so far, so that no row is queried twice."""

    def __init__(self, task: Task, before: Natural, wanted: Outcomes | None = None) -> None:
        self.task, self.calls, self.wanted = task, 0, wanted
        columns = ((f, before[f.name]) for f in task.schema)
        self._off_grid = {f.name: np.unique(values[~f.on_grid(values)]) for f, values in columns}
        sizes = [(f.top or 0) + 1 + len(self._off_grid[f.name]) for f in task.schema]
        self._has_keys = math.prod(sizes) < 2**62
        self._keys = np.empty(0, dtype=np.int64)
        self._answers = Predictions.none(0, max(1, len(task.classes)))

    def predictions(self, size: int, take: Callable[[Places], Natural]) -> Predictions:
        """The model's decisions about rows; not firm if rounding decides about what is `wanted`.

        `take` returns the natural columns of some of the `size` rows.
        """
        if not self._has_keys:
            return self._ask(np.arange(size), take)
        parts = [self._numbered(take(places)) for places in _parts(np.arange(size))]
        distinct = np.concatenate([np.empty(0, dtype=np.int64), *parts])
        first = back = np.arange(size)
        if not (distinct[1:] > distinct[:-1]).all():
            distinct, first, back = np.unique(distinct, return_index=True, return_inverse=True)
        new = ~np.isin(distinct, self._keys, assume_unique=True)
        if new.any():
            fresh = self._ask(first[new], take)
            keys = np.append(self._keys, distinct[new])
            order = keys.argsort()
            self._keys, self._answers = keys[order], Predictions.joined([self._answers, fresh]).take(order)
        return self._answers.take(np.searchsorted(self._keys, distinct)[back])

    def _numbered(self, natural: Natural) -> Places:
        """A number for each row, equal for equal values."""
        total = np.zeros(1, dtype=np.int64)
        for feature in self.task.schema:
            values, off = natural[feature.name], self._off_grid[feature.name]
            digit, size = feature.codes(values), (feature.top or 0) + 1
            if len(off):
                digit = np.where(feature.on_grid(values), digit, size + np.searchsorted(off, values))
            total = total * (size + len(off)) + digit
        return total

    def _ask(self, places: Places, take: Callable[[Places], Natural]) -> Predictions:
        self.calls += len(places)
        found = [Predictions.none(0, max(1, len(self.task.classes)))]
        for part in _parts(places):
            wanted = None if self.wanted is None else partial(_all_alike, self.wanted)
            found.append(self.task.classifier.decide(self.task.table(take(part)), wanted=wanted))
        return Predictions.joined(found)


def _all_alike(wanted: Outcomes, found: Predictions) -> Outcomes:
    return wanted[np.zeros(len(found.choice), dtype=np.int64)]


def _parts(places: Places) -> Iterator[Places]:
    return (places[start : start + SHOWN] for start in range(0, len(places), SHOWN))


def _taken(natural: Natural, places: Places) -> dict[str, NDArray[Any]]:
    return {n: v[places] for n, v in natural.items()}
