"""The axes: every change of one feature over its grid, repaired where a rule asks for more, and asked about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ..batch import Batch
from ..space import Bools, Codes, Floats, SearchSpace

# Most values of one feature, tried from above until all moves together are few enough.
THINNINGS = (1_000, 500, 250, 120, 50, 25, 12, 6, 3)


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


@dataclass(frozen=True, eq=False)
class Axes:
    """What became of each move of each row, `rows x moves`, from each row's base.

    `line` is the place in `codes` of what a move came to after repair, or -1 where it is no move, or cannot be.
    """

    moves: Moves
    base: Codes
    base_margin: Floats
    base_valid: Bools
    line: Codes
    row: Codes
    codes: Codes
    margin: Floats
    valid: Bools
    repaired: Bools

    def of(self, rows: Codes) -> Axes:
        """The axes of some of the rows, which rise."""
        if len(rows) == len(self.base):
            return self
        place = np.full(len(self.base), -1)
        place[rows] = np.arange(len(rows))
        kept = np.flatnonzero(place[self.row] >= 0)
        renamed = np.full(len(self.row) + 1, -1)
        renamed[kept] = np.arange(len(kept))
        return Axes(
            self.moves,
            self.base[rows],
            self.base_margin[rows],
            self.base_valid[rows],
            renamed[self.line[rows]],
            place[self.row[kept]],
            self.codes[kept],
            self.margin[kept],
            self.valid[kept],
            self.repaired[kept],
        )

    def spread(self, values: Floats, fill: float) -> Floats:
        """Something told for each candidate as a table, `rows x moves`."""
        return np.where(self.line >= 0, values[self.line], fill) if len(values) else np.full(self.line.shape, fill)


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


def explore(bench: Batch, base: Codes, moves: Moves) -> Axes:
    """Try every move of every row from its base."""
    start = bench.ask(np.arange(len(base)), base)
    row, move = np.nonzero(base[:, moves.feature] != moves.code)
    codes = base[row]
    codes[np.arange(len(row)), moves.feature[move]] = moves.code[move]
    kept, repaired = _mend(bench, row, codes, moves, move)
    if not kept.all():
        row, move, codes, repaired = row[kept], move[kept], codes[kept], repaired[kept]
    asked = bench.ask(row, codes)
    line = np.full((len(base), len(moves)), -1, dtype=np.int64)
    line[row, move] = np.arange(len(row))
    return Axes(moves, base, start.margin, start.valid, line, row, codes, asked.margin, asked.valid, repaired)


def _mend(bench: Batch, row: Codes, codes: Codes, moves: Moves, move: Codes) -> tuple[Bools, Bools]:
    """Repair candidates where they are; which of them keep the rules, and which were repaired.

    A feature that no rule names needs no repair, since the base keeps the rules.
    """
    kept, repaired = np.ones(len(row), dtype=bool), np.zeros(len(row), dtype=bool)
    ruled = np.flatnonzero(bench.legal.ruled[moves.feature][move])
    if len(ruled):
        mended, kept[ruled] = bench.mend(row[ruled], codes[ruled])
        repaired[ruled] = (mended != codes[ruled]).any(axis=1)
        # A repair that takes the move back is no move.
        kept[ruled] &= mended[np.arange(len(ruled)), moves.feature[move[ruled]]] == moves.code[move[ruled]]
        codes[ruled] = mended
    return kept, repaired
