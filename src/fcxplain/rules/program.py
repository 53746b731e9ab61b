"""Rules as an integer program, for whatever is wider than a box (scipy's HiGHS).

A number is an integer variable on its grid, a category a choice among its levels. Alternatives become
indicator variables. Every linear row is scaled to its lattice: as the values are multiples of a common
divisor, `> 0` and `>= 0` are told apart by half a step, far above the solver's tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ..schema import Feature
from .boxes import code_bounds
from .check import measure
from .nodes import Affine, And, Compare, Formula, Member, Or, Ref, Same

# The solver is loaded when a program is first solved: most rules are read, worded and checked without one.
if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint

# Grids without end are searched this many steps from the origin, so that indicators have a finite reach.
REACH = 10**6
# Below this share of the largest weight a common divisor is rounding noise, not a lattice.
FINEST = 1e-6
SECONDS = 10.0

Known = Mapping[Ref, float]
"""Natural values that are given: a number, or a level's code."""


@dataclass(frozen=True)
class Solution:
    """What the solver found: values by name, or that there are none, or that time ran out."""

    status: str  # "found", "none" or "undecided"
    values: dict[Ref, float] = field(default_factory=dict)
    cost: float = math.inf


UNDECIDED = Solution("undecided")


class Program:
    """An integer program that grows by `require` and `prefer`, and is then solved once."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._low: list[float] = []
        self._high: list[float] = []
        self._whole: list[int] = []
        self._cost: list[float] = []
        self._numbers: dict[Ref, int] = {}
        self._choices: dict[Ref, list[int]] = {}
        self._rows: list[tuple[dict[int, float], float, float]] = []

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
                self._rows.append((row, 1.0 if indicator is None else 0.0, math.inf))
            case Compare():
                self._comparison(formula, indicator)
            case Member(ref=ref, values=values):
                self._membership(ref, values, indicator)
            case Same():
                self._same(formula, indicator)
            case _:
                raise TypeError(f"not a normal form: {formula!r}")

    def prefer(self, ref: Ref, value: float, unit: float) -> None:
        """Charge for the distance of a variable from a natural value: by unit, or 1 for another level."""
        feature = ref.feature
        if feature.is_category:
            for code, variable in enumerate(self._choice(ref)):
                self._cost[variable] = 0.0 if code == int(value) else 1.0
            return
        number, (start, step) = self._number(ref), _grid(feature)
        distance = self._variable(0, math.inf, whole=False, cost=float(step) / unit)
        offset = (value - float(start)) / float(step)
        self._rows.append(({distance: 1.0, number: -1.0}, -offset, math.inf))
        self._rows.append(({distance: 1.0, number: 1.0}, offset, math.inf))

    def solve(self, seconds: float = SECONDS) -> Solution:
        """The cheapest values that satisfy everything that was required."""
        if not self._cost:
            empty = any(low > 0 or high < 0 for _, low, high in self._rows)
            return Solution("none") if empty else Solution("found", {}, 0.0)
        from scipy.optimize import Bounds, milp

        result = milp(
            np.asarray(self._cost),
            integrality=np.asarray(self._whole),
            bounds=Bounds(np.asarray(self._low), np.asarray(self._high)),
            constraints=self._constraints(),
            options={"time_limit": seconds, "mip_rel_gap": 0.0},
        )
        if result.status == 2:
            return Solution("none")
        if result.status != 0 or result.x is None:
            return UNDECIDED
        return Solution("found", self._values(result.x), float(result.fun))

    def _constraints(self) -> list[LinearConstraint]:
        if not self._rows:
            return []
        from scipy.optimize import LinearConstraint
        from scipy.sparse import coo_array

        at = [(i, v, w) for i, (row, _, _) in enumerate(self._rows) for v, w in row.items()]
        rows, columns, weights = zip(*at, strict=True) if at else ((), (), ())
        shape = (len(self._rows), len(self._cost))
        matrix = coo_array((weights, (rows, columns)), shape=shape).tocsr()
        return [LinearConstraint(matrix, [r[1] for r in self._rows], [r[2] for r in self._rows])]

    def _values(self, x: Any) -> dict[Ref, float]:
        values: dict[Ref, float] = {}
        for ref, variable in self._numbers.items():
            values[ref] = float(ref.feature.at(np.asarray([round(x[variable])]))[0])
        for ref, choice in self._choices.items():
            values[ref] = float(np.argmax([x[v] for v in choice]))
        return values

    def _variable(self, low: float, high: float, *, whole: bool = True, cost: float = 0.0) -> int:
        self._low.append(low)
        self._high.append(high)
        self._whole.append(int(whole))
        self._cost.append(cost)
        return len(self._cost) - 1

    def _number(self, ref: Ref) -> int:
        if ref not in self._numbers:
            low, high = code_bounds(ref.feature)
            self._numbers[ref] = self._variable(max(low, -REACH), high if ref.feature.top is not None else REACH)
        return self._numbers[ref]

    def _choice(self, ref: Ref) -> list[int]:
        if ref not in self._choices:
            choice = [self._variable(0, 1) for _ in ref.feature.levels]
            self._choices[ref] = choice
            self._rows.append((dict.fromkeys(choice, 1.0), 1.0, 1.0))
        return self._choices[ref]

    def _comparison(self, formula: Compare, indicator: int | None) -> None:
        weights, constant = self._linear(formula.left)
        divisor = _divisor(weights)
        largest = max((abs(w) for w in weights.values()), default=Fraction(1))
        low, high = _limits(formula.op, constant, divisor if divisor > FINEST * largest else None)
        scale = float(divisor if divisor > FINEST * largest else largest)
        row = {v: float(w) / scale for v, w in weights.items()}
        self._row(row, low, high, indicator)

    def _linear(self, affine: Affine) -> tuple[dict[int, Fraction], float]:
        """Weights by variable, and what is constant: given values and the grids' origins."""
        weights: dict[int, Fraction] = {}
        constant = affine.constant
        for weight, ref in affine.terms:
            assert isinstance(ref, Ref)
            exact = Fraction(repr(weight))
            if ref in self.known:
                constant += weight * float(measure(ref.feature, np.asarray([_given(ref, self.known)]))[0])
            elif ref.feature.is_number:
                start, step = _grid(ref.feature)
                variable = self._number(ref)
                weights[variable] = weights.get(variable, Fraction(0)) + exact * step
                constant += weight * float(start)
            else:
                for variable, rank in zip(self._choice(ref), ref.feature.ranks, strict=True):
                    weights[variable] = weights.get(variable, Fraction(0)) + exact * rank
        return {v: w for v, w in weights.items() if w}, constant

    def _row(self, row: dict[int, float], low: float, high: float, indicator: int | None) -> None:
        """`low <= row <= high`, or only where the indicator is 1."""
        if indicator is None:
            self._rows.append((row, low, high))
            return
        least = sum(w * (self._low[v] if w > 0 else self._high[v]) for v, w in row.items())
        most = sum(w * (self._high[v] if w > 0 else self._low[v]) for v, w in row.items())
        if low > least:
            self._rows.append((row | {indicator: least - low}, least, math.inf))
        if high < most:
            self._rows.append((row | {indicator: most - high}, -math.inf, most))

    def _membership(self, ref: Ref, values: tuple[float, ...], indicator: int | None) -> None:
        if ref in self.known:
            row: dict[int, float] = {}
            reached = 1.0 if self.known[ref] in values else 0.0
            self._row(row, 1.0 - reached, math.inf, indicator)
            return
        choice = self._choice(ref)
        self._row({choice[int(v)]: 1.0 for v in values}, 1.0, math.inf, indicator)

    def _same(self, formula: Same, indicator: int | None) -> None:
        left, right = formula.left, formula.right
        if right in self.known:
            left, right = right, left
        if left in self.known:
            found = right.feature.level_of_text.get(str(left.feature.levels[_given(left, self.known)]))
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


def _given(ref: Ref, known: Known) -> Any:
    value = known[ref]
    return value if ref.feature.is_number else int(value)


def _grid(feature: Feature) -> tuple[Fraction, Fraction]:
    """Origin and step of a number's grid, exactly."""
    first, second = (Fraction(repr(float(v))) for v in feature.at(np.asarray([0, 1])))
    return first, second - first


def _divisor(weights: Mapping[int, Fraction]) -> Fraction:
    """The greatest number of which all weights are multiples."""
    divisor = Fraction(0)
    for weight in weights.values():
        top = math.gcd(divisor.numerator * weight.denominator, weight.numerator * divisor.denominator)
        divisor = Fraction(top, divisor.denominator * weight.denominator)
    return divisor or Fraction(1)


def _limits(op: str, constant: float, divisor: Fraction | None) -> tuple[float, float]:
    """Bounds for the scaled sum of variables, so that sum + constant stands in the relation to 0.

    On a lattice the sum takes whole values only, so a bound may lie anywhere between two of them.
    """
    if divisor is None:
        nudge = 1e-7 * max(1.0, abs(constant))
        low = -constant + nudge if op == ">" else -constant
        high = -constant - nudge if op == "<" else -constant
        return (low if op in (">", ">=", "==") else -math.inf), (high if op in ("<", "<=", "==") else math.inf)
    boundary = -constant / float(divisor)
    whole = round(boundary)
    exact = abs(boundary - whole) <= 1e-9 * max(1.0, abs(boundary))
    if op == "==":
        return (whole - 0.5, whole + 0.5) if exact else (1.0, 0.0)
    if op in (">", ">="):
        least = whole + (op == ">") if exact else math.ceil(boundary)
        return least - 0.5, math.inf
    most = whole - (op == "<") if exact else math.floor(boundary)
    return -math.inf, most + 0.5
