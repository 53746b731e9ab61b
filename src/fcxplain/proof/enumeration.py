"""Every legal row of a row, where these are few: asked of the user's own model, each distinct row once.

What comes out is exact for any model: either none of them gets the class wanted, or the cheapest that does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..region.region import Bools, Box, Choice, Floats, Places, Region
from ..rules import holds
from ..schema import Feature, Natural
from ..task import Task

# Legal rows handled at a time, unless a single row has more.
BATCH = 200_000
UNDECIDED = -1


@dataclass(frozen=True)
class Tried:
    """What every legal row of some rows gave.

    `found`: some legal row gets the class wanted, and `best` holds the cheapest such one; natural columns.
    """

    found: Bools
    doubtful: Bools
    """Rounding decides whether some legal row gets it."""
    best: dict[str, NDArray[Any]]
    asked: Places
    """How many legal rows each row has."""
    calls: int
    """How many rows the model was shown: those that several rows share are asked about once."""


def counts(reach: Region) -> Floats:
    """How many legal rows each row has at most."""
    total = np.ones(len(reach))
    for choice in reach.choices:
        total = total * sum((_count(box, reach) for box in choice.boxes), np.zeros(len(reach)))
    return total


def _count(box: Box, reach: Region) -> Floats:
    total = box.open.astype(np.float64)
    for name, limits in box.intervals.items():
        off_grid = limits.keeps & ~reach.schema[name].on_grid(reach.before[name])
        total = total * (np.maximum(limits.high - limits.low + 1, 0) + off_grid)
    for allowed in box.levels.values():
        total = total * allowed.sum(axis=1)
    return total


def try_all(task: Task, reach: Region, rows: Places, wanted: Places) -> Tried:
    """Ask the model about every legal row of some rows; `wanted` is the place of the class, for each row of all."""
    found, doubtful = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
    asked = np.zeros(len(rows), dtype=np.int64)
    best = {n: v[rows].copy() for n, v in reach.before.items()}
    memory = Memory(task, {n: v[rows] for n, v in reach.before.items()})
    for batch in _batches(reach, rows):
        points = [_points(reach, int(rows[i]), task) for i in batch]
        answers = memory.classes({n: np.concatenate([p[n] for p in points]) for n in task.schema.names})
        start = 0
        for i, natural in zip(batch, points, strict=True):
            size = len(natural[task.schema.names[0]])
            own = answers[start : start + size]
            hits, doubtful[i] = np.flatnonzero(own == wanted[rows[i]]), (own == UNDECIDED).any()
            start, asked[i] = start + size, size
            if len(hits):
                found[i] = True
                cheapest = hits[_cost(task, reach.before, int(rows[i]), natural, hits).argmin()]
                for name, values in natural.items():
                    best[name][i] = values[cheapest]
    return Tried(found, doubtful, best, asked, memory.calls)


def _batches(reach: Region, rows: Places) -> Iterator[Places]:
    """Places among `rows` that are tried together: those that share what cannot change first of all."""
    keys = [reach.before[n][rows] for n in reach.fixed] or [np.zeros(len(rows))]
    order = np.lexsort(keys)
    part = counts(reach)[rows][order].cumsum() // BATCH
    for one in np.unique(part):
        yield order[part == one]


def _points(reach: Region, row: int, task: Task) -> dict[str, NDArray[Any]]:
    """All legal rows of one row, natural columns."""
    tables = [_choice_points(choice, reach, row) for choice in reach.choices]
    shape = tuple(len(t) for t in tables)
    places = np.unravel_index(np.arange(np.prod(shape, dtype=np.int64)), shape) if shape else ()
    size = len(places[0]) if shape else 1
    natural = {n: np.full(size, reach.before[n][row]) for n in reach.fixed}
    for choice, table, place in zip(reach.choices, tables, places, strict=True):
        for j, name in enumerate(choice.names):
            column = table[place, j]
            natural[name] = column if reach.schema[name].is_number else column.astype(np.int64)
    if not reach.is_exact:
        now = {n: np.full(size, v[row]) for n, v in reach.before.items()}
        kept = holds(task.rules, now, natural)
        natural = {n: v[kept] for n, v in natural.items()}
    return {n: natural[n] for n in reach.schema.names}


def _choice_points(choice: Choice, reach: Region, row: int) -> Floats:
    """The points of a choice's boxes, each once, `points x names`."""
    tables = [_box_points(box, choice.names, reach, row) for box in choice.boxes if box.open[row]]
    if not tables:
        return np.empty((0, len(choice.names)))
    return tables[0] if len(tables) == 1 else np.unique(np.concatenate(tables), axis=0)


def _box_points(box: Box, names: Sequence[str], reach: Region, row: int) -> Floats:
    values = [_values(box, reach.schema[n], float(reach.before[n][row]), row) for n in names]
    grid = np.meshgrid(*values, indexing="ij")
    return np.stack([g.ravel() for g in grid], axis=1) if grid else np.zeros((1, 0))


def _values(box: Box, feature: Feature, now: float, row: int) -> Floats:
    if feature.is_category:
        return np.flatnonzero(box.levels[feature.name][row]).astype(np.float64)
    limits = box.intervals[feature.name]
    grid = feature.at(np.arange(limits.low[row], limits.high[row] + 1))
    stays = limits.keeps[row] and not feature.on_grid(np.asarray([now]))[0]
    return np.append(grid, now) if stays else grid


def _cost(task: Task, before: Natural, row: int, natural: Natural, places: Places) -> Floats:
    """Features changed, plus how far the numbers moved."""
    total = np.zeros(len(places))
    for feature in task.schema:
        now, then = before[feature.name][row], natural[feature.name][places]
        total += feature.changed(now, then)
        if feature.is_number:
            total += np.abs(then - now) / task.units[feature.name]
    return total


class Memory:
    """The model's answers to rows asked so far, so that no row is asked twice."""

    def __init__(self, task: Task, before: Natural) -> None:
        self.task, self.calls = task, 0
        self._off_grid = {f.name: _off_grid(f, before[f.name]) for f in task.schema}
        sizes = [(f.top or 0) + 1 + len(self._off_grid[f.name]) for f in task.schema]
        self._has_keys = math.prod(sizes) < 2**62
        self._keys = np.empty(0, dtype=np.int64)
        self._answers = np.empty(0, dtype=np.int64)

    def classes(self, natural: Natural) -> Places:
        """The place of the class that the model answers to each row, or `UNDECIDED` where rounding decides."""
        if not self._has_keys:
            return self._ask(natural)
        distinct, first, back = np.unique(self._numbered(natural), return_index=True, return_inverse=True)
        new = ~np.isin(distinct, self._keys, assume_unique=True)
        if new.any():
            fresh = self._ask({n: v[first[new]] for n, v in natural.items()})
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

    def _ask(self, natural: Natural) -> Places:
        task, size = self.task, len(natural[self.task.schema.names[0]])
        if not size:
            return np.empty(0, dtype=np.int64)
        self.calls += size
        known = task.classifier.decide(task.table(natural))
        return np.where(known.firm, known.choice, UNDECIDED)


def _off_grid(feature: Feature, values: NDArray[Any]) -> NDArray[Any]:
    return np.unique(values[~feature.on_grid(values)])
