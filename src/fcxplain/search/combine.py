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
from .ladders import Ladders, first_reached, reached
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
    """Rungs that may be combined, `rows x points`; the last point is no change at all."""

    gain: Floats
    price: Floats
    move: Codes


def combine(ladders: Ladders, need: Floats, most: int) -> Combinations:
    """The cheapest combinations that should bring what each row needs, or else those that bring the most."""
    points, sets = _points(ladders), _sets(ladders.categories, ladders.gain.shape[1])
    gain, price = sets.sums(points.gain), sets.sums(points.price)
    same = _same(ladders)
    price = np.where(_clash(same, sets), np.inf, price)
    lacks = need[:, None] + BEYOND - gain
    more, cost, move = _ended(
        ladders, lacks, price, _dearest(price, lacks, most), _used(same, sets, ladders.categories)
    )
    shape = (len(need), move.shape[1] * len(sets))
    gains = np.concatenate([gain, (gain[:, None] + more).reshape(shape)], axis=1)
    prices = np.concatenate([price, (price[:, None] + cost).reshape(shape)], axis=1)
    return _best(points, sets, move, gains, prices, need, most)


def _dearest(price: Floats, lacks: Floats, most: int) -> Floats:
    """A price of each row, `rows x 1`, which so many sets that do by themselves do not exceed."""
    enough = np.where(lacks <= 0, price, np.inf)
    if enough.shape[1] <= most:
        return np.full((len(price), 1), np.inf)
    return np.asarray(np.partition(enough, most - 1, axis=1)[:, most - 1 : most])


def _ended(ladders: Ladders, lacks: Floats, price: Floats, worth: Floats, used: Bools) -> tuple[Floats, Floats, Codes]:
    """Gain, price and move of the first rung of each number that makes up for what each set lacks.

    All are `rows x numbers x sets`. Looked up only where there is such a rung and the whole is not too dear; elsewhere
    the price is infinite.
    """
    first = ladders.categories
    gain, cost, move = np.zeros(used.shape), np.full(used.shape, np.inf), np.full(used.shape, -1)
    reach, lowest = ladders.gain[:, first:, -1:], ladders.price[:, first:, :1]
    useful = (lacks > 0) & np.isfinite(price)
    row, number, which = np.nonzero(
        (lacks[:, None] <= reach) & (price[:, None] + lowest <= worth[:, None]) & useful[:, None] & ~used
    )
    slot, length = first + number, ladders.gain.shape[2]
    line = row * ladders.gain.shape[1] + slot
    rung = first_reached(ladders.gain.reshape(-1, length), line, lacks[row, which])
    gain[row, number, which], cost[row, number, which] = ladders.gain[row, slot, rung], ladders.price[row, slot, rung]
    move[row, number, which] = ladders.move[row, slot, rung]
    return gain, cost, move


def _best(
    points: _Points, sets: _Sets, ends: Codes, gain: Floats, price: Floats, need: Floats, most: int
) -> Combinations:
    # Where nothing reaches far enough, what comes nearest is the best start for whatever follows.
    short = np.where(np.isfinite(gain), np.maximum(need[:, None] - gain, 0.0), np.inf)
    key = np.where(gain >= need[:, None] + BEYOND, price, np.where(np.isfinite(price), 1e6 * (1 + short), np.inf))
    rows, chosen = np.arange(len(need))[:, None], least(key, min(most, key.shape[1]))
    last, which = np.divmod(chosen, len(sets))
    lines = points.move[rows[:, :, None], sets.points[which]]
    # Those without an end come first, so that the others count from one.
    end = np.full(which.shape, -1)
    ended = np.nonzero(last > 0)
    end[ended] = ends[ended[0], last[ended] - 1, which[ended]]
    picked = np.where(np.isfinite(key[rows, chosen]), price[rows, chosen], np.inf)
    return Combinations(np.concatenate([lines, end[:, :, None]], axis=2), gain[rows, chosen], picked)


def least(key: Floats, most: int) -> Codes:
    """Places of the least of each row, in order, `rows x most`; among equals the first."""
    highest = np.partition(key, most - 1, axis=1)[:, most - 1 : most]
    below, level = key < highest, key == highest
    taken = below | (level & (level.cumsum(axis=1) <= most - below.sum(axis=1, keepdims=True)))
    places = np.nonzero(taken)[1].reshape(len(key), most)
    order = np.argsort(np.take_along_axis(key, places, axis=1), axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)


def _points(ladders: Ladders) -> _Points:
    """The best rung of each category, and for each number the rungs that bring shares of its best."""
    first = ladders.categories
    parts = [_shared(ladders, slice(None, first), SHARES[:1]), _shared(ladders, slice(first, None), SHARES)]
    nothing = np.zeros((len(ladders.feature), 1))
    gain, price = (np.concatenate([parts[0][i], parts[1][i], nothing], axis=1) for i in (0, 1))
    return _Points(gain, price, np.concatenate([parts[0][2], parts[1][2], nothing.astype(np.int64) - 1], axis=1))


def _shared(ladders: Ladders, slots: slice, shares: tuple[float, ...]) -> tuple[Floats, Floats, Codes]:
    """Rungs of some slots, `rows x (slots x shares)`."""
    gain, best = ladders.gain[:, slots], ladders.gain[:, slots, -1:]
    rung = reached(gain, np.where(best > 0, best * np.array(shares), best))
    there = np.take_along_axis(gain, rung, axis=2)
    price = np.take_along_axis(ladders.price[:, slots], rung, axis=2)
    move = np.take_along_axis(ladders.move[:, slots], rung, axis=2)
    useless = ~(there > 0)
    # A share that falls on the rung of a larger one is no point of its own.
    useless[..., 1:] |= rung[..., 1:] == rung[..., :-1]
    shape = (len(gain), gain.shape[1] * len(shares))
    there, price = np.where(useless, 0.0, there), np.where(useless, np.inf, price)
    return there.reshape(shape), price.reshape(shape), move.reshape(shape)


@dataclass(frozen=True, eq=False)
class _Sets:
    """Sets of points of different slots; `points`, `sets x parts`, is padded with the point that is no change.

    `by_size` has the points of the sets of each size, in order; `slots`, `sets x slots`, the slots that a set uses.
    """

    points: Codes
    by_size: tuple[Codes, ...]
    slots: Bools

    def __len__(self) -> int:
        return len(self.points)

    def sums(self, values: Floats) -> Floats:
        """The sum of the points' values over each set, `rows x sets`."""
        parts = []
        for points in self.by_size:
            total = np.zeros((len(values), len(points)))
            for place in points.T:
                total = total + values[:, place]
            parts.append(total)
        return np.concatenate(parts, axis=1)


@lru_cache(maxsize=64)
def _sets(categories: int, slots: int) -> _Sets:
    """One point, two, three of them, ...: a category has one point, a number one for each share."""
    slot_of = [s for s in range(slots) for _ in (SHARES if s >= categories else SHARES[:1])]
    points, nothing = range(len(slot_of)), len(slot_of)
    highest = [slot_of.index(s) for s in range(slots)]
    found: list[tuple[int, ...]] = [(), *((p,) for p in points)]
    found += [pair for pair in itertools.combinations(points, 2) if slot_of[pair[0]] != slot_of[pair[1]]]
    for size in (3, 4):
        found += list(itertools.combinations(highest, size))
    found += [tuple(highest[:size]) for size in range(5, slots + 1)]
    width = max(len(s) for s in found)
    padded = np.array([(*s, *[nothing] * (width - len(s))) for s in found], dtype=np.int64)
    groups = (list(own) for _, own in itertools.groupby(found, key=len))
    by_size = tuple(np.array(own, dtype=np.int64).reshape(len(own), -1) for own in groups)
    uses = [[slot in {slot_of[p] for p in s} for slot in range(slots)] for s in found]
    return _Sets(padded, by_size, np.array(uses, dtype=bool).reshape(len(found), slots))


def _same(ladders: Ladders) -> Bools:
    """Which slots change the same feature, `rows x slots x slots`."""
    feature = ladders.feature
    return np.asarray((feature[:, :, None] == feature[:, None, :]) & (feature >= 0)[:, :, None])


def _clash(same: Bools, sets: _Sets) -> Bools:
    """Sets in which a feature stands twice, `rows x sets`."""
    clash = np.zeros((len(same), len(sets)), dtype=bool)
    for a, b in np.argwhere(np.triu(same.any(axis=0), 1)):
        clash |= same[:, a, b, None] & (sets.slots[:, a] & sets.slots[:, b])
    return clash


def _used(same: Bools, sets: _Sets, categories: int) -> Bools:
    """Sets that change the feature of each number already, `rows x numbers x sets`."""
    used = np.zeros((len(same), same.shape[1] - categories, len(sets)), dtype=bool)
    for number, other in np.argwhere(same[:, categories:].any(axis=0)):
        used[:, number] |= same[:, categories + number, other, None] & sets.slots[:, other]
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
