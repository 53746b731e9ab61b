"""Propose: single changes, combinations of them, and what others hand in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .axes import Axes, Moves, explore
from .bench import Bench
from .combine import applied, combine
from .ladders import Ladders, ladders_of
from .pool import DRAW, REPAIR, Pool, joined
from .shrink import shrunk
from .space import Bools, Codes, Floats

Draws = Callable[[Codes, Codes, int], Codes]
"""From rows as codes, `rows x features`, and places of the classes wanted to proposals, `rows x n x features`."""

# Ladders of categories and of numbers that are combined.
CATEGORIES, NUMBERS = 6, 4
# Combinations asked about at a time, and how often.
COMBINATIONS, ROUNDS = 12, 4
# Single changes kept of each row, and of how many the values between those tried are looked at.
SINGLES, BETWEEN = 24, 6


def singles(bench: Bench, base: Codes, moves: Moves) -> tuple[Axes, Pool]:
    """Every single change from each row's base, and those that do."""
    axes = explore(bench, base, moves)
    rows, good = np.flatnonzero(axes.base_valid), np.flatnonzero(axes.valid)
    found = bench.priced(axes.row[good], axes.codes[good], REPAIR).cheapest(SINGLES)
    return axes, joined([bench.priced(rows, base[rows], REPAIR), found])


def outright(bench: Bench, base: Codes, moves: Moves) -> Pool:
    """Single changes of rows that break a rule as they are: such as do, and keep the rules by themselves."""
    rows = np.flatnonzero((base != bench.present.codes).any(axis=1))
    if not len(rows):
        return bench.nothing()
    place, move = np.nonzero(bench.present.codes[rows][:, moves.feature] != moves.code)
    row, codes = rows[place], bench.present.codes[rows[place]]
    codes[np.arange(len(row)), moves.feature[move]] = moves.code[move]
    good = np.flatnonzero(bench.good(row, codes))
    return bench.priced(row[good], codes[good], REPAIR).cheapest(SINGLES)


def in_between(bench: Bench, axes: Axes, pool: Pool) -> Pool:
    """Numbers whose grid was thinned, brought nearer than the values tried: the nearest of each on each side."""
    if axes.moves.whole.all():
        return bench.nothing()
    pool = pool.cheapest(len(pool))
    present = bench.present.codes[pool.row]
    away = np.where(axes.moves.whole, 0, pool.codes - present)
    feature = np.abs(away).argmax(axis=1)
    side = np.sign(away[np.arange(len(pool)), feature])
    _, first = np.unique(np.stack([pool.row, feature, side], axis=1), axis=0, return_index=True)
    nearest = pool.take(np.sort(first[side[first] != 0])).cheapest(BETWEEN)
    near = bench.present.codes[nearest.row]
    for i in np.flatnonzero(~axes.moves.whole):
        grid = axes.moves.code[axes.moves.feature == i]
        near[:, i] = _neighbours(grid, nearest.codes[:, i], near[:, i])
    return shrunk(bench, nearest, near)


def _neighbours(grid: Codes, codes: Codes, present: Codes) -> Codes:
    """The next value tried on the way back to the present one, or the present one itself."""
    place = np.searchsorted(grid, codes)
    below, above = grid[np.maximum(place - 1, 0)], grid[np.minimum(place + 1, len(grid) - 1)]
    back = np.where(codes > present, np.maximum(below, present), np.minimum(above, present))
    return np.asarray(np.where(codes == present, present, back))


def ladders(bench: Bench, axes: Axes) -> Ladders:
    """What more of each change buys, counted from each row's base."""
    start = bench.price(np.arange(len(axes.base)), axes.base)
    price = bench.price(axes.row, axes.codes) - start[axes.row]
    return ladders_of(bench.space, axes, price, _lacking(axes), CATEGORIES, NUMBERS)


def _lacking(axes: Axes) -> Floats:
    return np.where(np.isfinite(axes.base_margin), -axes.base_margin, 0.0)


def combinations(bench: Bench, axes: Axes, known: Ladders) -> Pool:
    """Changes of several features together; where the first guesses fail, the next ones reach further."""
    lacking = _lacking(axes)
    found, need, open_ = [], lacking.copy(), np.ones(len(lacking), dtype=bool)
    for _ in range(ROUNDS):
        new, short = _guessed(bench, axes, known, need, open_)
        found.append(new)
        open_ &= short > 0
        if not open_.any():
            break
        need = need + np.where(open_, short, 0.0)
    return joined(found)


def _guessed(bench: Bench, axes: Axes, known: Ladders, need: Floats, rows: Bools) -> tuple[Pool, Floats]:
    """One round of guesses for some of the rows, and by how much the best guess of each fell short (0: it did not)."""
    chosen = combine(known, need, COMBINATIONS)
    there = np.isfinite(chosen.price) & rows[:, None] & (need > 0)[:, None]
    row, place = np.nonzero(there)
    codes, kept = bench.mend(row, applied(axes, row, chosen.lines[row, place]))
    row, codes = row[kept], codes[kept]
    asked = bench.ask(row, codes)
    short = np.full(len(need), -np.inf)
    np.maximum.at(short, row, np.where(asked.valid, np.inf, asked.margin))
    short = np.where(short == np.inf, 0.0, np.where(np.isfinite(short), np.maximum(-short, 1e-6) * 1.1, 0.0))
    good = asked.valid
    return bench.priced(row[good], codes[good], REPAIR), short


def drawn(bench: Bench, draws: Draws, count: int) -> Pool:
    """What somebody else proposes, e.g. a network: repaired and asked about."""
    proposals = np.asarray(draws(bench.present.codes, bench.present.wanted, count), dtype=np.int64)
    row = np.repeat(np.arange(len(bench.present)), proposals.shape[1])
    return bench.tried(row, proposals.reshape(len(row), -1), DRAW)
