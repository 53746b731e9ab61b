"""Ladders: for each feature of a row, what more of its change buys.

Along a ladder the price rises and so does the gain in margin; values that cost more and bring less are no rungs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .axes import Axes
from .space import Bools, Codes, Floats, Space

# On lines up to this length, counting what lies below is quicker than bisection.
SHORT = 128


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


def ladders_of(space: Space, axes: Axes, price: Floats, need: Floats, categories: int, numbers: int) -> Ladders:
    """The most promising ladders of each row: at most so many of categories and so many of numbers.

    `price` is told for each of the axes' candidates, `need` is the margin that each row lacks.
    """
    start = np.where(np.isfinite(axes.base_margin), axes.base_margin, 0.0)[:, None]
    moves = _Moved(
        axes.spread(axes.margin, -np.inf) - start,
        axes.spread(price, np.inf),
        axes.line,
        axes.spread(axes.repaired.astype(np.float64), 0.0) > 0,
    )
    is_number = space.is_number[axes.moves.features]
    kinds = (
        (~is_number, min(categories, 2 * int((~is_number).sum()))),
        (is_number, min(numbers, 2 * int(is_number.sum()))),
    )
    parts = [_chosen(_made(axes, moves, kind), need, most) for kind, most in kinds]
    length = max(part.gain.shape[2] for part in parts)
    gain, cost, line = (
        np.concatenate([_padded(getattr(part, name), length) for part in parts], axis=1)
        for name in ("gain", "price", "move")
    )
    feature = np.concatenate([part.feature for part in parts], axis=1)
    return Ladders(gain, cost, line, feature, parts[0].feature.shape[1])


@dataclass(frozen=True, eq=False)
class _Moved:
    """What each move brings and costs, its place among the candidates, and whether it was repaired, `rows x moves`."""

    gain: Floats
    price: Floats
    line: Codes
    repaired: Bools


def _made(axes: Axes, moves: _Moved, kind: Bools) -> Ladders:
    """The ladders of some features; where moves had to be repaired, these make a ladder of their own."""
    rows, table = len(moves.gain), axes.moves.table[kind]
    if not len(table):
        none = np.empty((rows, 0, 1))
        return Ladders(none, none, none.astype(np.int64), np.empty((rows, 0), dtype=np.int64), 0)
    table = table[:, : int((table >= 0).sum(axis=1).max())]
    there = (table >= 0) & (moves.line[:, table] >= 0)
    repaired = moves.repaired[:, table]
    # Of each feature two in turn: moves that keep the rules by themselves, and repaired ones if there are any.
    some = np.stack([np.ones(len(table), dtype=bool), (there & repaired).any(axis=(0, 2))], axis=1)
    which, is_second = np.nonzero(some)
    fits = there[:, which] & (repaired[:, which] == is_second[:, None])
    table = table[which]
    gain, price, line = _rungs(
        np.where(fits, moves.gain[:, table], -np.inf),
        np.where(table >= 0, moves.price[:, table], np.inf),
        moves.line[:, table],
    )
    feature = np.broadcast_to(axes.moves.features[kind][which], gain.shape[:2])
    return Ladders(gain, price, line, feature, 0)


def _rungs(gain: Floats, price: Floats, line: Codes) -> tuple[Floats, Floats, Codes]:
    """Rungs in order of price, `rows x ladders x values`."""
    order = np.argsort(price, axis=2, kind="stable")
    highest = np.maximum.accumulate(np.take_along_axis(gain, order, axis=2), axis=2)
    rises = np.ones(gain.shape, dtype=bool)
    rises[..., 1:] = highest[..., 1:] > highest[..., :-1]
    rung = np.maximum.accumulate(np.where(rises, np.arange(gain.shape[2]), 0), axis=2)
    value = np.take_along_axis(order, rung, axis=2)
    return highest, np.take_along_axis(price, value, axis=2), np.take_along_axis(line, value, axis=2)


def _chosen(made: Ladders, need: Floats, most: int) -> Ladders:
    """So many ladders of each row: those that bring half of what is needed at the lowest price.

    What the other rows of a batch have must not show, so that they come in order even if none is left out, and empty
    ones make up for those that are not there.
    """
    best = _promising(made.gain, made.price, need)[:, :most]
    rows, spare = np.arange(len(need))[:, None], most - best.shape[1]
    feature = _filled(made.feature[rows, best], spare, -1)
    gain, price = _filled(made.gain[rows, best], spare, -np.inf), _filled(made.price[rows, best], spare, np.inf)
    move = _filled(made.move[rows, best], spare, -1)
    return Ladders(gain, price, move, np.where(np.isfinite(gain[:, :, -1]), feature, -1), 0)


def _filled(values: NDArray[Any], spare: int, empty: float) -> NDArray[Any]:
    """Slots and so many empty ones."""
    more = np.full((len(values), max(spare, 0), *values.shape[2:]), empty, dtype=values.dtype)
    return np.concatenate([values, more], axis=1)


def _promising(gain: Floats, price: Floats, need: Floats) -> Codes:
    """Slots in order of the price at which they bring half of what is needed, and then of what they bring at most."""
    length = gain.shape[2]
    half = reached(gain, need[:, None, None] / 2)[:, :, 0]
    cost = np.take_along_axis(price, np.minimum(half, length - 1)[:, :, None], axis=2)[:, :, 0]
    return np.lexsort((-np.round(gain[:, :, -1], 9), np.where(half >= length, np.inf, cost)), axis=1)


def _padded(values: NDArray[Any], length: int) -> NDArray[Any]:
    """Ladders made longer by their last rung."""
    more = length - values.shape[2]
    return np.concatenate([values, np.repeat(values[:, :, -1:], more, axis=2)], axis=2) if more else values


def reached(rising: Floats, need: Floats) -> Codes:
    """The first place where rising lines reach what is needed, or their length: `... x n` in `... x length`."""
    length = rising.shape[-1]
    if length <= SHORT:
        return np.asarray((rising[..., None, :] < need[..., None]).sum(axis=-1))
    line = np.arange(rising.size // length).reshape(*rising.shape[:-1], 1)
    return first_reached(rising.reshape(-1, length), line, np.broadcast_to(need, (*line.shape[:-1], need.shape[-1])))


def first_at_least(rising: Floats, need: Floats) -> Codes:
    """The same for needs `rows x n` on lines `rows x length`."""
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
