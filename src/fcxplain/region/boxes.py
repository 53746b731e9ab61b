"""Nearest points of boxes, in closed form and vectorised over rows.

Given the present row, an atom on one counterfactual value allows an interval of a number's grid, or a set of
levels. A disjunct of such atoms is a box, and the nearest point of a box is found feature by feature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rules.check import ROUNDING, Bools, evaluate, sign_is, translation, truth
from ..rules.nodes import Affine, Atom, Compare, Member, Ref, Same
from ..schema import Feature, Natural, Schema

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


@dataclass(frozen=True)
class Nearest:
    """For each row the nearest allowed values, their cost, and whether there are any."""

    natural: dict[str, NDArray[Any]]
    cost: Floats
    found: Bools

    def improve(self, other: Nearest) -> Nearest:
        """The better of the two, row by row."""
        better = other.found & (other.cost < self.cost)
        natural = {n: np.where(better, other.natural[n], v) for n, v in self.natural.items()}
        return Nearest(natural, np.where(better, other.cost, self.cost), self.found | other.found)


class BoxSearch:
    """The boxes of some disjuncts for one batch of rows; wide atoms are left out of account."""

    def __init__(self, schema: Schema, units: Mapping[str, float], before: Natural, after: Natural) -> None:
        self.schema, self.units, self.before, self.after = schema, units, before, after
        self.rows = len(next(iter(after.values()))) if after else 0
        # An atom stands in many disjuncts, but what it allows in this batch is worked out once.
        self._intervals: dict[Atom, Interval] = {}
        self._masks: dict[Atom, Bools] = {}

    def nearest(self, atoms: Sequence[Atom], names: Sequence[str]) -> Nearest:
        """The nearest point of one disjunct's box, over the named features."""
        found = np.ones(self.rows, dtype=bool)
        of_feature: dict[str, list[Atom]] = {name: [] for name in names}
        for atom in atoms:
            features = atom.primed
            if not features:
                found &= truth(atom, self.before, self.after)
            elif not atom.is_wide:
                of_feature[features[0].name].append(atom)
        natural, cost = {}, np.zeros(self.rows)
        for name, own in of_feature.items():
            place = self._number if self.schema[name].is_number else self._category
            natural[name], part, possible = place(self.schema[name], own)
            cost, found = cost + part, found & possible
        return Nearest(natural, np.where(found, cost, np.inf), found)

    def interval(self, feature: Feature, atoms: Sequence[Atom]) -> Interval:
        """The codes of a number that all its atoms and its bounds allow."""
        lowest, highest = code_bounds(feature)
        low = np.full(self.rows, lowest, dtype=np.int64)
        high = np.full(self.rows, highest, dtype=np.int64)
        keeps = self.in_bounds(feature)
        for atom in atoms:
            limits = self._limits(feature, atom)
            low, high = np.maximum(low, limits.low), np.minimum(high, limits.high)
            keeps &= limits.keeps
        return Interval(low, high, keeps)

    def in_bounds(self, feature: Feature) -> Bools:
        """Whether a number's present value lies within its bounds, and so may stay, on the grid or off it."""
        present = self.before[feature.name]
        low = -np.inf if feature.low is None else feature.low
        high = np.inf if feature.high is None else feature.high
        return np.asarray((present >= low) & (present <= high))

    def levels(self, feature: Feature, atoms: Sequence[Atom]) -> Bools:
        """The levels of a category that all its atoms allow, `rows x levels`."""
        allowed = np.ones((self.rows, len(feature.levels)), dtype=bool)
        for atom in atoms:
            allowed &= self._mask(feature, atom)
        return allowed

    def _number(self, feature: Feature, atoms: Sequence[Atom]) -> tuple[NDArray[Any], Floats, Bools]:
        limits = self.interval(feature, atoms)
        wanted, unit = self.after[feature.name], self.units[feature.name]
        possible = limits.low <= limits.high
        nearest = np.clip(feature.codes(wanted), limits.low, np.maximum(limits.low, limits.high))
        values = feature.at(nearest)
        cost = np.where(possible, np.abs(values - wanted) / unit, np.inf)
        # A present value off the grid is legal as it is: nobody has to change it to be left alone.
        present = self.before[feature.name]
        if not feature.on_grid(present).all():
            stay = np.where(limits.keeps, np.abs(present - wanted) / unit, np.inf)
            values, possible = np.where(stay <= cost, present, values), possible | limits.keeps
            cost = np.minimum(stay, cost)
        return values, np.where(possible, cost, 0.0), possible

    def _category(self, feature: Feature, atoms: Sequence[Atom]) -> tuple[NDArray[Any], Floats, Bools]:
        wanted = self.after[feature.name]
        if not atoms:
            return wanted, np.zeros(self.rows), np.ones(self.rows, dtype=bool)
        allowed = self.levels(feature, atoms)
        moves = ~allowed[np.arange(self.rows), wanted]
        distance = np.where(allowed[moves], level_distances(feature)[wanted[moves]], np.inf)
        chosen = wanted.copy()
        chosen[moves] = distance.argmin(axis=1)
        possible = ~moves
        possible[moves] = np.isfinite(distance).any(axis=1)
        return chosen, moves.astype(np.float64), possible

    def _limits(self, feature: Feature, atom: Atom) -> Interval:
        if atom not in self._intervals:
            assert isinstance(atom, Compare)
            self._intervals[atom] = self._interval_of(feature, atom)
        return self._intervals[atom]

    def _mask(self, feature: Feature, atom: Atom) -> Bools:
        if atom not in self._masks:
            self._masks[atom] = self._mask_of(feature, atom)
        return self._masks[atom]

    def _interval_of(self, feature: Feature, atom: Compare) -> Interval:
        """The codes at which `weight * value + rest op 0`.

        The boundary is rounded to the nearest code, and the comparison itself says on which side that lies.
        """
        weight, rest, size = self._split(atom, Ref(feature, primed=True))
        start, second = feature.at(np.asarray([0, 1])).tolist()
        with np.errstate(over="ignore", invalid="ignore"):
            boundary = np.rint((-rest / weight - start) / (second - start))
        lowest, highest = code_bounds(feature)
        # Unlike a clip, these two leave nothing that is no number.
        code = np.fmin(np.fmax(boundary, lowest - 1), highest + 1).astype(np.int64)

        def test(values: Floats) -> Bools:
            part = weight * values
            return sign_is(part + rest, atom.op, ROUNDING * (np.abs(part) + size))

        missed = ~test(feature.at(code))
        upper = (atom.op in ("<", "<=")) == (weight > 0)
        low = code + missed if atom.op == "==" or not upper else np.asarray(-FAR)
        high = code - missed if atom.op == "==" or upper else np.asarray(FAR)
        return Interval(low, high, test(self.before[feature.name]))

    def _mask_of(self, feature: Feature, atom: Atom) -> Bools:
        own = Ref(feature, primed=True)
        if isinstance(atom, Member):
            mask = np.zeros((1, len(feature.levels)), dtype=bool)
            mask[0, list(map(int, atom.values))] = True
            return mask
        if isinstance(atom, Same):
            other = atom.right if atom.left == own else atom.left
            codes = translation(other.feature, feature)[self.before[other.name]]
            return np.asarray((np.arange(len(feature.levels)) == codes[:, None]) ^ atom.negated)
        weight, rest, size = self._split(atom, own)
        part = weight * feature.rank_of_level
        rest, size = np.atleast_1d(rest)[:, None], np.atleast_1d(size)[:, None]
        return sign_is(part + rest, atom.op, ROUNDING * (np.abs(part) + size))

    def _split(self, atom: Compare, own: Ref) -> tuple[float, Floats, Floats]:
        """The weight of the value itself, and the value and size of all the rest."""
        weight = sum(w for w, a in atom.left.terms if a == own)
        others = Affine(tuple(term for term in atom.left.terms if term[1] != own), atom.left.constant)
        return weight, *evaluate(others, self.before, self.after)


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
