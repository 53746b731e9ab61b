"""The cheapest whole steps that make up for what a sum lacks: a knapsack for each row, all rows at once.

Parts are taken by what they cost for what they bring, the last one by a fraction: nothing can be cheaper than that.
A whole number of steps near it is a good answer, and the right one where it costs no more. Elsewhere a better one could
only be found nearby, as each step away from the fractions has its price; those few are all tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .boxes import Codes, Floats

# Two costs that differ by less than this share of them are the same.
SAME = 1e-9
# Combinations of steps that are tried for a row, and for how many at a time.
MOST, AT_A_TIME = 4096, 1 << 19
# How many steps from the fill are tried first, and what stands for any number of them.
NEAR, ANY = 2, 1 << 40


@dataclass(frozen=True, eq=False)
class Knapsack:
    """What each row needs, and what the steps of its parts bring and cost; `rows x parts` unless said otherwise.

    A part may go `up`, which brings `gains` a step, or `down`, which takes as much away. Steps cost `each`; the first
    in either direction may be cheaper. `equal`: what is needed must be met, not only reached.
    """

    need: Codes
    """Never below 0, one for each row."""
    gains: Codes
    """Above 0, one for each part."""
    each: Floats
    """One for each part."""
    first_up: Floats
    first_down: Floats
    up: Codes
    down: Codes
    equal: bool

    def take(self, rows: NDArray[Any]) -> Knapsack:
        """Some of the rows."""
        first_up, first_down, up, down = self.first_up[rows], self.first_down[rows], self.up[rows], self.down[rows]
        return Knapsack(self.need[rows], self.gains, self.each, first_up, first_down, up, down, self.equal)

    def cost(self, steps: Codes) -> Floats:
        """The cost of a number of steps of each part, `rows x parts`."""
        first = np.where(steps > 0, self.first_up, self.first_down)
        return np.where(steps == 0, 0.0, first + self.each * (np.abs(steps) - 1))

    def rank(self, price: Floats, moved: Codes) -> Floats:
        """Prices to be compared: what differs by rounding only is as good, and then few parts moved are better."""
        return np.asarray(np.round(price / self.each.max(), 9) + moved * 1e-10)

    @cached_property
    def fill(self) -> Fill:
        """The parts that cost least for what they bring, as far as they are needed."""
        rows, parts = self.up.shape
        once = np.minimum(self.up, 1)
        # The first step of a part and the others are adjacent, so that among equals few parts are moved.
        room = np.stack([once, self.up - once], axis=2).reshape(rows, 2 * parts)
        price = np.stack([self.first_up, np.broadcast_to(self.each, self.up.shape)], axis=2).reshape(rows, 2 * parts)
        gains = np.repeat(self.gains, 2)
        rate = price / gains
        order = np.argsort(rate, axis=1, kind="stable")
        gain, own = gains[order], np.take_along_axis(room, order, axis=1)
        reached = np.cumsum(gain * own, axis=1)
        missing = self.need[:, None] - (reached - gain * own)
        taken = np.zeros_like(room)
        np.put_along_axis(taken, order, np.clip(missing // gain, 0, own), axis=1)
        steps = taken.reshape(rows, parts, 2).sum(axis=2)
        is_last = reached >= self.need[:, None]
        last = np.take_along_axis(order, is_last.argmax(axis=1)[:, None], axis=1)[:, 0]
        unit_price = rate[np.arange(rows), last]
        rest = self.need - steps @ self.gains
        bound = self.cost(steps).sum(axis=1) + unit_price * rest
        return Fill(steps, rest, last // 2, unit_price, np.where(is_last[:, -1], bound, np.inf))


@dataclass(frozen=True, eq=False)
class Fill:
    """Whole steps taken, what is still needed, the part of which only a fraction is, its price for one unit of need.

    `bound`: what any steps cost at least, those with the fraction just that; infinite where need is out of reach.
    """

    steps: Codes
    rest: Codes
    last: Codes
    price: Floats
    bound: Floats


def cheapest(sack: Knapsack, *, exact: bool = True) -> tuple[Codes, Floats, Floats]:
    """Steps, `rows x parts`, their cost, and what any others cost at least: both infinite where there are none.

    The two agree where nothing is cheaper. Unless `exact`, only a few steps next to the fractions are tried.
    """
    fill = sack.fill
    steps, cost = _rounded(sack)
    bound = np.where(fill.bound >= cost * (1 - SAME), cost, fill.bound)
    # A good first answer prunes most of what would be tried otherwise.
    for reach in (NEAR, ANY):
        is_open = np.isinf(cost) if reach == NEAR or not exact else bound < cost
        rows = np.flatnonzero(is_open & np.isfinite(bound))
        if len(rows):
            _enumerate(sack, rows, reach, steps, cost, bound)
    return steps, cost, bound


def _rounded(sack: Knapsack) -> tuple[Codes, Floats]:
    """The fill and more steps of one part for its rest, or one too many of the last and fewer of another."""
    fill, gains, line = sack.fill, sack.gains, np.arange(len(sack.need))
    steps, now = fill.steps, sack.cost(fill.steps)
    more = -(-fill.rest[:, None] // gains)
    over = gains[fill.last] - fill.rest
    fewer = np.minimum(over[:, None] // gains, steps + sack.down)
    is_more = more <= sack.up - steps
    is_fewer = np.broadcast_to((fill.rest > 0)[:, None], steps.shape) & (gains != gains[fill.last][:, None])
    if sack.equal:
        is_more &= more * gains == fill.rest[:, None]
        is_fewer = is_fewer & (fewer * gains == over[:, None])
    last = np.where(fill.rest > 0, fill.last, 0)
    one_more = steps.copy()
    one_more[line, last] += 1
    extra = (sack.cost(one_more) - now).sum(axis=1)
    price = np.concatenate(
        [
            np.where(is_more, sack.cost(steps + more) - now, np.inf),
            np.where(is_fewer, sack.cost(steps - fewer) - now + extra[:, None], np.inf),
        ],
        axis=1,
    )
    moved, there = (steps != 0).sum(axis=1, keepdims=True), (one_more != 0).sum(axis=1, keepdims=True)
    moved = np.concatenate([moved + (steps == 0), there - (one_more == fewer) * (fewer > 0)], axis=1)
    best = sack.rank(price, moved).argmin(axis=1)
    part, add = best % len(gains), best < len(gains)
    found = np.where(add[:, None], steps, one_more)
    found[line, part] += np.where(add, more[line, part], -fewer[line, part])
    is_found = np.isfinite(price[line, best]) & np.isfinite(fill.bound)
    return found, np.where(is_found, sack.cost(found).sum(axis=1), np.inf)


def _enumerate(sack: Knapsack, rows: Codes, reach: int, steps: Codes, cost: Floats, bound: Floats) -> None:
    """Try all within reach that may be cheaper than what is known, unless it is too many, and change what is known."""
    low, high = _windows(sack, rows, cost[rows] - bound[rows])
    is_all = np.logical_and.reduce((low >= -reach) & (high <= reach), axis=1)
    low, high = np.maximum(low, -reach), np.minimum(high, reach)
    # One part makes up for what the others leave, so that it need not be tried: the finest of those with most to try.
    width = np.maximum(high - low + 1, 0)
    line, filler = np.arange(len(rows)), width.shape[1] - 1 - width[:, ::-1].argmax(axis=1)
    width[line, filler] = np.minimum(width[line, filler], 1)
    low[line, filler] = 0
    # As floats, since the product may be larger than any whole number.
    count = width.astype(np.float64).prod(axis=1)
    few = np.flatnonzero(count <= MOST)
    ends = np.cumsum(count[few].astype(np.int64))
    for block in np.split(few, np.flatnonzero(np.diff(ends // AT_A_TIME)) + 1):
        own = rows[block]
        if count[block].any():
            tried, least = _tried(sack.take(own), sack.fill.steps[own] + low[block], width[block], filler[block])
            better = least < cost[own] * (1 - SAME)
            steps[own[better]], cost[own[better]] = tried[better], least[better]
        bound[own] = np.where(is_all[block], cost[own], np.minimum(bound[own], cost[own]))


def _windows(sack: Knapsack, rows: Codes, gap: Floats) -> tuple[Codes, Codes]:
    """How many steps from the fill each part of a cheapest answer may be, at least and at most; `gap` is to be saved.

    Each step away from the fill costs something over its share in the bound, and that sum must stay below the gap. And
    of all cheapest answers take one with the fewest steps from the fill. No part of these steps, units brought in
    excess counted as steps, adds up to 0: it could be left out. In an order that keeps their sum between the largest
    gain and its opposite, that sum never returns, and so there are fewer than twice the largest gain.
    """
    own, fill, gains = sack.take(rows), sack.fill, sack.gains
    steps, rest, price = fill.steps[rows], fill.rest[rows], fill.price[rows]
    most = 2 * int(gains.max()) - 1
    margin = np.where(np.isfinite(gap), gap * (1 + SAME), np.inf)[:, None]
    up_price = np.where(steps > 0, own.each, own.first_up) - price[:, None] * gains
    refund = np.where(steps > 1, own.each, np.where(steps > 0, own.first_up, -own.first_down))
    down_price = price[:, None] * gains - refund
    high = np.minimum(np.minimum(own.up - steps, most), _times(margin, up_price))
    low = -np.minimum(np.minimum(steps + own.down, most), _times(margin, down_price))
    excess = np.zeros(len(rows), dtype=np.int64)
    if not sack.equal:
        excess = np.minimum(most, _times(margin, price[:, None])[:, 0])
    for _ in range(2):
        largest, least = gains * high, gains * low
        spare = rest[:, None] + excess[:, None] - (least.sum(axis=1, keepdims=True) - least)
        lack = rest[:, None] - (largest.sum(axis=1, keepdims=True) - largest)
        high, low = np.minimum(high, spare // gains), np.maximum(low, -(-lack // gains))
    return low, high


def _times(margin: Floats, price: Floats) -> Codes:
    """How often a margin pays a price; rounding must not make it one less."""
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(price > 0, margin / price * (1 + SAME), ANY)
    return np.minimum(times, ANY).astype(np.int64)


def _tried(sack: Knapsack, start: Codes, width: Codes, filler: Codes) -> tuple[Codes, Floats]:
    """The cheapest of all steps from `start`, `width` of each part; the filler takes what the others leave."""
    count = width.prod(axis=1)
    row = np.repeat(np.arange(len(count)), count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    steps = np.empty((len(row), len(sack.gains)), dtype=np.int64)
    for i in range(len(sack.gains)):
        steps[:, i] = start[row, i] + place % width[row, i]
        place = place // width[row, i]
    line, own = np.arange(len(row)), filler[row]
    steps[line, own] = 0
    gain, lacks = sack.gains[own], sack.need[row] - steps @ sack.gains
    filled = -(-lacks // gain)
    lowest = -sack.down[row, own]
    kept = filled <= sack.up[row, own]
    if sack.equal:
        kept &= (filled >= lowest) & (filled * gain == lacks)
    steps[line, own] = np.maximum(filled, lowest)
    price = np.where(kept, sack.take(row).cost(steps).sum(axis=1), np.inf)
    rank = sack.rank(price, (steps != 0).sum(axis=1))
    some = np.flatnonzero(count)
    starts = (np.cumsum(count) - count)[some]
    least, first = np.full(len(count), np.inf), np.zeros(len(count), dtype=np.int64)
    least[some] = np.minimum.reduceat(rank, starts)
    first[some] = np.minimum.reduceat(np.where(rank == least[row], line, len(row)), starts)
    return steps[first], np.where(np.isfinite(least), price[first], np.inf)
