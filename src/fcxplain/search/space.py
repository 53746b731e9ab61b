"""The grid that is searched: rows as integer codes, what may move, how far, and the single changes that are tried.

A row's own values may lie off the grid. Wherever a candidate has the code of the present value, it stands for that
very value, so that nobody's income is rounded for being left alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, Fault, did_you_mean
from ..outcome import Outcomes
from ..schema import Natural
from ..task import Task

# Values off the grid of which every part is tried on it.
TOGETHER = 3
# Most values of one feature, tried from above until all moves together are few enough.
THINNINGS = (1_000, 500, 250, 120, 50, 25, 12, 6, 3)

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows asked: their codes, `rows x features`, exact natural values, and the outcome wanted."""

    codes: Codes
    natural: Natural
    wanted: Outcomes
    off_grid: Bools
    """Which values are not on the grid, `rows x features`; the code of such a one stands for the value itself."""
    snapped: Bools
    """Which of them give way to the nearest value of the grid: their code stands for that."""
    calls: Codes | None = None
    """Calls that may go into each row, where that is less than its whole budget."""
    border: Floats | None = None
    """The margin from which on each row has the class wanted, where an imitation puts that elsewhere than at 0."""

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def is_snapped(self) -> bool:
        """Whether any value gives way to the nearest of the grid."""
        return bool(self.snapped.any())

    @cached_property
    def off_grid_features(self) -> list[bool]:
        """Of which features some row has a value off the grid."""
        return [bool(off) for off in np.atleast_1d(self.off_grid.any(axis=0))]

    def take(self, which: NDArray[Any] | slice) -> Rows:
        """Some of the rows."""
        natural = {n: v[which] for n, v in self.natural.items()}
        calls = None if self.calls is None else self.calls[which]
        border = None if self.border is None else self.border[which]
        return Rows(
            self.codes[which], natural, self.wanted[which], self.off_grid[which], self.snapped[which], calls, border
        )

    def snap(self, which: Bools, calls: Codes) -> Rows:
        """The same rows, some of whose values off the grid (`rows x features`) give way to the nearest on it."""
        return replace(self, off_grid=self.off_grid & ~which, snapped=self.off_grid & which, calls=calls)


def snaps(off_grid: Bools) -> list[Bools]:
    """Which values of rows are moved to the grid together, one way after the other, `rows x features`.

    Of a row's first few values off the grid one at a time, then more of them, and at last all values off the grid.
    """
    if not off_grid.any():
        return []
    turn, total = np.where(off_grid, off_grid.cumsum(axis=1) - 1, TOGETHER), off_grid.sum(axis=1)
    places = [own for size in range(1, TOGETHER + 1) for own in itertools.combinations(range(TOGETHER), size)]
    parts = [np.isin(turn, own) & (total > max(own))[:, None] for own in places]
    return [*parts, off_grid & (total > TOGETHER)[:, None]]


class SearchSpace:
    """The features of a task as the search sees them.

    Candidates are `n x features` codes with `row`, `n`, saying which of the present rows each is for.
    """

    def __init__(self, task: Task, difficulty: Mapping[str, float] | None = None) -> None:
        self.task = task
        self.features = tuple(task.schema)
        self.names = task.schema.names
        self.movable = np.array([name not in task.frozen for name in self.names])
        self.tops = np.array([f.top or 0 for f in self.features], dtype=np.int64)
        self.is_number = np.array([f.is_number for f in self.features])
        self.unit = np.array([task.units[f.name] if f.is_number else 1.0 for f in self.features])
        self.step = np.array([float(f.step or 1) if f.is_number else 0.0 for f in self.features])
        self._moving = np.flatnonzero(self.is_number & self.movable)
        self.difficulty = _difficulties(self.names, difficulty or {})

    def present(self, natural: Natural, wanted: Outcomes) -> Rows:
        """Rows made ready."""
        codes = np.stack([f.codes(natural[f.name]) for f in self.features], axis=1)
        off_grid = np.zeros(codes.shape, dtype=bool)
        for i in np.flatnonzero(self.is_number):
            off_grid[:, i] = ~self.features[i].on_grid(natural[self.names[i]])
        return Rows(codes, natural, wanted, off_grid, np.zeros_like(off_grid))

    def inside(self, present: Rows, row: Codes, codes: Codes) -> Codes:
        """Candidates with every code in the domain and everything that may not move put back."""
        return np.where(self.movable, np.clip(codes, 0, self.tops), present.codes[row])

    def natural(
        self, present: Rows, row: Codes, codes: Codes, names: frozenset[str] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Natural columns of candidates, of all features or of some."""
        found = {}
        for i, feature in enumerate(self.features):
            if names is not None and feature.name not in names:
                continue
            values: NDArray[Any] = feature.at(codes[:, i])
            if present.off_grid_features[i]:
                stays = (codes[:, i] == present.codes[row, i]) & present.off_grid[row, i]
                values = np.where(stays, present.natural[feature.name][row], values)
            found[feature.name] = values
        return found

    def table(self, present: Rows, row: Codes, codes: Codes) -> pd.DataFrame:
        """Candidates as the model sees them."""
        return self.task.table(self.natural(present, row, codes))

    def changed(self, present: Rows, row: Codes, codes: Codes) -> Bools:
        """Which features differ, `n x features`."""
        changed = np.asarray(codes != present.codes[row])
        return changed | present.snapped[row] if present.is_snapped else changed

    def distance(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """How far each number moves in units of its spread, `n x features`; 0 for categories."""
        moved, which = np.zeros(codes.shape), self._moving
        moved[:, which] = np.abs(codes[:, which] - present.codes[row[:, None], which]) * (self.step / self.unit)[which]
        for i in which[np.asarray(present.off_grid_features)[which]]:
            exact = np.abs(self.features[i].at(codes[:, i]) - present.natural[self.names[i]][row]) / self.unit[i]
            moved[:, i] = np.where(moved[:, i] == 0, 0.0, exact)
        return moved


def _difficulties(names: tuple[str, ...], given: Mapping[str, float]) -> Floats:
    faults = [
        Fault(f"difficulty of {n!r}", "is about no feature", did_you_mean(n, names)) for n in given if n not in names
    ]
    faults += [
        Fault(f"difficulty of {n!r}", f"is {v!r}", "Give a number above 0; 1 is usual.")
        for n, v in given.items()
        if n in names and not (np.isfinite(v) and v > 0)
    ]
    if faults:
        raise DataError("these difficulties cannot be used", faults)
    return np.array([float(given.get(n, 1.0)) for n in names])


@dataclass(frozen=True, eq=False)
class Moves:
    """Single changes, the same for every row: `feature` to `code`; `whole[f]` where no value is left out."""

    feature: Codes
    code: Codes
    whole: Bools

    def __len__(self) -> int:
        return len(self.feature)

    @cached_property
    def features(self) -> Codes:
        """The features that have moves, rising."""
        return np.unique(self.feature)

    @cached_property
    def places(self) -> tuple[Codes, ...]:
        """The places of the moves of each of these features."""
        return tuple(np.flatnonzero(self.feature == i) for i in self.features)

    @cached_property
    def table(self) -> Codes:
        """The same as lines of one length, `features x values`, padded with -1."""
        table = np.full((len(self.places), max(map(len, self.places), default=0)), -1, dtype=np.int64)
        for line, place in zip(table, self.places, strict=True):
            line[: len(place)] = place
        return table


class Grids:
    """Values of each feature that are tried, at most so many: half evenly spaced, half where the training rows are."""

    def __init__(self, space: SearchSpace, train: Codes) -> None:
        self.space, self.train = space, train
        self.of = lru_cache(maxsize=None)(self._of)

    def _of(self, i: int, most: int) -> Codes:
        top = int(self.space.tops[i])
        if not self.space.is_number[i] or top < most:
            return np.arange(top + 1)
        even = np.linspace(0, top, max(2, most // 2)).round().astype(np.int64)
        usual = np.quantile(self.train[:, i], np.linspace(0, 1, max(2, most - len(even))), method="nearest")
        return np.unique(np.concatenate([even, usual.astype(np.int64)]))


def moves_of(space: SearchSpace, known: Grids, most: int) -> Moves:
    """All single changes, numbers thinned until there are at most so many; always every level of a category."""
    movable = np.flatnonzero(space.movable).tolist()
    for thinning in THINNINGS:
        grids = [known.of(i, thinning) for i in movable]
        if sum(map(len, grids)) <= most:
            break
    none = np.empty(0, dtype=np.int64)
    whole = np.array([len(g) == space.tops[i] + 1 for i, g in zip(movable, grids, strict=True)], dtype=bool)
    every = np.ones(len(space.names), dtype=bool)
    every[movable] = whole
    feature = [np.full(len(g), i) for i, g in zip(movable, grids, strict=True)]
    return Moves(np.concatenate([none, *feature]), np.concatenate([none, *grids]), every)
