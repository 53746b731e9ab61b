"""Ladders: for each feature of a row, what more of its change buys.

Along a ladder the price rises and so does the gain in margin; values that cost more and bring less are no rungs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .axes import Axes
from .space import Codes, Floats, Space


@dataclass(frozen=True, eq=False)
class Ladders:
    """Ladders of each row, `rows x slots x rungs`. `move` is the place in `axes.codes` that a rung stands for.

    The first `categories` slots are categories, the others numbers; `feature`, `rows x slots`, is -1 for an empty
    slot. Past its last rung a ladder stays where it is; an empty one gains minus infinity.
    """

    gain: Floats
    price: Floats
    move: Codes
    feature: Codes
    categories: int

    @property
    def best(self) -> Floats:
        """The most that each ladder gains, `rows x slots`."""
        return np.asarray(self.gain[:, :, -1])

    def at(self, slot: int, rung: Codes) -> tuple[Floats, Floats, Codes]:
        """Gain, price and move on rungs of one slot, `rows x n`; past the end of a ladder there is no price."""
        last = self.gain.shape[2] - 1
        held = np.minimum(rung, last)
        gain = np.take_along_axis(self.gain[:, slot], held, axis=1)
        price = np.take_along_axis(self.price[:, slot], held, axis=1)
        move = np.take_along_axis(self.move[:, slot], held, axis=1)
        return gain, np.where(rung > last, np.inf, price), move


@dataclass(frozen=True, eq=False)
class _Ladder:
    """The ladder of one feature, `rows x rungs`."""

    feature: int
    gain: Floats
    price: Floats
    move: Codes


def ladders_of(space: Space, axes: Axes, price: Floats, need: Floats, categories: int, numbers: int) -> Ladders:
    """The most promising ladders of each row: at most so many of categories and so many of numbers.

    `price` is told for each of the axes' candidates, `need` is the margin that each row lacks.
    """
    gain = axes.spread(axes.margin, -np.inf) - np.where(np.isfinite(axes.base_margin), axes.base_margin, 0.0)[:, None]
    cost = axes.spread(price, np.inf)
    mended = axes.spread(axes.repaired.astype(np.float64), 0.0) > 0
    made: dict[bool, list[_Ladder]] = {False: [], True: []}
    for feature in np.unique(axes.moves.feature):
        which = np.flatnonzero(axes.moves.feature == feature)
        for repaired in (False, True):
            fits = (mended[:, which] == repaired) & (axes.line[:, which] >= 0)
            if fits.any() or not repaired:
                rungs = _rungs(np.where(fits, gain[:, which], -np.inf), cost[:, which], axes.line[:, which])
                made[bool(space.is_number[feature])].append(_Ladder(int(feature), *rungs))
    length = max([1, *(ladder.gain.shape[1] for group in made.values() for ladder in group)])
    parts = [_chosen(made[False], need, categories, length), _chosen(made[True], need, numbers, length)]
    joined = [np.concatenate(pair, axis=1) for pair in zip(*parts, strict=True)]
    return Ladders(joined[0], joined[1], joined[2], joined[3], parts[0][0].shape[1])


def _rungs(gain: Floats, price: Floats, line: Codes) -> tuple[Floats, Floats, Codes]:
    """Rungs in order of price, of one feature, `rows x values`."""
    order = np.argsort(price, axis=1, kind="stable")
    highest = np.maximum.accumulate(np.take_along_axis(gain, order, axis=1), axis=1)
    rises = np.ones(gain.shape, dtype=bool)
    rises[:, 1:] = highest[:, 1:] > highest[:, :-1]
    rung = np.maximum.accumulate(np.where(rises, np.arange(gain.shape[1]), 0), axis=1)
    value = np.take_along_axis(order, rung, axis=1)
    return highest, np.take_along_axis(price, value, axis=1), np.take_along_axis(line, value, axis=1)


def _chosen(made: list[_Ladder], need: Floats, most: int, length: int) -> tuple[Floats, Floats, Codes, Codes]:
    """At most so many ladders of each row: those that bring half of what is needed at the lowest price."""
    rows = len(need)
    if not made:
        none = np.empty((rows, 0, length))
        return none, none, none.astype(np.int64), np.empty((rows, 0), dtype=np.int64)
    gain = np.stack([_padded(ladder.gain, length) for ladder in made], axis=1)
    price = np.stack([_padded(ladder.price, length) for ladder in made], axis=1)
    move = np.stack([_padded(ladder.move, length) for ladder in made], axis=1)
    feature = np.broadcast_to(np.array([ladder.feature for ladder in made]), gain.shape[:2])
    if len(made) > most:
        best = _promising(gain, price, need)[:, :most]
        gain, price, move = (np.take_along_axis(a, best[:, :, None], axis=1) for a in (gain, price, move))
        feature = np.take_along_axis(feature, best, axis=1)
    feature = np.where(np.isfinite(gain[:, :, -1]), feature, -1)
    return gain, price, move, feature


def _promising(gain: Floats, price: Floats, need: Floats) -> Codes:
    """Slots in order of the price at which they bring half of what is needed, and then of what they bring at most."""
    length = gain.shape[2]
    half = np.stack([first_at_least(gain[:, s], need[:, None] / 2)[:, 0] for s in range(gain.shape[1])], axis=1)
    cost = np.take_along_axis(price, np.minimum(half, length - 1)[:, :, None], axis=2)[:, :, 0]
    return np.lexsort((-np.round(gain[:, :, -1], 9), np.where(half >= length, np.inf, cost)), axis=1)


def _padded(values: NDArray[Any], length: int) -> NDArray[Any]:
    """A ladder made longer by its last rung."""
    return np.concatenate([values, np.repeat(values[:, -1:], length - values.shape[1], axis=1)], axis=1)


def first_at_least(rising: Floats, need: Floats) -> Codes:
    """The first place where a rising line reaches what is needed, or its length: `rows x n` in `rows x length`."""
    return first_reached(rising, np.arange(len(rising))[:, None], need)


def first_reached(rising: Floats, row: Codes, need: Floats) -> Codes:
    """The same for needs of any shape, where `row` says on which of the lines each is to be met."""
    length = rising.shape[1]
    flat, start = rising.ravel(), row * length - 1
    reached = np.zeros(need.shape, dtype=np.int64)
    step = 1 << (length.bit_length() - 1)
    while step:
        probe = reached + step
        below = (probe <= length) & (flat[start + np.minimum(probe, length)] < need)
        reached = np.where(below, probe, reached)
        step //= 2
    return reached
