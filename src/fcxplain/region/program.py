"""Rules as an integer program, for whatever is wider than a box (scipy's HiGHS).

A number is an integer variable on its grid, a category a choice among its levels. Alternatives become
indicator variables, an `abs` a variable of its own. Every linear row is scaled to its lattice: as the values are
multiples of a common divisor, `> 0` and `>= 0` are distinguished by half a step, far above the solver's tolerance.
The solver is never trusted alone: values count only if the exact reading agrees. Where a row has no lattice, the claim
that there are none counts only if there are none with some slack either.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..rules.check import ROUNDING, measure, truth
from ..rules.nodes import Abs, Affine, And, Compare, Formula, Member, Op, Or, Ref, Same, refs_of
from ..schema import Feature
from .boxes import code_bounds

# The solver is loaded when a program is first solved: most rules are read, worded and checked without one.
if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint

# Grids without end are searched this many steps from the origin, so that indicators have a finite reach.
REACH = 10**6
# Below this share of the largest weight a common divisor is rounding noise, not a lattice.
FINEST = 1e-6
# What a row without a lattice is narrowed or widened by, in shares of its largest weight: above the solver's tolerance.
NUDGE = 1e-6
# A weight that differs from a fraction with no larger denominator by rounding alone is taken for it.
DENOMINATOR = 10_000
# Past this many alternatives one program with indicators is quicker than a program for each.
FEW = 32
SECONDS = 10.0
# What the solver says where it broke down.
FAILED = 4

Known = Mapping[Ref, float]
"""Natural values that are given: a number, or a level's code."""
# Which sides of a sum a comparison bounds: 1 from above, -1 from below.
_SIDES: dict[Op, tuple[int, ...]] = {"<": (1,), "<=": (1,), "==": (1, -1), ">=": (-1,), ">": (-1,)}
_BOTH = (1, -1)


@dataclass(frozen=True)
class Solution:
    """What the solver found: values by name, that there are none, or that it is undecided."""

    status: str  # "found", "none" or "undecided"
    values: dict[Ref, float] = field(default_factory=dict)
    cost: float = math.inf


NONE = Solution("none")
UNDECIDED = Solution("undecided")


@dataclass(frozen=True)
class LinearRow:
    """`low <= weights . x <= high`; `give` says by how much the bounds are a matter of rounding."""

    weights: dict[int, float]
    low: float
    high: float
    give: float = 0.0


@dataclass(frozen=True)
class LinearSum:
    """A sum over variables, exactly; `size` is that of what the constant was added up from (for rounding)."""

    weights: dict[int, Fraction]
    constant: Fraction
    size: float


class Program:
    """An integer program that grows by `keep`, `require` and `prefer`, and is then solved once."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._low: list[float] = []
        self._high: list[float] = []
        self._whole: list[int] = []
        self._cost: list[float] = []
        # A variable takes multiples of its grain only, once the integers among them are whole.
        self._grain: list[Fraction] = []
        self._numbers: dict[Ref, int] = {}
        self._kept: dict[Ref, tuple[int, float, Fraction]] = {}
        self._choices: dict[Ref, list[int]] = {}
        self._folds: dict[Abs, tuple[int, set[int]]] = {}
        self._preferred: list[tuple[Ref, float, float]] = []
        self._rows: list[LinearRow] = []

    def keep(self, ref: Ref, value: float) -> None:
        """Also allow a number one value off the grid; call this before anything mentions the number."""
        code = int(ref.feature.codes(np.asarray([value]))[0])
        number, (start, step) = self._number(ref), grid_of(ref.feature)
        beside = Fraction(repr(value)) - start - code * step
        if abs(beside) <= 2 * ROUNDING * abs(value):
            return
        low = self._low[number] = min(self._low[number], code)
        high = self._high[number] = max(self._high[number], code)
        kept = self._variable(0, 1)
        self._kept[ref] = kept, value, beside
        # The value is attached to the nearest code, which the number must have then.
        self._rows.append(LinearRow({number: 1.0, kept: high - code}, -math.inf, high))
        self._rows.append(LinearRow({number: 1.0, kept: low - code}, low, math.inf))

    def require(self, formula: Formula, indicator: int | None = None) -> None:
        """Ask that a normal form holds (where the indicator is 1, if there is one)."""
        match formula:
            case And(items=items):
                for item in items:
                    self.require(item, indicator)
            case Or(items=items):
                chosen = [self._variable(0, 1) for _ in items]
                for item, own in zip(items, chosen, strict=True):
                    self.require(item, own)
                row = dict.fromkeys(chosen, 1.0) | ({indicator: -1.0} if indicator is not None else {})
                self._rows.append(LinearRow(row, 1.0 if indicator is None else 0.0, math.inf))
            case Compare(left=left, op=op):
                linear = self._linear(left, _SIDES[op])
                unit, is_lattice = self._unit(linear.weights)
                low, high, give = _limits(op, linear, unit, is_lattice)
                self._row({v: float(w / unit) for v, w in linear.weights.items()}, low, high, indicator, give)
            case Member(ref=ref, values=values):
                self._membership(ref, values, indicator)
            case Same():
                self._same(formula, indicator)
            case _:
                raise TypeError(f"not a normal form: {formula!r}")

    def prefer(self, ref: Ref, value: float, unit: float) -> None:
        """Charge for the distance of a variable from a natural value: by unit, or 1 for another level."""
        feature = ref.feature
        self._preferred.append((ref, value, unit))
        if feature.is_category:
            for code, variable in enumerate(self._choice(ref)):
                self._cost[variable] = 0.0 if code == int(value) else 1.0
            return
        start, step = grid_of(feature)
        distance = self._variable(0, math.inf, whole=False, cost=float(step) / unit)
        offset = (value - float(start)) / float(step)
        place = {v: float(w / step) for v, w in self._value(ref).items()}
        self._rows.append(LinearRow({distance: 1.0} | {v: -w for v, w in place.items()}, -offset, math.inf))
        self._rows.append(LinearRow({distance: 1.0} | place, offset, math.inf))

    def solve(self, exact: Formula, seconds: float = SECONDS) -> Solution:
        """The cheapest values that keep what is required, and `exact`, of which that is a normal form, once rounded."""
        for ref in frozenset(refs_of(exact)) - self.known.keys():
            _ = self._number(ref) if ref.feature.is_number else self._choice(ref)
        if not self._cost:
            return Solution("found", {}, 0.0) if self._keeps(exact, {}) else NONE
        end = time.monotonic() + seconds
        first = self._attempt(exact, seconds, 0)
        if first.status == "found" or not any(row.give for row in self._rows):
            return first
        # Rows without a lattice: values just outside a bound are looked for inside, and none must be none with room.
        other = self._attempt(exact, end - time.monotonic(), 1 if first.status == "none" else -1)
        certain = other.status == "found" or (first.status, other.status) == ("none", "none")
        return other if certain else UNDECIDED

    def _attempt(self, exact: Formula, seconds: float, room: int) -> Solution:
        """What the solver says, where bounds that are a matter of rounding are wider (1), as they are, or narrower."""
        if seconds <= 0:
            return UNDECIDED
        from scipy.optimize import Bounds, milp

        # HiGHS fails on some small programs that it simplifies first, and solves them as they are.
        for presolve in (True, False):
            result = milp(
                np.asarray(self._cost),
                integrality=np.asarray(self._whole),
                bounds=Bounds(np.asarray(self._low), np.asarray(self._high)),
                constraints=self._constraints(room),
                options={"time_limit": seconds, "mip_rel_gap": 0.0, "presolve": presolve},
            )
            if result.status != FAILED:
                break
        if result.status == 2:
            return NONE
        if result.status != 0 or result.x is None:
            return UNDECIDED
        values = self._values(result.x)
        return Solution("found", values, self._charged(values)) if self._keeps(exact, values) else UNDECIDED

    def _keeps(self, exact: Formula, values: Mapping[Ref, float]) -> bool:
        """Whether values keep a formula by its exact reading."""
        every = {**self.known, **values}.items()
        before, after = ({r.name: _column(r, v) for r, v in every if r.primed == primed} for primed in (False, True))
        return bool(np.all(truth(exact, before, after)))

    def _charged(self, values: Mapping[Ref, float]) -> float:
        return math.fsum(
            abs(values[ref] - wish) / unit if ref.feature.is_number else float(values[ref] != wish)
            for ref, wish, unit in self._preferred
        )

    def _constraints(self, room: int) -> list[LinearConstraint]:
        from scipy.optimize import LinearConstraint
        from scipy.sparse import csr_array

        weights = [w for row in self._rows for w in row.weights.values()]
        columns = np.asarray([v for row in self._rows for v in row.weights], dtype=np.int64)
        starts = np.cumsum([0, *(len(row.weights) for row in self._rows)])
        matrix = csr_array((weights, columns, starts), shape=(len(self._rows), len(self._cost)))
        low, high = ([r.low - room * r.give for r in self._rows], [r.high + room * r.give for r in self._rows])
        return [LinearConstraint(matrix, low, high)] if self._rows else []

    def _values(self, x: Any) -> dict[Ref, float]:
        values: dict[Ref, float] = {}
        for ref, variable in self._numbers.items():
            values[ref] = float(ref.feature.at(np.asarray([round(x[variable])]))[0])
        for ref, (kept, value, _) in self._kept.items():
            values[ref] = value if x[kept] > 0.5 else values[ref]
        for ref, choice in self._choices.items():
            values[ref] = float(np.argmax([x[v] for v in choice]))
        return values

    def _variable(
        self, low: float, high: float, *, whole: bool = True, cost: float = 0.0, grain: Fraction = Fraction(1)
    ) -> int:
        self._low.append(low)
        self._high.append(high)
        self._whole.append(int(whole))
        self._cost.append(cost)
        self._grain.append(grain)
        return len(self._cost) - 1

    def _number(self, ref: Ref) -> int:
        if ref not in self._numbers:
            low, high = code_bounds(ref.feature)
            self._numbers[ref] = self._variable(max(low, -REACH), high if ref.feature.top is not None else REACH)
        return self._numbers[ref]

    def _value(self, ref: Ref) -> dict[int, Fraction]:
        """A number less its grid's origin, as weights of variables."""
        weights = {self._number(ref): grid_of(ref.feature)[1]}
        if ref in self._kept:
            kept, _, beside = self._kept[ref]
            weights[kept] = beside
        return weights

    def _choice(self, ref: Ref) -> list[int]:
        if ref not in self._choices:
            choice = [self._variable(0, 1) for _ in ref.feature.levels]
            self._choices[ref] = choice
            self._rows.append(LinearRow(dict.fromkeys(choice, 1.0), 1.0, 1.0))
        return self._choices[ref]

    def _unit(self, weights: Mapping[int, Fraction]) -> tuple[Fraction, bool]:
        """What a row is divided by: the step of its lattice, or, where that is too fine for the solver, its largest."""
        divisor = divisor_of(w * self._grain[v] for v, w in weights.items())
        largest = max((abs(w) for w in weights.values()), default=Fraction(1))
        is_lattice = divisor > FINEST * largest
        return (divisor if is_lattice else largest), is_lattice

    def _linear(self, affine: Affine, sides: tuple[int, ...]) -> LinearSum:
        """Weights by variable, and what is constant, of a sum that is to be bounded from some `sides`."""
        weights: dict[int, Fraction] = {}
        constant, size = Fraction(repr(affine.constant)), abs(affine.constant)
        for weight, atom in affine.terms:
            exact = fraction_of(weight)
            part = self._part(atom, tuple(side if weight > 0 else -side for side in sides))
            constant, size = constant + exact * part.constant, size + abs(weight) * part.size
            for variable, own in part.weights.items():
                weights[variable] = weights.get(variable, Fraction(0)) + exact * own
        return LinearSum({v: w for v, w in weights.items() if w}, constant, size)

    def _part(self, atom: Ref | Abs, sides: tuple[int, ...]) -> LinearSum:
        if isinstance(atom, Abs):
            return self._fold(atom, sides)
        if atom in self.known:
            value = float(measure(atom.feature, _column(atom, self.known[atom]))[0])
            return LinearSum({}, Fraction(repr(value)), abs(value))
        if atom.feature.is_number:
            start = grid_of(atom.feature)[0]
            return LinearSum(self._value(atom), start, abs(float(start)))
        pairs = zip(self._choice(atom), atom.feature.ranks, strict=True)
        return LinearSum({variable: Fraction(rank) for variable, rank in pairs}, Fraction(0), 0.0)

    def _fold(self, fold: Abs, sides: tuple[int, ...]) -> LinearSum:
        """A variable for the size of a sum: not below it where it is bounded from above, and the other way round."""
        inside = self._linear(fold.inside, _BOTH)
        if not inside.weights:
            return LinearSum({}, abs(inside.constant), inside.size)
        unit = self._unit(inside.weights)[0]
        row, constant = {v: float(w / unit) for v, w in inside.weights.items()}, float(inside.constant / unit)
        mirrored, (least, most) = {v: -w for v, w in row.items()}, self._range(row)
        if fold not in self._folds:
            largest = max(abs(least + constant), abs(most + constant))
            steps = [*(w * self._grain[v] for v, w in inside.weights.items()), inside.constant]
            self._folds[fold] = self._variable(0, largest, whole=False, grain=divisor_of(steps) / unit), set()
        variable, done = self._folds[fold]
        if 1 in sides and 1 not in done:
            self._rows.append(LinearRow(mirrored | {variable: 1.0}, constant, math.inf))
            self._rows.append(LinearRow(row | {variable: 1.0}, -constant, math.inf))
        if -1 in sides and -1 not in done:
            # Which of the two signs it has: no more than the sum, or no more than its opposite.
            is_negative = self._variable(0, 1)
            below, above = 2 * max(0.0, -least - constant), 2 * max(0.0, most + constant)
            self._rows.append(LinearRow(mirrored | {variable: 1.0, is_negative: -below}, -math.inf, constant))
            self._rows.append(LinearRow(row | {variable: 1.0, is_negative: above}, -math.inf, above - constant))
        done.update(sides)
        return LinearSum({variable: unit}, Fraction(0), inside.size)

    def _range(self, row: Mapping[int, float]) -> tuple[float, float]:
        """Between what a row's sum must lie, as its variables have bounds."""
        ends = [sorted((w * self._low[v], w * self._high[v])) for v, w in row.items()]
        return sum(low for low, _ in ends), sum(high for _, high in ends)

    def _row(self, row: dict[int, float], low: float, high: float, indicator: int | None, give: float = 0.0) -> None:
        """`low <= row <= high`, or only where the indicator is 1."""
        if indicator is None:
            self._rows.append(LinearRow(row, low, high, give))
            return
        least, most = self._range(row)
        if low > least:
            self._rows.append(LinearRow(row | {indicator: least - low}, least, math.inf, give))
        if high < most:
            self._rows.append(LinearRow(row | {indicator: most - high}, -math.inf, most, give))

    def _membership(self, ref: Ref, values: tuple[float, ...], indicator: int | None) -> None:
        if ref in self.known:
            self._row({}, 0.0 if self.known[ref] in values else 1.0, math.inf, indicator)
            return
        choice = self._choice(ref)
        self._row({choice[int(v)]: 1.0 for v in values}, 1.0, math.inf, indicator)

    def _same(self, formula: Same, indicator: int | None) -> None:
        left, right = formula.left, formula.right
        if right in self.known:
            left, right = right, left
        if left in self.known:
            found = right.feature.level_of_text.get(str(left.feature.levels[int(self.known[left])]))
            every = range(len(right.feature.levels))
            self._membership(right, tuple(c for c in every if (c == found) != formula.negated), indicator)
            return
        a, b = self._choice(left), self._choice(right)
        for code, level in enumerate(left.feature.levels):
            other = right.feature.level_of_text.get(str(level))
            row = {a[code]: 1.0} | ({} if other is None else {b[other]: 1.0 if formula.negated else -1.0})
            if not formula.negated:
                self._row(row, 0.0, 0.0, indicator)
            elif other is not None:
                self._row(row, -math.inf, 1.0, indicator)


def _column(ref: Ref, value: float) -> NDArray[Any]:
    """A natural column of one value."""
    return np.asarray([value if ref.feature.is_number else int(value)])


@lru_cache(maxsize=1024)
def grid_of(feature: Feature) -> tuple[Fraction, Fraction]:
    """Origin and step of a number's grid, exactly."""
    first, second = (Fraction(repr(float(v))) for v in feature.at(np.asarray([0, 1])))
    return first, second - first


@lru_cache(maxsize=4096)
def fraction_of(weight: float) -> Fraction:
    """The fraction that a weight was meant to be: 1 / 3, or 0.37 where it was 1.37 - 1."""
    near = Fraction(weight).limit_denominator(DENOMINATOR)
    return near if abs(near - Fraction(weight)) <= ROUNDING / 2 * abs(weight) else Fraction(repr(weight))


def divisor_of(weights: Iterable[Fraction]) -> Fraction:
    """The greatest number of which all weights are multiples."""
    divisor = Fraction(0)
    for weight in weights:
        top = math.gcd(divisor.numerator * weight.denominator, weight.numerator * divisor.denominator)
        divisor = Fraction(top, divisor.denominator * weight.denominator)
    return divisor or Fraction(1)


def _limits(op: Op, linear: LinearSum, unit: Fraction, is_lattice: bool) -> tuple[float, float, float]:
    """Bounds for the scaled sum of variables, so that sum + constant stands in the relation to 0, and their give.

    On a lattice the sum takes whole values only, so a bound may lie anywhere between two of them.
    """
    boundary = -linear.constant / unit
    if not is_lattice:
        bound, nudge = float(boundary), NUDGE * max(1.0, abs(float(boundary)))
        low = {">": bound + nudge, ">=": bound, "==": bound}.get(op, -math.inf)
        high = {"<": bound - nudge, "<=": bound, "==": bound}.get(op, math.inf)
        return low, high, 2 * nudge
    whole = round(boundary)
    # What the exact reading takes for rounding.
    exact = abs(boundary - whole) * unit <= ROUNDING * (linear.size + abs(float(linear.constant)))
    if op == "==":
        return (whole - 0.5, whole + 0.5, 0.0) if exact else (1.0, 0.0, 0.0)
    if op in (">", ">="):
        least = whole + (op == ">") if exact else math.ceil(boundary)
        return least - 0.5, math.inf, 0.0
    most = whole - (op == "<") if exact else math.floor(boundary)
    return -math.inf, most + 0.5, 0.0
