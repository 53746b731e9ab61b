"""Boxes that rules leave to a batch of rows, and their nearest points, in closed form and vectorised over rows.

Given the present row, an atom on one counterfactual value allows an interval of a number's grid, or a set of
levels. A disjunct of such atoms is a box, and the nearest point of a box is found feature by feature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from ..rules.check import ROUNDING, Bools, evaluate, sign_is, translated, truth
from ..rules.nodes import Affine, Atom, Compare, Member, Ref, Same
from ..rules.normal import Disjunct
from ..schema import Feature, Natural, Schema

Find = TypeVar("Find", bound=Callable[..., Any])
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
# Stands for a grid without end; far enough, and its values are still exact.
FAR = 2**40


@dataclass(frozen=True)
class Interval:
    """The allowed codes of a number, row by row, and whether the present value itself is allowed."""

    low: Codes
    high: Codes
    keeps: Bools

    def take(self, rows: NDArray[Any]) -> Interval:
        """Those of some rows."""
        return Interval(self.low[rows], self.high[rows], self.keeps[rows])


@dataclass(frozen=True, eq=False)
class Box:
    """One way of keeping some rules, row by row, computed on demand.

    Wide atoms are ignored: nothing legal lies outside the box, but not everything inside is legal.
    """

    way: Disjunct
    batch: BatchBoxes

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """The codes of each number."""
        features = (self.batch.schema[name] for name in self.way.names)
        return {f.name: self.batch.interval(f, self.way.alone[f.name]) for f in features if f.is_number}

    @cached_property
    def levels(self) -> dict[str, Bools]:
        """The levels of each category, `rows x levels`."""
        features = (self.batch.schema[name] for name in self.way.names)
        return {f.name: self.batch.levels(f, self.way.alone[f.name]) for f in features if f.is_category}

    @cached_property
    def stays(self) -> dict[str, Bools]:
        """Whether the present value of each category may stay although it is not a level."""
        return {name: self.batch.stays(self.batch.schema[name], self.way.alone[name]) for name in self.levels}

    @cached_property
    def given(self) -> Bools:
        """Whether the present row meets the conditions on it."""
        found = np.ones(self.batch.rows, dtype=bool)
        for atom in self.way.present:
            found &= truth(atom, self.batch.before, self.batch.before)
        return found

    @cached_property
    def open(self) -> Bools:
        """Whether the box holds anything for the row."""
        found = self.given.copy()
        if found.any():
            for interval in self.intervals.values():
                found &= (interval.low <= interval.high) | interval.keeps
            for name, allowed in self.levels.items():
                found &= allowed.any(axis=1) | self.stays[name]
        return found


def _once(find: Find) -> Find:
    """Make a method of `BatchBoxes` remember what it finds about a feature and some atoms."""

    @wraps(find)
    def found(self: BatchBoxes, feature: Feature, *atoms: Any) -> Any:
        key = (find.__name__, feature.name, *atoms)
        if key not in self.known:
            self.known[key] = find(self, feature, *atoms)
        return self.known[key]

    return cast(Find, found)


class BatchBoxes:
    """The boxes of a batch of rows. Many have atoms in common: what each allows the rows is computed once."""

    def __init__(self, schema: Schema, before: Natural) -> None:
        self.schema, self.before = schema, before
        self.rows = len(next(iter(before.values()))) if before else 0
        self.known: dict[tuple[Any, ...], Any] = {}
        # A box refers to its batch; a circle would keep the arrays of both in memory.
        self._boxes: WeakValueDictionary[Disjunct, Box] = WeakValueDictionary()

    def of(self, way: Disjunct) -> Box:
        """The box of a way of keeping rules, made once."""
        return self._boxes.setdefault(way, Box(way, self))

    @_once
    def may_stay(self, feature: Feature) -> Bools:
        """Whether the present value may stay, legal or not."""
        return feature.may_stay(self.before[feature.name])

    @_once
    def _is_fixed(self, feature: Feature) -> Bools:
        return ~feature.may_give_way(self.before[feature.name])

    @_once
    def stays(self, feature: Feature, atoms: tuple[Atom, ...]) -> Bools:
        """Whether the present value of a category, which is not a level, may stay under all its atoms."""
        found = (self.before[feature.name] < 0) & self.may_stay(feature)
        for atom in atoms if found.any() else ():
            found &= truth(atom, self.before, self.before)
        return found

    @_once
    def interval(self, feature: Feature, atoms: tuple[Atom, ...]) -> Interval:
        """The codes of a number that all its atoms and its bounds allow."""
        lowest, highest = code_bounds(feature)
        low = np.full(self.rows, lowest, dtype=np.int64)
        high = np.full(self.rows, highest, dtype=np.int64)
        keeps = self.may_stay(feature)
        for atom in atoms:
            assert isinstance(atom, Compare)
            limits = self._interval_of(feature, atom)
            low, high = np.maximum(low, limits.low), np.minimum(high, limits.high)
            keeps = keeps & limits.keeps
        fixed = self._is_fixed(feature)
        if fixed.any():
            low, high = np.where(fixed, FAR, low), np.where(fixed, -FAR, high)
        return Interval(low, high, keeps)

    @_once
    def levels(self, feature: Feature, atoms: tuple[Atom, ...]) -> Bools:
        """The levels of a category that all its atoms allow, `rows x levels`."""
        allowed = np.ones((self.rows, len(feature.levels)), dtype=bool)
        for atom in atoms:
            allowed &= self._mask_of(feature, atom)
        allowed[self._is_fixed(feature)] = False
        return allowed

    @_once
    def _interval_of(self, feature: Feature, atom: Compare) -> Interval:
        """The codes at which `weight * value + rest op 0`.

        The boundary is rounded to the nearest code, and the comparison itself says on which side that lies.
        """
        weight, rest, size = self._split(atom, Ref(feature, primed=True))
        start, second = feature.at(np.asarray([0, 1])).tolist()
        with np.errstate(over="ignore", invalid="ignore"):
            boundary = np.rint((-rest / weight - start) / (second - start))
        lowest, highest = code_bounds(feature)
        # Unlike a clip, these two leave no NaN.
        code = np.fmin(np.fmax(boundary, lowest - 1), highest + 1).astype(np.int64)

        def test(values: Floats) -> Bools:
            part = weight * values
            return sign_is(part + rest, atom.op, ROUNDING * (np.abs(part) + size))

        missed = ~test(feature.at(code))
        upper = (atom.op in ("<", "<=")) == (weight > 0)
        low = code + missed if atom.op == "==" or not upper else np.asarray(-FAR)
        high = code - missed if atom.op == "==" or upper else np.asarray(FAR)
        keeps, unknown = test(self.before[feature.name]), np.isnan(rest)
        if unknown.any():
            # With a missing value everything is undecided, except that a value that stays is the same.
            low, high = np.where(unknown, FAR, low), np.where(unknown, -FAR, high)
            keeps = keeps | truth(atom, self.before, self.before)
        return Interval(low, high, keeps)

    @_once
    def _mask_of(self, feature: Feature, atom: Atom) -> Bools:
        own = Ref(feature, primed=True)
        if isinstance(atom, Member):
            mask = np.zeros((1, len(feature.levels)), dtype=bool)
            mask[0, list(map(int, atom.values))] = True
            return mask
        if isinstance(atom, Same):
            other = atom.right if atom.left == own else atom.left
            present = self.before[other.name]
            codes, known = translated(other.feature, feature, present), ~other.feature.is_missing(present)
            return np.asarray((np.arange(len(feature.levels)) == codes[:, None]) ^ atom.negated) & known[:, None]
        weight, rest, size = self._split(atom, own)
        part = weight * feature.rank_of_level
        rest, size = np.atleast_1d(rest)[:, None], np.atleast_1d(size)[:, None]
        return sign_is(part + rest, atom.op, ROUNDING * (np.abs(part) + size))

    def _split(self, atom: Compare, own: Ref) -> tuple[float, Floats, Floats]:
        """The weight of the value itself, and the value and size of all the rest."""
        weight = sum(w for w, a in atom.left.terms if a == own)
        others = Affine(tuple(term for term in atom.left.terms if term[1] != own), atom.left.constant)
        return weight, *evaluate(others, self.before, self.before)


@dataclass(frozen=True)
class Nearest:
    """For each row the nearest allowed values, their cost, and whether there are any."""

    natural: dict[str, NDArray[Any]]
    cost: Floats
    found: Bools

    @classmethod
    def none(cls, natural: Natural, rows: int) -> Nearest:
        """Nothing found yet."""
        return cls(dict(natural), np.full(rows, np.inf), np.zeros(rows, dtype=bool))

    def take(self, rows: NDArray[Any]) -> Nearest:
        """Those of some rows."""
        return Nearest({n: v[rows] for n, v in self.natural.items()}, self.cost[rows], self.found[rows])

    def put(self, rows: NDArray[Any], other: Nearest) -> Nearest:
        """The better of the two, where the others are those of some rows."""
        found = Nearest({n: v.copy() for n, v in self.natural.items()}, self.cost.copy(), self.found.copy())
        better = other.found & (other.cost < self.cost[rows])
        where = np.arange(len(self.cost))[rows][better]
        found.cost[where], found.found[where] = other.cost[better], True
        for name, values in found.natural.items():
            values[where] = other.natural[name][better]
        return found

    def improve(self, other: Nearest) -> Nearest:
        """The better of the two, row by row."""
        better = other.found & (other.cost < self.cost)
        natural = {n: np.where(better, other.natural[n], v) for n, v in self.natural.items()}
        return Nearest(natural, np.where(better, other.cost, self.cost), self.found | other.found)


class BoxSearch:
    """Search boxes for the points nearest to requested rows."""

    def __init__(self, boxes: BatchBoxes, after: Natural, units: Mapping[str, float]) -> None:
        self.boxes, self.after, self.units = boxes, after, units
        self.before, self.rows = boxes.before, boxes.rows

    def nearest(self, box: Box) -> Nearest:
        """The nearest point of a box."""
        found, natural, cost = box.given, {}, np.zeros(self.rows)
        for name in box.way.names:
            feature = self.boxes.schema[name]
            natural[name], part, possible = (self._number if feature.is_number else self._category)(feature, box)
            cost, found = cost + part, found & possible
        return Nearest(natural, np.where(found, cost, np.inf), found)

    def _number(self, feature: Feature, box: Box) -> tuple[NDArray[Any], Floats, Bools]:
        limits = box.intervals[feature.name]
        wanted, unit = self.after[feature.name], self.units[feature.name]
        possible = limits.low <= limits.high
        nearest = np.clip(feature.codes(wanted), limits.low, np.maximum(limits.low, limits.high))
        values = feature.at(nearest)
        cost = np.where(possible, number_distance(values, wanted, unit), np.inf)
        # A present value off the grid is legal as it is, and need not change.
        present = self.before[feature.name]
        if not feature.on_grid(present).all():
            stay = np.where(limits.keeps, number_distance(present, wanted, unit), np.inf)
            values, possible = np.where(stay <= cost, present, values), possible | limits.keeps
            cost = np.minimum(stay, cost)
        return values, np.where(possible, cost, 0.0), possible

    def _category(self, feature: Feature, box: Box) -> tuple[NDArray[Any], Floats, Bools]:
        wanted = self.after[feature.name]
        if not box.way.alone[feature.name]:
            return wanted, np.zeros(self.rows), np.ones(self.rows, dtype=bool)
        allowed, stays = box.levels[feature.name], box.stays[feature.name]
        own = stays & (wanted == self.before[feature.name])
        moves = ~np.where(wanted < 0, own, allowed[np.arange(self.rows), np.maximum(wanted, 0)])
        distance = np.where(allowed[moves], level_distances(feature)[np.maximum(wanted[moves], 0)], np.inf)
        chosen, some = wanted.copy(), np.isfinite(distance).any(axis=1)
        chosen[moves] = np.where(some, distance.argmin(axis=1), self.before[feature.name][moves])
        possible = ~moves
        possible[moves] = some | stays[moves]
        return chosen, moves.astype(np.float64), possible


def code_bounds(feature: Feature) -> tuple[int, int]:
    """The lowest and highest code of a number; far away where it has no bound."""
    return (-FAR if feature.low is None else 0), (FAR if feature.top is None else feature.top)


def level_distances(feature: Feature) -> Floats:
    """How far levels are apart, `levels x levels`, for choosing among allowed ones: by rank, then by their order."""
    order = np.arange(len(feature.levels)) / (len(feature.levels) + 1)
    if feature.kind == "categorical":
        return np.broadcast_to(order, (len(order), len(order)))
    ranks = feature.rank_of_level
    return np.abs(ranks[:, None] - ranks) + order


def number_distance(a: Floats, b: Floats, unit: float) -> Floats:
    """How far numbers are apart; two missing ones are 0 apart, a missing one and any other one unit."""
    apart = np.abs(a - b) / unit
    if not np.isnan(apart).any():
        return np.asarray(apart)
    return np.where(np.isnan(apart), (np.isnan(a) != np.isnan(b)).astype(np.float64), apart)
