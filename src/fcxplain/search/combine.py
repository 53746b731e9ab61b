"""Changes of several features together, chosen as if their gains added up.

For a linear score they do, so that what comes first here is the cheapest there is; for any other model it is a good
guess, which the model then confirms or corrects.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .axes import Axes
from .ladders import Ladders, first_at_least, first_reached
from .space import Bools, Codes, Floats

# Points of a number's ladder that may be combined, as shares of the most it gains.
SHARES = (1.0, 0.66, 0.33)
# A guess must be beyond the border by this much, so that rounding does not decide.
BEYOND = 1e-9


@dataclass(frozen=True, eq=False)
class Combinations:
    """Chosen combinations, `rows x n x parts`: places in `axes.codes`, or -1; the first `n` of a row are the best.

    `gain` is what they should bring, `rows x n`; `price` is infinite where nothing was left to choose.
    """

    lines: Codes
    gain: Floats
    price: Floats


@dataclass(frozen=True, eq=False)
class _Points:
    """Rungs that may be combined, `rows x points`; the last point is no change at all. `slot` has one per point."""

    gain: Floats
    price: Floats
    move: Codes
    slot: tuple[int, ...]


def combine(ladders: Ladders, need: Floats, most: int) -> Combinations:
    """The cheapest combinations that should bring what each row needs, or else those that bring the most."""
    points = _points(ladders)
    slots, numbers = ladders.gain.shape[1], range(ladders.categories, ladders.gain.shape[1])
    sets = _sets(points.slot, slots)
    gain, price = points.gain[:, sets].sum(axis=2), points.price[:, sets].sum(axis=2)
    price = np.where(_clash(ladders, points, sets), np.inf, price)
    lacks = need[:, None] + BEYOND - gain
    worth = _dearest(price, lacks, most)
    ends = [_ended(ladders, slot, lacks, price, worth, _uses(ladders, points, sets, slot)) for slot in numbers]
    gains, prices = [gain, *(gain + more for more, _, _ in ends)], [price, *(price + cost for _, cost, _ in ends)]
    return _best(points, sets, np.stack([m for _, _, m in ends], axis=1) if ends else None, gains, prices, need, most)


def _dearest(price: Floats, lacks: Floats, most: int) -> Floats:
    """A price of each row, `rows x 1`, which so many sets that do by themselves do not exceed."""
    enough = np.where(lacks <= 0, price, np.inf)
    if enough.shape[1] <= most:
        return np.full((len(price), 1), np.inf)
    return np.asarray(np.partition(enough, most - 1, axis=1)[:, most - 1 : most])


def _ended(
    ladders: Ladders, slot: int, lacks: Floats, price: Floats, worth: Floats, used: Bools
) -> tuple[Floats, Floats, Codes]:
    """Gain, price and move of the first rung that makes up for what each set lacks, `rows x sets`.

    Looked up only where there is such a rung and the whole is not too dear; elsewhere the price is infinite.
    """
    gain, cost, move = np.zeros(lacks.shape), np.full(lacks.shape, np.inf), np.full(lacks.shape, -1)
    reached = (lacks > 0) & (lacks <= ladders.gain[:, slot, -1:])
    row, which = np.nonzero(reached & (price + ladders.price[:, slot, :1] <= worth) & np.isfinite(price) & ~used)
    rung = first_reached(ladders.gain[:, slot], row, lacks[row, which])
    gain[row, which], cost[row, which] = ladders.gain[row, slot, rung], ladders.price[row, slot, rung]
    move[row, which] = ladders.move[row, slot, rung]
    return gain, cost, move


def _best(
    points: _Points,
    sets: Codes,
    ends: Codes | None,
    gains: list[Floats],
    prices: list[Floats],
    need: Floats,
    most: int,
) -> Combinations:
    gain, price = np.concatenate(gains, axis=1), np.concatenate(prices, axis=1)
    # Where nothing reaches far enough, what comes nearest is the best start for whatever follows.
    short = np.where(np.isfinite(gain), np.maximum(need[:, None] - gain, 0.0), np.inf)
    key = np.where(gain >= need[:, None] + BEYOND, price, np.where(np.isfinite(price), 1e6 * (1 + short), np.inf))
    most = min(most, key.shape[1])
    chosen = np.argpartition(key, most - 1, axis=1)[:, :most] if most < key.shape[1] else np.argsort(key, axis=1)
    order = np.lexsort((chosen, np.take_along_axis(key, chosen, axis=1)), axis=1)
    chosen = np.take_along_axis(chosen, order, axis=1)
    which, last = chosen % len(sets), chosen // len(sets) - 1
    rows = np.arange(len(need))[:, None]
    lines = points.move[rows[:, :, None], sets[which]]
    end = np.full(which.shape, -1) if ends is None else np.where(last >= 0, ends[rows, last, which], -1)
    reach = np.take_along_axis(key, chosen, axis=1)
    picked = np.where(np.isfinite(reach), np.take_along_axis(price, chosen, axis=1), np.inf)
    return Combinations(
        np.concatenate([lines, end[:, :, None]], axis=2), np.take_along_axis(gain, chosen, axis=1), picked
    )


def _points(ladders: Ladders) -> _Points:
    rows, slots = ladders.feature.shape
    gains, prices, moves, slot_of = [], [], [], []
    for slot in range(slots):
        shares = SHARES if slot >= ladders.categories else SHARES[:1]
        best = ladders.gain[:, slot, -1:]
        rung = first_at_least(ladders.gain[:, slot], np.where(best > 0, best * np.array(shares), best))
        gain, price, move = ladders.at(slot, rung)
        useless = ~(gain > 0)
        # A share that falls on the rung of a larger one is no point of its own.
        useless[:, 1:] |= rung[:, 1:] == rung[:, :-1]
        gains.append(np.where(useless, 0.0, gain))
        prices.append(np.where(useless, np.inf, price))
        moves.append(move)
        slot_of += [slot] * len(shares)
    nothing = np.zeros((rows, 1))
    return _Points(
        np.concatenate([*gains, nothing], axis=1),
        np.concatenate([*prices, nothing], axis=1),
        np.concatenate([*moves, np.full((rows, 1), -1)], axis=1),
        (*slot_of, -1),
    )


@lru_cache(maxsize=64)
def _sets(slot_of: tuple[int, ...], slots: int) -> Codes:
    """Sets of points of different slots, padded with the point that is no change: one, two, three of them, ..."""
    points, nothing = range(len(slot_of) - 1), len(slot_of) - 1
    highest = [slot_of.index(s) for s in range(slots)]
    found: list[tuple[int, ...]] = [(), *((p,) for p in points)]
    found += [pair for pair in itertools.combinations(points, 2) if slot_of[pair[0]] != slot_of[pair[1]]]
    for size in (3, 4):
        found += list(itertools.combinations(highest, size))
    found += [tuple(highest[:size]) for size in range(5, slots + 1)]
    width = max(len(s) for s in found)
    return np.array([(*s, *[nothing] * (width - len(s))) for s in found], dtype=np.int64)


def _clash(ladders: Ladders, points: _Points, sets: Codes) -> Bools:
    """Sets in which a feature stands twice, `rows x sets`."""
    slots = ladders.feature.shape[1]
    clash = np.zeros((len(ladders.feature), len(sets)), dtype=bool)
    slot_of = np.array(points.slot)[sets]
    for a, b in itertools.combinations(range(slots), 2):
        same = (ladders.feature[:, a] == ladders.feature[:, b]) & (ladders.feature[:, a] >= 0)
        if same.any():
            both = (slot_of == a).any(axis=1) & (slot_of == b).any(axis=1)
            clash |= same[:, None] & both
    return clash


def _uses(ladders: Ladders, points: _Points, sets: Codes, slot: int) -> Bools:
    """Sets that change the feature of a slot already, `rows x sets`."""
    slot_of = np.array(points.slot)[sets]
    used = np.zeros((len(ladders.feature), len(sets)), dtype=bool)
    for other in range(ladders.feature.shape[1]):
        same = ladders.feature[:, other] == ladders.feature[:, slot]
        if same.any():
            used |= same[:, None] & (slot_of == other).any(axis=1)
    return used


def applied(axes: Axes, row: Codes, lines: Codes) -> Codes:
    """The base of each row with all the moves of a combination on it, later ones over earlier: `n x features`."""
    base = axes.base[row]
    codes = base.copy()
    for part in lines.T:
        there = np.flatnonzero(part >= 0)
        moved = axes.codes[part[there]]
        codes[there] = np.where(moved != base[there], moved, codes[there])
    return codes
