"""Nearest points of one sum in a box, vectorised over rows: `rent' + food' <= 900`, `abs(a' - a) + abs(b' - b) <= 10`.

Every number moves in steps of its grid, so that all values of a sum lie a whole number of units apart. At the nearest
point of the box a sum lacks some number of units, and finding the steps that make up for them is a knapsack problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rules.check import ROUNDING, Bools, evaluate
from ..rules.nodes import Abs, Affine, Atom, Compare, Ref
from ..schema import Feature, Natural
from .boxes import Codes, Floats, Interval, Nearest
from .knapsack import Knapsack, cheapest
from .program import divisor_of, fraction_of, grid_of

# A part of a step that is smaller than this is rounding.
SLIGHT = 1e-9
# Gains, needs and sums of them, in units, up to which whole numbers are exact.
MOST_GAIN, MOST_NEED, MOST_SUM = 1 << 31, 1 << 45, 1 << 61
# Up to this many present values off the grid, every combination is tried.
MOST_KEPT = 4


@dataclass(frozen=True)
class SumPart:
    """A counterfactual number in a sum: `slope * value` or `slope * abs(value - anchor)`."""

    feature: Feature
    slope: float
    anchor: Affine | None


@dataclass(frozen=True, eq=False)
class Sum:
    """A sum that must not be above 0, or below it, too: then `equal`. `strict`: nor may it be 0."""

    left: Affine
    parts: tuple[SumPart, ...]
    gains: Codes
    """What one step of each part moves the sum, in units."""
    unit: float
    is_exact: bool
    """Whether these are whole numbers, and not rounded down."""
    strict: bool
    equal: bool


@dataclass(frozen=True, eq=False)
class BoxRows:
    """Some rows and their box: present and wanted values by name, and the interval of each number."""

    before: Natural
    after: Natural
    units: Mapping[str, float]
    intervals: Mapping[str, Interval]

    def at(self, natural: Natural, fixed: Iterable[Feature] = ()) -> BoxRows:
        """The same rows with other requested values, some of which are fixed."""
        intervals = dict(self.intervals)
        for feature in (f for f in fixed if f.is_number):
            value = natural[feature.name]
            code, on_grid = feature.codes(value), feature.on_grid(value)
            intervals[feature.name] = Interval(code, np.where(on_grid, code, code - 1), ~on_grid)
        return replace(self, after={**self.after, **natural}, intervals=intervals)

    def take(self, rows: NDArray[Any]) -> BoxRows:
        """Some of them."""
        before, after = ({n: v[rows] for n, v in side.items()} for side in (self.before, self.after))
        return BoxRows(before, after, self.units, {n: i.take(rows) for n, i in self.intervals.items()})


def slide(box: BoxRows, atom: Atom, start: Nearest, exact: bool = True) -> tuple[Nearest, Floats]:
    """Near points of a box that keep one wide atom, and what any such point costs at least.

    `start` is the nearest point of the box without that atom, and breaks it in every row. Where a point costs no more
    than the bound, nothing is nearer. Unless `exact`, it may cost a little more, and is found sooner.
    """
    total, rows = sum_of(atom), len(start.cost)
    best = Nearest.none(start.natural, rows)
    if total is None:
        return best, start.cost.copy()
    features = {part.feature.name: part.feature for part in total.parts}
    # Where a number's present value is off the grid, and may stay.
    stays = {n: box.intervals[n].keeps & ~f.on_grid(box.before[n]) for n, f in features.items()}
    stays = {name: own for name, own in stays.items() if own.any()}
    if not stays:
        return _on_grid(box, total, start, (), exact)
    bound = np.full(rows, np.inf)
    sizes = range(len(stays) + 1) if len(stays) <= MOST_KEPT else (0, 1, len(stays))
    for kept in (own for size in sizes for own in combinations(stays, size)):
        which = np.logical_and.reduce([stays[n] for n in kept], axis=0, initial=True) & start.found
        point, least = _on_grid(box.take(which), total, start.take(which), kept, exact)
        bound[which] = np.minimum(bound[which], least)
        best = best.put(which, point)
    return best, bound if len(stays) <= MOST_KEPT else np.minimum(bound, start.cost)


def _on_grid(box: BoxRows, total: Sum, start: Nearest, kept: tuple[str, ...], exact: bool) -> tuple[Nearest, Floats]:
    """See `slide`; some features keep their present values off the grid, and all others are on it."""
    rows = len(start.cost)
    parts = [_Part(box, part, part.feature.name in kept) for part in total.parts]
    now = {own.name: own.now for own in parts}
    value, size = (np.broadcast_to(v, rows) for v in evaluate(total.left, box.before, {**box.after, **now}))
    # An equality is looked at from the side on which the sum lies.
    side = np.where(value < 0, -1.0, 1.0) if total.equal else np.ones(rows)
    need, is_sure = _need(total, value * side, size + np.abs(value))
    moves = zip(*(own.steps(side, box) for own in parts), strict=True)
    sign: Codes
    sign, up, down, first_up, first_down, are_sure = (np.stack(column, axis=1) for column in moves)
    is_sure &= are_sure.all(axis=1)
    possible = np.logical_and.reduce([own.possible for own in parts])
    solvable = possible & (need >= 0)
    whole = np.where(solvable & (need <= MOST_NEED), need, 0.0).astype(np.int64)
    sack, is_small = _knapsack(total, whole, np.array([own.each for own in parts]), up, down, first_up, first_down)
    steps, cost, bound = cheapest(sack, exact=exact)
    natural, base = dict(start.natural), start.cost
    for i, own in enumerate(parts):
        moved = own.part.feature.at(own.code + sign[:, i] * steps[:, i])
        natural[own.name] = np.where(steps[:, i] == 0, own.now, moved)
        base = base + (np.abs(own.now - own.wanted) - np.abs(start.natural[own.name] - own.wanted)) * own.rate
    found = solvable & is_small & (need <= MOST_NEED) & np.isfinite(cost)
    bound = np.where(solvable, base + bound, np.inf)
    # Where numbers are too large or too fine to be sure, the box alone bounds the cost.
    bound = np.where((is_sure & is_small) | ~possible, bound, start.cost)
    return Nearest(natural, np.where(found, base + cost, np.inf), found), bound


def _knapsack(
    total: Sum, need: Codes, each: Floats, up: Codes, down: Codes, first_up: Floats, first_down: Floats
) -> tuple[Knapsack, Bools]:
    """What steps bring and cost, and where these sums are small enough for whole numbers."""
    # More steps than these are never needed.
    most = 2 * int(total.gains.max())
    up, down = np.minimum(up, need[:, None] // total.gains + most), np.minimum(down, most if total.equal else 0)
    is_small = np.maximum(up, down).astype(np.float64) @ total.gains < MOST_SUM
    up, down = np.where(is_small[:, None], up, 0), np.where(is_small[:, None], down, 0)
    return Knapsack(need, total.gains, each, first_up, first_down, up, down, total.equal), is_small


def _need(total: Sum, value: Floats, size: Floats) -> tuple[Floats, Bools]:
    """How many units a sum must go down, or -1 where no whole number of them will do; and where that is sure."""
    units = value / total.unit
    whole = np.rint(units)
    # Sums are compared up to rounding, so what lies that near to a boundary is taken for it.
    rounding = 8 * ROUNDING * size / total.unit
    on = np.abs(units - whole) <= rounding
    is_sure = (rounding < 0.1) & (np.abs(units) <= MOST_NEED) & total.is_exact
    if total.equal:
        return np.where(on, whole, -1.0), is_sure
    return np.maximum(np.where(on, whole + total.strict, np.ceil(units)), 0.0), is_sure


class _Part:
    """A number of a sum, where it is to start from."""

    def __init__(self, box: BoxRows, part: SumPart, is_kept: bool) -> None:
        feature, self.name, self.step = part.feature, part.feature.name, float(part.feature.step or 1)
        limits, self.wanted = box.intervals[self.name], box.after[self.name]
        self.part, self.is_kept = part, is_kept
        self.code: Codes = np.clip(feature.codes(self.wanted), limits.low, np.maximum(limits.low, limits.high))
        self.now = box.before[self.name] if is_kept else feature.at(self.code)
        self.possible = limits.keeps if is_kept else limits.low <= limits.high
        # The cost of one of its units, and of a step.
        self.rate = 1.0 / box.units[self.name]
        self.each = self.step * self.rate

    def steps(self, side: Floats, box: BoxRows) -> tuple[Codes, Codes, Codes, Floats, Floats, Bools]:
        """How it makes a sum on that side of 0 smaller: the sign of such steps, how many there are, and how many back.

        The cost of the first of each follows, and where all that is sure.
        """
        limits, rows = box.intervals[self.name], len(self.now)
        sign, is_sure = -np.sign(self.part.slope) * side, np.ones(rows, dtype=bool)
        if self.part.anchor is not None:
            far = (evaluate(self.part.anchor, box.before, box.after)[0] - self.now) / self.step
            sign = np.where(far < 0, -1.0, 1.0)
        up = np.where(sign > 0, limits.high - self.code, self.code - limits.low)
        down = np.where(sign > 0, self.code - limits.low, limits.high - self.code)
        if self.part.anchor is not None:
            most = np.floor(np.abs(far) + SLIGHT)
            # Past an anchor off the grid there may be a step that brings less than the others.
            is_sure = (np.abs(far) - most <= 0.5 + SLIGHT) | (up <= most)
            up = np.minimum(up, most)
        if self.is_kept:
            up = down = np.zeros(rows, dtype=np.int64)
        # Where the wanted value lies off the grid, the first step away from the nearest on it costs less.
        beside = (self.wanted - self.now) * sign / self.step
        beside = np.where(np.abs(beside) < SLIGHT, 0.0, beside)
        first_up, first_down = (self.each * (1 - 2 * np.clip(way * beside, 0.0, 0.5)) for way in (1, -1))
        up, down = np.maximum(up, 0).astype(np.int64), np.maximum(down, 0)
        return sign.astype(np.int64), up, down, first_up, first_down, is_sure


def at_most(atom: Compare) -> list[Affine]:
    """The comparison as expressions that must not be above 0; a strict one is taken as not strict."""
    if atom.op in ("<", "<="):
        return [atom.left]
    return [atom.left * -1.0] if atom.op in (">", ">=") else [atom.left, atom.left * -1.0]


def parted(affine: Affine, before: Natural) -> tuple[list[tuple[float, Ref]], Floats, Floats]:
    """A sum without `abs` of counterfactual values: its counterfactual terms, and value and size of all the rest."""
    terms = [(weight, ref) for weight, ref in affine.terms if isinstance(ref, Ref) and ref.primed]
    present = Affine(tuple(t for t in affine.terms if t not in terms), affine.constant)
    return terms, *evaluate(present, before, before)


@lru_cache(maxsize=4096)
def sum_of(atom: Atom) -> Sum | None:
    """An atom as a sum of steps, if each number stands in it once, alone or alone in an `abs`."""
    if not isinstance(atom, Compare) or atom.op == "!=":
        return None
    left = atom.left * -1.0 if atom.op in (">", ">=") else atom.left
    equal, strict = atom.op == "==", atom.op in ("<", ">")
    parts = [_part(weight, own) for weight, own in left.terms if own.primed]
    found = tuple(part for part in parts if part is not None)
    if len({part.feature.name for part in found}) < len(parts) or (equal and any(p.anchor for p in found)):
        return None
    # What brings most for a step comes first, so that among equals the finest is left for the rest.
    found = tuple(sorted(found, key=lambda p: -abs(p.slope) * float(p.feature.step or 1)))
    exact = [abs(fraction_of(p.slope) * grid_of(p.feature)[1]) for p in found]
    unit = divisor_of(exact)
    is_exact = max(exact) <= MOST_GAIN * unit
    if not is_exact:
        unit = max(exact) / MOST_GAIN
    gains = np.array([max(int(own / unit), 1) for own in exact], dtype=np.int64)
    return Sum(left, found, gains, float(unit), is_exact, strict, equal)


def _part(weight: float, atom: Ref | Abs) -> SumPart | None:
    if isinstance(atom, Ref):
        return SumPart(atom.feature, weight, None) if atom.feature.is_number else None
    factor, own = next((w, own) for w, own in atom.inside.terms if own.primed)
    alone = sum(own.primed for _, own in atom.inside.terms) == 1
    if weight < 0 or not alone or not isinstance(own, Ref) or not own.feature.is_number:
        return None
    rest = Affine(tuple(t for t in atom.inside.terms if t[1] != own), atom.inside.constant)
    return SumPart(own.feature, weight * abs(factor), rest * (-1.0 / factor))
