"""Every legal row of a row, where these are few: asked of the user's own model, each distinct row once.

What comes out is exact for any model: either none of them gets the class wanted, or the cheapest that does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..region.boxes import Floats
from ..region.region import Places, Region
from ..rules.check import Bools
from ..schema import Feature, Natural
from ..task import Task

# Legal rows handled at a time, unless a single row has more.
BATCH = 200_000
# Rows shown to the model at a time.
SHOWN = 65_536


@dataclass(frozen=True)
class Enumerated:
    """What every legal row of some rows gave.

    `found`: some legal row gets the class wanted, and `witness` holds the cheapest such one; natural columns.
    """

    found: Bools
    undecided: Bools
    """Rounding decides whether some legal row gets it."""
    witness: dict[str, NDArray[Any]]
    asked: Places
    """How many legal rows each row has."""
    calls: int
    """How many rows the model was shown: those that several rows share are asked about once."""


def enumerate_rows(task: Task, region: Region, rows: Places, wanted: Places) -> Enumerated:
    """Ask the model about every legal row of some rows; `wanted` is the place of the class, for each row of all."""
    found, undecided = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
    asked = np.zeros(len(rows), dtype=np.int64)
    witness = {n: v[rows].copy() for n, v in region.before.items()}
    memory = AskedRows(task, {n: v[rows] for n, v in region.before.items()})
    for batch in _batches(region, rows):
        points = [region.points(int(rows[i])).legal() for i in batch]
        every = {n: np.concatenate([p[n] for p in points]) for n in task.schema.names}
        answers = memory.classes(len(every[task.schema.names[0]]), partial(_taken, every))
        start = 0
        for i, natural in zip(batch, points, strict=True):
            size = len(natural[task.schema.names[0]])
            own = answers[start : start + size]
            hits, undecided[i] = np.flatnonzero(own == wanted[rows[i]]), (own < 0).any()
            start, asked[i] = start + size, size
            if len(hits):
                found[i] = True
                cheapest = hits[_cost(task, region.before, int(rows[i]), natural, hits).argmin()]
                for name, values in natural.items():
                    witness[name][i] = values[cheapest]
    return Enumerated(found, undecided, witness, asked, memory.calls)


def _batches(region: Region, rows: Places) -> Iterator[Places]:
    """Places among `rows` that are tried together: those that share what cannot change first of all."""
    keys = [region.before[n][rows] for n in region.fixed] or [np.zeros(len(rows))]
    order = np.lexsort(keys)
    part = region.count[rows][order].cumsum() // BATCH
    for one in np.unique(part):
        yield order[part == one]


def _cost(task: Task, before: Natural, row: int, natural: Natural, places: Places) -> Floats:
    """Features changed, plus how far the numbers moved."""
    total = np.zeros(len(places))
    for feature in task.schema:
        now, then = before[feature.name][row], natural[feature.name][places]
        total += feature.changed(now, then)
        if feature.is_number:
            total += np.abs(then - now) / task.units[feature.name]
    return total


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
