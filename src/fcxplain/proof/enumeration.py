"""Every legal row of a row, where these are few: asked of the user's own model, each distinct row once.

What comes out is exact for any model: either none of them gets the class wanted, or the cheapest that does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ClassifierError
from ..explanation import ChangeCosts
from ..region.region import Places, Region
from ..schema import Feature, Natural
from ..task import Task
from .batch import ProofBatch, Reason

# Legal rows handled at a time, unless a single row has more.
BATCH = 200_000
# Rows shown to the model at a time.
SHOWN = 65_536


def by_enumeration(batch: ProofBatch) -> None:
    """Ask the model about every legal row of rows that are still open and have few."""
    rows = np.flatnonzero(batch.open & (batch.region.count <= batch.limits.limit))
    memory = AskedRows(batch.task, {n: v[rows] for n, v in batch.region.before.items()})
    asked, undecided = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=bool)
    found, witness = undecided.copy(), {n: v[rows].copy() for n, v in batch.region.before.items()}
    try:
        for i, natural, answers in _tried(batch, rows, memory):
            hits = np.flatnonzero(answers == batch.places[rows[i]])
            asked[i], undecided[i], found[i] = len(answers), (answers < 0).any(), len(hits) > 0
            if len(hits):
                now = {n: v[rows[i]] for n, v in batch.region.before.items()}
                cost = ChangeCosts().total(batch.task, now, {n: v[hits] for n, v in natural.items()})
                cheapest = hits[cost.argmin()]
                for name, values in natural.items():
                    witness[name][i] = values[cheapest]
    except ClassifierError as error:
        batch.notes.append(f"{len(rows):,} rows could not be tried out: {error}")
        return
    batch.spend(rows, asked, memory.calls)
    batch.settle(rows[~found & ~undecided], Reason.TRIED)
    batch.confirm(rows, found, witness)


def _tried(batch: ProofBatch, rows: Places, memory: AskedRows) -> Iterator[tuple[int, Natural, NDArray[np.int16]]]:
    """Places among `rows`, with all that each may become and what the model answers (see `AskedRows`)."""
    for places in _batches(batch.region, rows):
        points = [batch.region.points(int(rows[i])).legal() for i in places]
        every = {n: np.concatenate([p[n] for p in points]) for n in batch.task.schema.names}
        ends = np.cumsum([len(p[batch.task.schema.names[0]]) for p in points])
        answers = memory.classes(int(ends[-1]), partial(_taken, every))
        yield from zip(places.tolist(), points, np.split(answers, ends[:-1]), strict=True)


def _batches(region: Region, rows: Places) -> Iterator[Places]:
    """Places among `rows` that are tried together: those that share what cannot change first of all."""
    keys = [region.before[n][rows] for n in region.fixed] or [np.zeros(len(rows))]
    order = np.lexsort(keys)
    part = region.count[rows][order].cumsum() // BATCH
    for one in np.unique(part):
        yield order[part == one]


class AskedRows:
    """The model's answers to rows asked so far, so that no row is asked twice."""

    def __init__(self, task: Task, before: Natural) -> None:
        self.task, self.calls = task, 0
        self._off_grid = {f.name: _off_grid(f, before[f.name]) for f in task.schema}
        sizes = [(f.top or 0) + 1 + len(self._off_grid[f.name]) for f in task.schema]
        self._has_keys = math.prod(sizes) < 2**62
        self._keys = np.empty(0, dtype=np.int64)
        self._answers = np.empty(0, dtype=np.int16)

    def classes(self, size: int, take: Callable[[Places], Natural]) -> NDArray[np.int16]:
        """The place of the class that the model answers to each row; `-1 - place` where rounding decides.

        `take` makes natural columns of the rows at some of `size` places.
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
            keys, answers = np.append(self._keys, distinct[new]), np.append(self._answers, fresh)
            order = keys.argsort()
            self._keys, self._answers = keys[order], answers[order]
        return np.asarray(self._answers[np.searchsorted(self._keys, distinct)][back])

    def _numbered(self, natural: Natural) -> Places:
        """A number for each row, the same for the same values."""
        total = np.zeros(1, dtype=np.int64)
        for feature in self.task.schema:
            values, off = natural[feature.name], self._off_grid[feature.name]
            digit, size = feature.codes(values), (feature.top or 0) + 1
            if len(off):
                digit = np.where(feature.on_grid(values), digit, size + np.searchsorted(off, values))
            total = total * (size + len(off)) + digit
        return total

    def _ask(self, places: Places, take: Callable[[Places], Natural]) -> NDArray[np.int16]:
        self.calls += len(places)
        found = [np.empty(0, dtype=np.int16)]
        for part in _parts(places):
            known = self.task.classifier.decide(self.task.table(take(part)))
            found.append(np.where(known.firm, known.choice, -1 - known.choice).astype(np.int16))
        return np.concatenate(found)


def _parts(places: Places) -> Iterator[Places]:
    return (places[start : start + SHOWN] for start in range(0, len(places), SHOWN))


def _taken(natural: Natural, places: Places) -> dict[str, NDArray[Any]]:
    return {n: v[places] for n, v in natural.items()}


def _off_grid(feature: Feature, values: NDArray[Any]) -> NDArray[Any]:
    return np.unique(values[~feature.on_grid(values)])
