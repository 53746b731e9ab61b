"""Single changes: every value of one feature, repaired where a rule requires more, and queried.

All other proposals build on their results.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..batch import Batch
from ..candidates import REPAIR, Candidates, Found, joined
from ..cost import CostWeights
from ..improve import shrunk
from ..space import Bools, Codes, Floats, Moves

if TYPE_CHECKING:
    from .combine import Ladders

# Single changes kept per row, and for how many of them the values between those tried are searched.
SINGLES, BETWEEN = 24, 6
# Off-grid values per row of which every subset is tried at the nearest legal values.
TOGETHER = 3
# Features whose best single change is a start for `look_around`, one after the other.
STARTS = 3


@dataclass(frozen=True, eq=False)
class SingleChanges:
    """The results of each move of each row, `rows x moves`, from each row's base.

    `line` is the index in `codes` of the repaired candidate, or -1 if the move changes nothing or cannot be repaired.
    """

    moves: Moves
    base: Codes
    possible: Bools
    """Rows that have a base: their region is not empty."""
    base_margin: Floats
    base_valid: Bools
    line: Codes
    row: Codes
    codes: Codes
    margin: Floats
    valid: Bools
    repaired: Bools
    ladders: dict[CostWeights, Ladders] = field(default_factory=dict)
    """The ladders (see `combine`), for each set of weights."""
    parts: dict[bytes, SingleChanges] = field(default_factory=dict)
    """A cache of `of`."""

    @cached_property
    def lacking(self) -> Floats:
        """The margin that each row lacks at its base."""
        return np.where(np.isfinite(self.base_margin), -self.base_margin, 0.0)

    @cached_property
    def starts(self) -> Codes:
        """Indices of the candidates with the best margins, each of another feature, `rows x STARTS`; -1 for none."""
        margin = np.round(self.spread(self.margin, -np.inf), 9)
        places = self.moves.places
        best = np.full((len(margin), max(len(places), STARTS)), -np.inf)
        line = np.full(best.shape, -1, dtype=np.int64)
        for i, which in enumerate(places):
            top = margin[:, which].argmax(axis=1)
            best[:, i] = margin[np.arange(len(margin)), which[top]]
            line[:, i] = self.line[np.arange(len(margin)), which[top]]
        order = np.argsort(-best, axis=1, kind="stable")[:, :STARTS]
        return np.take_along_axis(np.where(np.isfinite(best), line, -1), order, axis=1)

    def of(self, rows: Codes) -> SingleChanges:
        """The changes of some of the rows, in ascending order."""
        if len(rows) == len(self.base):
            return self
        key = rows.tobytes()
        if key not in self.parts:
            self.parts[key] = self._of(rows)
        return self.parts[key]

    def _of(self, rows: Codes) -> SingleChanges:
        place = np.full(len(self.base), -1)
        place[rows] = np.arange(len(rows))
        kept = np.flatnonzero(place[self.row] >= 0)
        renamed = np.full(len(self.row) + 1, -1)
        renamed[kept] = np.arange(len(kept))
        return SingleChanges(
            self.moves,
            self.base[rows],
            self.possible[rows],
            self.base_margin[rows],
            self.base_valid[rows],
            renamed[self.line[rows]],
            place[self.row[kept]],
            self.codes[kept],
            self.margin[kept],
            self.valid[kept],
            self.repaired[kept],
        )

    def beyond(self, border: Floats) -> SingleChanges:
        """The same with margins from another border of the target class, one for each row."""
        start, margin = self.base_margin - border, self.margin - border[self.row]
        return replace(
            self, base_margin=start, base_valid=start > 0, margin=margin, valid=margin > 0, ladders={}, parts={}
        )

    def spread(self, values: Floats, fill: float) -> Floats:
        """Values of candidates as a table, `rows x moves`."""
        return np.where(self.line >= 0, values[self.line], fill) if len(values) else np.full(self.line.shape, fill)


def explore(batch: Batch, base: Codes, possible: Bools | None = None) -> SingleChanges:
    """Try every move of every row that has a base."""
    moves = batch.moves
    possible = np.ones(len(base), dtype=bool) if possible is None else possible
    rows = np.flatnonzero(possible)
    margin, valid = np.full(len(base), -np.inf), np.zeros(len(base), dtype=bool)
    start = batch.query(rows, base[rows])
    margin[rows], valid[rows] = start.margin, start.valid
    place, move = batch.rows.moved(rows, base[rows], moves)
    row = rows[place]
    codes = base[row]
    codes[np.arange(len(row)), moves.feature[move]] = moves.code[move]
    kept, repaired = _mend(batch, row, codes, moves, move)
    if not kept.all():
        row, move, codes, repaired = row[kept], move[kept], codes[kept], repaired[kept]
    replies = batch.query(row, codes)
    line = np.full((len(base), len(moves)), -1, dtype=np.int64)
    line[row, move] = np.arange(len(row))
    return SingleChanges(
        moves, base, possible, margin, valid, line, row, codes, replies.margin, replies.valid, repaired
    )


def _mend(batch: Batch, row: Codes, codes: Codes, moves: Moves, move: Codes) -> tuple[Bools, Bools]:
    """Repair candidates in place; return which of them keep the rules, and which were repaired.

    Changes of features that no rule names need no repair, since the base keeps the rules.
    """
    kept, repaired = np.ones(len(row), dtype=bool), np.zeros(len(row), dtype=bool)
    ruled = np.flatnonzero(batch.legal.ruled[moves.feature][move])
    if len(ruled):
        mended, kept[ruled] = batch.mend(row[ruled], codes[ruled])
        repaired[ruled] = (mended != codes[ruled]).any(axis=1)
        # A repair that undoes the move is not a result.
        kept[ruled] &= mended[np.arange(len(ruled)), moves.feature[move[ruled]]] == moves.code[move[ruled]]
        codes[ruled] = mended
    return kept, repaired


def single_changes(batch: Batch, found: Found) -> Candidates:
    """The base of each row and single changes from it that get the target class."""
    return good_singles(batch, found.singles)


def good_singles(batch: Batch, singles: SingleChanges) -> Candidates:
    """The same for changes from any base."""
    rows, good = np.flatnonzero(singles.base_valid), np.flatnonzero(singles.valid)
    found = batch.priced(singles.row[good], singles.codes[good], REPAIR).cheapest(SINGLES)
    return joined([batch.priced(rows, singles.base[rows], REPAIR), found])


def outright_changes(batch: Batch, found: Found) -> Candidates:
    """Good single changes of rows that break a rule, made on the row itself and without repair."""
    now, moves = batch.rows.codes, batch.moves
    rows = np.flatnonzero((found.singles.base != now).any(axis=1))
    place, move = batch.rows.moved(rows, now[rows], moves)
    row, codes = rows[place], now[rows[place]]
    codes[np.arange(len(row)), moves.feature[move]] = moves.code[move]
    good = np.flatnonzero(batch.good(row, codes))
    return batch.priced(row[good], codes[good], REPAIR).cheapest(SINGLES)


def values_between(batch: Batch, found: Found) -> Candidates:
    """The nearest candidates on each side for numbers with a thinned grid, moved to nearer values between."""
    moves = batch.moves
    if moves.whole.all():
        return batch.nothing()
    pool = found.pool.cheapest(len(found.pool))
    away = batch.rows.legal(pool.row, pool.codes) - batch.rows.start(pool.row, pool.codes)
    away = np.where(moves.whole, 0, away)
    feature = np.abs(away).argmax(axis=1)
    side = np.sign(away[np.arange(len(pool)), feature])
    _, first = np.unique(np.stack([pool.row, feature, side], axis=1), axis=0, return_index=True)
    nearest = pool.take(np.sort(first[side[first] != 0])).cheapest(BETWEEN)
    near = batch.rows.start(nearest.row, nearest.codes)
    for i in np.flatnonzero(~moves.whole):
        grid = moves.code[moves.feature == i]
        near[:, i] = _neighbours(grid, nearest.codes[:, i], near[:, i])
    return shrunk(batch, nearest, near)


def _neighbours(grid: Codes, codes: Codes, present: Codes) -> Codes:
    """The next value that was tried towards the present one, or the present one itself."""
    place = np.searchsorted(grid, codes)
    below, above = grid[np.maximum(place - 1, 0)], grid[np.minimum(place + 1, len(grid) - 1)]
    back = np.where(codes > present, np.maximum(below, present), np.minimum(above, present))
    return np.asarray(np.where(codes == present, present, back))


def legal_values(batch: Batch, found: Found) -> Candidates:
    """Rows with one, some or all of their off-grid values moved to the nearest legal values."""
    off = batch.rows.off_grid & batch.rows.movable
    turn, total = np.where(off, off.cumsum(axis=1) - 1, TOGETHER), off.sum(axis=1)[:, None]
    sets = [own for size in range(1, TOGETHER + 1) for own in itertools.combinations(range(TOGETHER), size)]
    parts = [np.isin(turn, own) & (total > max(own)) for own in sets]
    masks = np.stack([*parts, off & (total > TOGETHER)], axis=1)
    row, mask = np.nonzero(masks.any(axis=2))
    return batch.tried(row, np.where(masks[row, mask], batch.rows.near[row], batch.rows.codes[row]), REPAIR)


def nearest_miss(batch: Batch, singles: SingleChanges) -> Candidates:
    """The single change that comes nearest to the target class; its price is infinite, since it is not an answer."""
    margin = np.round(singles.spread(singles.margin, -np.inf), 9)
    if not margin.size:
        return batch.nothing()
    best = margin.argmax(axis=1)
    row = np.flatnonzero(np.isfinite(margin[np.arange(len(margin)), best]))
    codes = singles.codes[singles.line[row, best[row]]]
    return Candidates(row, codes, np.full(len(row), np.inf), np.full(len(row), REPAIR))
