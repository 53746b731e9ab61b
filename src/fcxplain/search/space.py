"""The search space: rows as integer codes, which features may move, distances, and the single changes to try.

A present value need not be legal: it may be off the grid, outside the range of the training rows, an unknown level, or
missing. It then gets its own code, one beyond the highest. So an unchanged income is never rounded, and every legal
value can still be proposed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, Fault, did_you_mean
from ..outcome import Outcomes
from ..schema import Natural
from ..task import Task

# The most values per feature; the first limit that leaves few enough moves in total is used.
THINNINGS = (1_000, 500, 250, 120, 50, 25, 12, 6, 3)

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows to explain: their codes, `rows x features`, exact natural values, and target outcomes."""

    codes: Codes
    """One beyond the highest for a value that is not legal: it stands for exactly that value."""
    natural: Natural
    wanted: Outcomes
    off_grid: Bools
    """Which values are not legal, `rows x features`: off the grid, outside guessed bounds, not a level, missing."""
    near: Codes
    """The legal codes nearest to the rows; a usual one where no code is near, such as for missing values."""
    movable: Bools
    """Which values may change: not those of frozen features, nor missing values that are kept."""
    calls: Codes | None = None
    """The limit of calls for each row, if it is less than the whole budget."""
    border: Floats | None = None
    """The margin above which each row has the target class, if an imitation puts it elsewhere than at 0."""

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def off_grid_features(self) -> list[bool]:
        """For each feature, whether any row has an off-grid value."""
        return [bool(off) for off in np.atleast_1d(self.off_grid.any(axis=0))]

    def take(self, which: NDArray[Any] | slice) -> Rows:
        """Some of the rows."""
        natural = {n: v[which] for n, v in self.natural.items()}
        parts = (self.off_grid[which], self.near[which], self.movable[which])
        calls = None if self.calls is None else self.calls[which]
        border = None if self.border is None else self.border[which]
        return Rows(self.codes[which], natural, self.wanted[which], *parts, calls, border)

    @cached_property
    def is_legal(self) -> bool:
        """Whether all values are legal, as usual."""
        return not any(self.off_grid_features)

    def moved(self, rows: Codes, base: Codes, moves: Moves) -> tuple[Codes, Codes]:
        """The moves that change each row's base and are allowed: positions in `rows`, and indices of moves."""
        leads = base[:, moves.feature] != moves.code
        place, move = np.nonzero(leads if self.is_legal else leads & self.movable[rows][:, moves.feature])
        return place, move

    def legal(self, row: Codes, codes: Codes) -> Codes:
        """Candidates with unchanged off-grid values replaced by their nearest legal codes."""
        if self.is_legal:
            return codes
        return np.where(self._stays(row, codes), self.near[row], codes)

    def unmoved(self, row: Codes, codes: Codes) -> Codes:
        """Candidates on the grid, with the present value wherever they are at the code nearest to an off-grid one."""
        if self.is_legal:
            return codes
        return np.where(self.off_grid[row] & (codes == self.near[row]), self.codes[row], codes)

    def start(self, row: Codes, codes: Codes) -> Codes:
        """The codes at which a bisection from candidates starts: known to fail, just before the first one to try."""
        near = self.near[row]
        if self.is_legal:
            return near
        # The nearest legal value differs from an off-grid one, so it is still to be tried.
        return np.asarray(near - self.off_grid[row] * np.sign(self.legal(row, codes) - near))

    def _stays(self, row: Codes, codes: Codes) -> Bools:
        return np.asarray(self.off_grid[row] & (codes == self.codes[row]))


class SearchSpace:
    """The features of a task as codes.

    Candidates are codes, `n x features`, with the index of their present row in `row`, `n`.
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
        """Prepare rows."""
        near = self.task.encoder.codes_of_natural(natural)
        off_grid = np.stack([~f.on_grid(natural[f.name]) for f in self.features], axis=1)
        gives_way = np.stack([f.may_give_way(natural[f.name]) for f in self.features], axis=1)
        codes = np.where(off_grid, self.tops + 1, near)
        return Rows(codes, natural, wanted, off_grid, near, self.movable & gives_way)

    def inside(self, present: Rows, row: Codes, codes: Codes) -> Codes:
        """Candidates clipped to the domain, with immutable values restored."""
        if present.is_legal:
            return np.where(self.movable, np.clip(codes, 0, self.tops), present.codes[row])
        return np.where(present.movable[row], np.clip(codes, 0, self.tops + present.off_grid[row]), present.codes[row])

    def codes(self, present: Rows, row: Codes, natural: Natural) -> Codes:
        """The codes of candidates given as natural columns."""
        found = self.task.encoder.codes_of_natural(natural)
        for i in np.flatnonzero(present.off_grid_features):
            own = self.features[i].same(natural[self.names[i]], present.natural[self.names[i]][row])
            found[:, i] = np.where(own & present.off_grid[row, i], self.tops[i] + 1, found[:, i])
        return found

    def natural(
        self, present: Rows, row: Codes, codes: Codes, names: frozenset[str] | None = None
    ) -> dict[str, NDArray[Any]]:
        """The natural columns of candidates, for all features or for some."""
        found = {}
        for i, feature in enumerate(self.features):
            if names is not None and feature.name not in names:
                continue
            values: NDArray[Any] = feature.at(codes[:, i])
            if present.off_grid_features[i]:
                values = np.where(codes[:, i] > self.tops[i], present.natural[feature.name][row], values)
            found[feature.name] = values
        return found

    def table(self, present: Rows, row: Codes, codes: Codes) -> pd.DataFrame:
        """Candidates as a table for the model."""
        return self.task.table(self.natural(present, row, codes))

    def changed(self, present: Rows, row: Codes, codes: Codes) -> Bools:
        """Which features differ, `n x features`."""
        return np.asarray(codes != present.codes[row])

    def distance(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """How far each number moves, in units, `n x features`; 0 for categories and for filled missing values."""
        moved, which = np.zeros(codes.shape), self._moving
        moved[:, which] = np.abs(codes[:, which] - present.codes[row[:, None], which]) * (self.step / self.unit)[which]
        for i in which[np.asarray(present.off_grid_features)[which]]:
            exact = np.abs(self.features[i].at(codes[:, i]) - present.natural[self.names[i]][row]) / self.unit[i]
            exact = np.where(codes[:, i] > self.tops[i], 0.0, np.nan_to_num(exact))
            moved[:, i] = np.where(present.off_grid[row, i], exact, moved[:, i])
        return moved


def _difficulties(names: tuple[str, ...], given: Mapping[str, float]) -> Floats:
    faults = [
        Fault(f"difficulty of {n!r}", "there is no feature of this name", did_you_mean(n, names))
        for n in given
        if n not in names
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
    """Single changes, the same for every row: `feature` to `code`; `whole[f]` if all values are among them."""

    feature: Codes
    code: Codes
    whole: Bools

    def __len__(self) -> int:
        return len(self.feature)

    @cached_property
    def features(self) -> Codes:
        """The features that have moves, in ascending order."""
        return np.unique(self.feature)

    @cached_property
    def places(self) -> tuple[Codes, ...]:
        """The indices of the moves of each of these features."""
        return tuple(np.flatnonzero(self.feature == i) for i in self.features)

    @cached_property
    def table(self) -> Codes:
        """The same as one table, `features x values`, padded with -1."""
        table = np.full((len(self.places), max(map(len, self.places), default=0)), -1, dtype=np.int64)
        for line, place in zip(table, self.places, strict=True):
            line[: len(place)] = place
        return table


class Grids:
    """The values to try of each feature, up to a limit: half evenly spaced, half quantiles of the training rows."""

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
    """All single changes, at most `most`: numbers are thinned, categories keep every level."""
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
