"""Changes of several features together, chosen as if their gains added up."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..batch import Batch
from ..candidates import REPAIR, Candidates, Found, joined, within
from ..space import Bools, Codes, Floats, SearchSpace
from .single import SingleChanges

# Ladders of categories and of numbers to combine.
CATEGORIES, NUMBERS = 6, 4
# Combinations queried per row and round, and the most rounds.
COMBINATIONS, ROUNDS = 12, 4
# Up to this length, counting the smaller values is faster than bisection.
SHORT = 128


@dataclass(frozen=True, eq=False)
class Ladders:
    """Ladders of each row, `rows x slots x rungs`: the changes of one feature, with rising price and gain.

    `move` is the index in `singles.codes` of each rung. The first `categories` slots are categories, the others
    numbers; `feature`, `rows x slots`, is -1 for an empty slot. Ladders are padded with their last rung; an empty one
    has a gain of minus infinity.
    """

    gain: Floats
    price: Floats
    move: Codes
    feature: Codes
    categories: int

    def of(self, rows: Codes) -> Ladders:
        """The ladders of some of the rows."""
        if len(rows) == len(self.feature):
            return self
        return Ladders(self.gain[rows], self.price[rows], self.move[rows], self.feature[rows], self.categories)


def ladders_of(
    space: SearchSpace, singles: SingleChanges, price: Floats, need: Floats, categories: int, numbers: int
) -> Ladders:
    """The most promising ladders of each row, at most `categories` of categories and `numbers` of numbers.

    `price` is the price of each single change, `need` the margin that each row lacks.
    """
    start = np.where(np.isfinite(singles.base_margin), singles.base_margin, 0.0)[:, None]
    moves = _Moved(
        singles.spread(singles.margin, -np.inf) - start,
        singles.spread(price, np.inf),
        singles.line,
        singles.spread(singles.repaired.astype(np.float64), 0.0) > 0,
    )
    is_number = space.is_number[singles.moves.features]
    kinds = (
        (~is_number, min(categories, 2 * int((~is_number).sum()))),
        (is_number, min(numbers, 2 * int(is_number.sum()))),
    )
    parts = [_chosen(_made(singles, moves, kind), need, most) for kind, most in kinds]
    length = max(part.gain.shape[2] for part in parts)
    gain, cost, line = (
        np.concatenate([_padded(getattr(part, name), length) for part in parts], axis=1)
        for name in ("gain", "price", "move")
    )
    feature = np.concatenate([part.feature for part in parts], axis=1)
    return Ladders(gain, cost, line, feature, parts[0].feature.shape[1])


@dataclass(frozen=True, eq=False)
class _Moved:
    """The gain and price of each move, its index among the candidates, and whether it was repaired, `rows x moves`."""

    gain: Floats
    price: Floats
    line: Codes
    repaired: Bools


def _made(singles: SingleChanges, moves: _Moved, kind: Bools) -> Ladders:
    """The ladders of some features; repaired moves form a separate ladder."""
    rows, table = len(moves.gain), singles.moves.table[kind]
    if not len(table):
        none = np.empty((rows, 0, 1))
        return Ladders(none, none, none.astype(np.int64), np.empty((rows, 0), dtype=np.int64), 0)
    table = table[:, : int((table >= 0).sum(axis=1).max())]
    there = (table >= 0) & (moves.line[:, table] >= 0)
    repaired = moves.repaired[:, table]
    # Up to two per feature: moves that keep the rules by themselves, and repaired ones if there are any.
    some = np.stack([np.ones(len(table), dtype=bool), (there & repaired).any(axis=(0, 2))], axis=1)
    which, is_second = np.nonzero(some)
    fits = there[:, which] & (repaired[:, which] == is_second[:, None])
    table = table[which]
    gain, price, line = _rungs(
        np.where(fits, moves.gain[:, table], -np.inf),
        np.where(table >= 0, moves.price[:, table], np.inf),
        moves.line[:, table],
    )
    feature = np.broadcast_to(singles.moves.features[kind][which], gain.shape[:2])
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
    """Up to `most` ladders of each row: those that bring half of the need at the lowest price.

    The result must not depend on other rows of the batch. So ladders are sorted even if none is dropped, and empty ones
    fill the remaining slots.
    """
    best = _promising(made.gain, made.price, need)[:, :most]
    rows, spare = np.arange(len(need))[:, None], most - best.shape[1]
    feature = _filled(made.feature[rows, best], spare, -1)
    gain, price = _filled(made.gain[rows, best], spare, -np.inf), _filled(made.price[rows, best], spare, np.inf)
    move = _filled(made.move[rows, best], spare, -1)
    return Ladders(gain, price, move, np.where(np.isfinite(gain[:, :, -1]), feature, -1), 0)


def _filled(values: NDArray[Any], spare: int, empty: float) -> NDArray[Any]:
    """Slots with `spare` empty ones appended."""
    more = np.full((len(values), max(spare, 0), *values.shape[2:]), empty, dtype=values.dtype)
    return np.concatenate([values, more], axis=1)


def _promising(gain: Floats, price: Floats, need: Floats) -> Codes:
    """Slots in order of the price at which they bring half of the need, then of their highest gain."""
    length = gain.shape[2]
    half = reached(gain, need[:, None, None] / 2)[:, :, 0]
    cost = np.take_along_axis(price, np.minimum(half, length - 1)[:, :, None], axis=2)[:, :, 0]
    return np.lexsort((-np.round(gain[:, :, -1], 9), np.where(half >= length, np.inf, cost)), axis=1)


def _padded(values: NDArray[Any], length: int) -> NDArray[Any]:
    """Ladders padded with their last rung."""
    more = length - values.shape[2]
    return np.concatenate([values, np.repeat(values[:, :, -1:], more, axis=2)], axis=2) if more else values


def reached(rising: Floats, need: Floats) -> Codes:
    """The first index at which rising lines, `... x length`, reach each need, `... x n`, or the length if none does."""
    length = rising.shape[-1]
    if length <= SHORT:
        return np.asarray((rising[..., None, :] < need[..., None]).sum(axis=-1))
    line = np.arange(rising.size // length).reshape(*rising.shape[:-1], 1)
    return first_reached(rising.reshape(-1, length), line, np.broadcast_to(need, (*line.shape[:-1], need.shape[-1])))


def first_at_least(rising: Floats, need: Floats) -> Codes:
    """The same for needs `rows x n` on lines `rows x length`."""
    return first_reached(rising, np.arange(len(rising))[:, None], need)


def first_reached(rising: Floats, row: Codes, need: Floats) -> Codes:
    """The same for needs of any shape; `row` is the line of each."""
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


# Points of a number's ladder that may be combined, as shares of its highest gain.
SHARES = (1.0, 0.66, 0.33)
# A predicted gain must exceed the need by this much, so that rounding does not decide.
BEYOND = 1e-9


@dataclass(frozen=True, eq=False)
class Combinations:
    """Chosen combinations, best first, `rows x n x parts`: indices in `singles.codes`, or -1.

    `gain` is their predicted gain, `rows x n`; `price` is infinite where nothing was left to choose.
    """

    lines: Codes
    gain: Floats
    price: Floats


@dataclass(frozen=True, eq=False)
class _Points:
    """Rungs that may be combined, `rows x points`; the last point is "no change"."""

    gain: Floats
    price: Floats
    move: Codes


def combine(ladders: Ladders, need: Floats, most: int) -> Combinations:
    """The cheapest combinations that should bring what each row needs, or else those that come nearest."""
    # Slots that are empty in every row are not combined.
    there: Bools = np.any(ladders.feature >= 0, axis=0)
    points, sets = _points(ladders), _sets(ladders.categories, tuple(there.tolist()))
    gain, price = sets.sums(points.gain), sets.sums(points.price)
    same = _same(ladders)
    price = np.where(_clash(same, sets), np.inf, price)
    lacks = need[:, None] + BEYOND - gain
    worth, used = _highest_worth(price, lacks, most), _used(same, sets, ladders.categories)
    return _best(points, sets, gain, price, _ended(ladders, lacks, price, worth, used), need, most)


def _highest_worth(price: Floats, lacks: Floats, most: int) -> Floats:
    """The price of each row's `most`-th cheapest set that is enough by itself, `rows x 1`."""
    enough = np.where(lacks <= 0, price, np.inf)
    if enough.shape[1] <= most:
        return np.full((len(price), 1), np.inf)
    return np.asarray(np.partition(enough, most - 1, axis=1)[:, most - 1 : most])


@dataclass(frozen=True, eq=False)
class _Ends:
    """Rungs of numbers that supply what sets lack: row, set, and what they add to it."""

    row: Codes
    which: Codes
    gain: Floats
    price: Floats
    move: Codes


def _ended(ladders: Ladders, lacks: Floats, price: Floats, worth: Floats, used: Bools) -> _Ends:
    """The first rung of each number that supplies what each set lacks.

    Only where there is one and the total price is not too high.
    """
    first = ladders.categories
    reach, lowest = ladders.gain[:, first:, -1:], ladders.price[:, first:, :1]
    useful = (lacks > 0) & np.isfinite(price)
    row, number, which = np.nonzero(
        (lacks[:, None] <= reach) & (price[:, None] + lowest <= worth[:, None]) & useful[:, None] & ~used
    )
    slot, length = first + number, ladders.gain.shape[2]
    line = row * ladders.gain.shape[1] + slot
    rung = first_reached(ladders.gain.reshape(-1, length), line, lacks[row, which])
    place = row, slot, rung
    return _Ends(row, which, ladders.gain[place], ladders.price[place], ladders.move[place])


def _best(
    points: _Points, sets: _Sets, gain: Floats, price: Floats, ends: _Ends, need: Floats, most: int
) -> Combinations:
    """The `most` best sets of each row, by themselves or completed by a rung of a number; ties go to the former."""
    kept = least(_rank(gain, price, need[:, None]), min(most, len(sets)))
    alone = np.repeat(np.arange(len(need)), kept.shape[1])
    row, which = np.append(alone, ends.row), np.append(kept.ravel(), ends.which)
    gains, prices, end = gain[row, which], price[row, which], np.append(np.full(kept.size, -1), ends.move)
    gains[kept.size :] += ends.gain
    prices[kept.size :] += ends.price
    rank = _rank(gains, prices, need[row])
    order = np.lexsort((rank, row))
    turn = within(row[order])
    order, turn = order[turn < most], turn[turn < most]
    place = row[order], turn
    found = Combinations(
        np.full((len(need), most, sets.points.shape[1] + 1), -1),
        np.full((len(need), most), -np.inf),
        np.full((len(need), most), np.inf),
    )
    found.lines[place] = np.column_stack([points.move[row[order, None], sets.points[which[order]]], end[order]])
    found.gain[place], found.price[place] = gains[order], np.where(np.isfinite(rank), prices, np.inf)[order]
    return found


def _rank(gain: Floats, price: Floats, need: Floats) -> Floats:
    """The sort key of combinations: their price, if the gain is enough.

    Otherwise those that come nearest are the best start for the next steps.
    """
    short = np.where(np.isfinite(gain), np.maximum(need - gain, 0.0), np.inf)
    return np.where(gain >= need + BEYOND, price, np.where(np.isfinite(price), 1e6 * (1 + short), np.inf))


def least(key: Floats, most: int) -> Codes:
    """Indices of the smallest values of each row, in order, `rows x most`; ties go to the first."""
    highest = np.partition(key, most - 1, axis=1)[:, most - 1 : most]
    below, level = key < highest, key == highest
    taken = below | (level & (level.cumsum(axis=1) <= most - below.sum(axis=1, keepdims=True)))
    places = np.nonzero(taken)[1].reshape(len(key), most)
    order = np.argsort(np.take_along_axis(key, places, axis=1), axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)


def _points(ladders: Ladders) -> _Points:
    """The best rung of each category, and the rungs of each number that bring shares of its highest gain."""
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
    # A share on the same rung as a larger one is not another point.
    useless[..., 1:] |= rung[..., 1:] == rung[..., :-1]
    shape = (len(gain), gain.shape[1] * len(shares))
    there, price = np.where(useless, 0.0, there), np.where(useless, np.inf, price)
    return there.reshape(shape), price.reshape(shape), move.reshape(shape)


@dataclass(frozen=True, eq=False)
class _Sets:
    """Sets of points of different slots; `points`, `sets x parts`, is padded with the point "no change".

    `by_size` has the points of the sets of each size, in order; `slots`, `sets x slots`, the slots that each set uses.
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


@lru_cache(maxsize=256)
def _sets(categories: int, there: tuple[bool, ...]) -> _Sets:
    """Sets of one point, two, three, ...: a category has one point, a number one for each share.

    `there` says for each slot whether any row uses it.
    """
    slots = len(there)
    slot_of = [s for s in range(slots) for _ in (SHARES if s >= categories else SHARES[:1])]
    points, nothing = range(len(slot_of)), len(slot_of)
    highest = [slot_of.index(s) for s in range(slots)]
    found: list[tuple[int, ...]] = [(), *((p,) for p in points)]
    found += [pair for pair in itertools.combinations(points, 2) if slot_of[pair[0]] != slot_of[pair[1]]]
    for size in (3, 4):
        found += list(itertools.combinations(highest, size))
    found += [tuple(highest[:size]) for size in range(5, slots + 1)]
    found = [points for points in found if all(there[slot_of[p]] for p in points)]
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
    """Sets that contain a feature twice, `rows x sets`."""
    clash = np.zeros((len(same), len(sets)), dtype=bool)
    for a, b in np.argwhere(np.triu(same.any(axis=0), 1)):
        clash |= same[:, a, b, None] & (sets.slots[:, a] & sets.slots[:, b])
    return clash


def _used(same: Bools, sets: _Sets, categories: int) -> Bools:
    """Sets that already change the feature of each number, `rows x numbers x sets`."""
    used = np.zeros((len(same), same.shape[1] - categories, len(sets)), dtype=bool)
    for number, other in np.argwhere(same[:, categories:].any(axis=0)):
        used[:, number] |= same[:, categories + number, other, None] & sets.slots[:, other]
    return used


def applied(singles: SingleChanges, row: Codes, lines: Codes) -> Codes:
    """The base of each row with all moves of a combination applied in order, `n x features`."""
    base = singles.base[row]
    codes = base.copy()
    for part in lines.T:
        there = np.flatnonzero(part >= 0)
        moved = singles.codes[part[there]]
        codes[there] = np.where(moved != base[there], moved, codes[there])
    return codes


def ladders(batch: Batch, singles: SingleChanges) -> Ladders:
    """The ladders of each row, from its base."""
    known = singles.ladders.get(batch.weights)
    if known is None:
        start = batch.price(np.arange(len(singles.base)), singles.base)
        price = batch.price(singles.row, singles.codes) - start[singles.row]
        known = ladders_of(batch.space, singles, price, singles.lacking, CATEGORIES, NUMBERS)
        singles.ladders[batch.weights] = known
    return known


def combinations(batch: Batch, found: Found) -> Candidates:
    """Changes of several features together, from each row's base."""
    return combined(batch, found.singles)


def combined(batch: Batch, singles: SingleChanges) -> Candidates:
    """Changes of several features together; if the first round fails, the next ones reach further."""
    known, need = ladders(batch, singles), singles.lacking.copy()
    found, open_ = [], np.ones(len(need), dtype=bool)
    for _ in range(ROUNDS):
        new, short = _guessed(batch, singles, known, need, open_)
        found.append(new)
        open_ &= short > 0
        if not open_.any():
            break
        need = need + np.where(open_, short, 0.0)
    return joined(found)


def _guessed(
    batch: Batch, singles: SingleChanges, known: Ladders, need: Floats, rows: Bools
) -> tuple[Candidates, Floats]:
    """One round for some of the rows, and the margin by which the best combination of each fell short (0: none)."""
    which = np.flatnonzero(rows & (need > 0))
    chosen = combine(known.of(which), need[which], COMBINATIONS)
    line, place = np.nonzero(np.isfinite(chosen.price))
    row, codes, replies = batch.replies(which[line], applied(singles, which[line], chosen.lines[line, place]))
    short = np.full(len(need), -np.inf)
    np.maximum.at(short, row, np.where(replies.valid, np.inf, replies.margin))
    short = np.where(short == np.inf, 0.0, np.where(np.isfinite(short), np.maximum(-short, 1e-6) * 1.1, 0.0))
    return batch.priced(row[replies.valid], codes[replies.valid], REPAIR), short
