"""The differentiable reading of a rule: a hinge that is 0 where the rule holds with a margin.

Sign convention: a penalty is never negative, and 0 means kept. `and` adds, `or` takes the least, `not` is
pushed down to the comparisons. Strict comparisons ask for the margin, others for none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ..schema import Feature
from .nodes import OPPOSITE, Abs, Affine, And, Compare, Formula, Implies, Member, Not, Or, Ref, Same, refs_of
from .rule import Rule

Margin = float | None


@runtime_checkable
class HasLevels(Protocol):
    """Columns that give every category's levels, also an ordinal's (see `encoding.Columns`)."""

    def levels(self, name: str) -> Tensor:
        """`n x levels` of a category."""
        ...


def penalty(
    rules: Rule | Iterable[Rule],
    before: Mapping[str, Tensor],
    after: Mapping[str, Tensor],
    *,
    margin: Margin = None,
    units: Mapping[str, float] | None = None,
) -> Tensor:
    """How far each row is from keeping the rule (or the sum over the rules), `n`, never negative.

    `before` and `after` are columns in natural units, as `TableEncoder.columns` makes them: numbers and
    expected ranks `n`, categories `n x levels`. `margin` is what a strict comparison must be kept by, in
    natural units; by default one step of the finest feature in it. `units` says what counts as 1 for some or all
    numbers, so that a rule about dollars does not drown one about years; by default one natural unit does.
    """
    rules = [rules] if isinstance(rules, Rule) else list(rules)
    some_column = next(iter(after.values()))
    total = torch.zeros(some_column.shape[0], dtype=some_column.dtype, device=some_column.device)
    reading = _Reading(before, after, margin, units or {}, total)
    for rule in rules:
        total = total + reading.of(rule.formula, wanted=True)
    return total


class _Reading:
    """One walk over a tree with the columns of a batch."""

    def __init__(
        self,
        before: Mapping[str, Tensor],
        after: Mapping[str, Tensor],
        margin: Margin,
        units: Mapping[str, float],
        zero: Tensor,
    ) -> None:
        self.before, self.after, self.margin, self.units, self.zero = before, after, margin, units, zero
        self._read: dict[Ref, Tensor] = {}

    def of(self, formula: Formula, *, wanted: bool) -> Tensor:
        """The penalty for a formula that should be true (or, not `wanted`, false)."""
        match formula:
            case Compare():
                return self._compare(formula, wanted)
            case Member(ref=ref, values=values, negated=negated):
                return self._member(ref, values, wanted ^ negated)
            case Same(left=left, right=right, negated=negated):
                return self._same(left, right, wanted ^ negated)
            case Not(item=item):
                return self.of(item, wanted=not wanted)
            case Implies(condition=condition, consequence=consequence):
                parts = [self.of(condition, wanted=not wanted), self.of(consequence, wanted=wanted)]
                return _least(parts) if wanted else _sum(parts)
            case And(items=items) | Or(items=items):
                parts = [self.of(i, wanted=wanted) for i in items]
                return _sum(parts) if isinstance(formula, And) == wanted else _least(parts)

    def _compare(self, formula: Compare, wanted: bool) -> Tensor:
        miss = self._miss(formula, wanted)
        return miss / self._unit(formula.left - formula.right) if self.units else miss

    def _unit(self, affine: Affine) -> float:
        """What counts as 1 in a comparison: the largest unit of its parts, each with its factor."""
        parts = [
            abs(weight) * (self._unit(atom.inside) if isinstance(atom, Abs) else self.units.get(atom.name, 1.0))
            for weight, atom in affine.terms
        ]
        return max(parts, default=0.0) or 1.0

    def _miss(self, formula: Compare, wanted: bool) -> Tensor:
        op = formula.op if wanted else OPPOSITE[formula.op]
        difference = self._value(formula.left - formula.right)
        match op:
            case "<=":
                return difference.relu()
            case ">=":
                return (-difference).relu()
            case "==":
                return difference.abs()
        margin = self._margin(formula)
        if op == "!=":
            return (margin - difference.abs()).relu()
        return (margin + difference).relu() if op == "<" else (margin - difference).relu()

    def _margin(self, formula: Compare) -> float:
        if self.margin is not None:
            return self.margin
        steps = [float(r.feature.step or 1) for r in refs_of(formula)]
        return min(steps, default=1.0)

    def _value(self, affine: Affine) -> Tensor:
        total = self.zero
        for weight, atom in affine.terms:
            part = self._value(atom.inside).abs() if isinstance(atom, Abs) else self._column(atom)
            total = total + weight * part
        return total + affine.constant

    def _column(self, ref: Ref) -> Tensor:
        # Rules name the same few features again and again.
        if ref not in self._read:
            self._read[ref] = self._fresh_column(ref)
        return self._read[ref]

    def _fresh_column(self, ref: Ref) -> Tensor:
        column = (self.after if ref.primed else self.before)[ref.name]
        if ref.feature.is_number or column.ndim == 1:
            return column
        return column @ torch.as_tensor(ref.feature.rank_of_level, dtype=column.dtype, device=column.device)

    def _levels(self, ref: Ref) -> Tensor:
        columns = self.after if ref.primed else self.before
        if isinstance(columns, HasLevels):
            return columns.levels(ref.name)
        column = columns[ref.name]
        return column if column.ndim == 2 else _nearness(ref.feature, column)

    def _member(self, ref: Ref, values: tuple[float, ...], wanted: bool) -> Tensor:
        if ref.feature.is_category:
            inside = self._levels(ref)[:, list(map(int, values))].sum(dim=1)
            return (1 - inside).relu() if wanted else inside.relu()
        column, unit = self._column(ref), self.units.get(ref.name, 1.0)
        distances = [(column - value).abs() for value in values]
        if wanted:
            return _least(distances) / unit
        margin = self.margin if self.margin is not None else float(ref.feature.step or 1)
        return _sum([(margin - d).relu() for d in distances]) / unit

    def _same(self, left: Ref, right: Ref, wanted: bool) -> Tensor:
        a, b = self._levels(left), self._levels(right)
        pairs = [
            (i, right.feature.level_of_text[str(level)])
            for i, level in enumerate(left.feature.levels)
            if str(level) in right.feature.level_of_text
        ]
        alike = _sum([a[:, i] * b[:, j] for i, j in pairs]) if pairs else self.zero
        return (1 - alike).relu() if wanted else alike.relu()


def _nearness(feature: Feature, rank: Tensor) -> Tensor:
    """Levels from a bare rank: 1 at its own rank, falling to 0 one rank away."""
    ranks = torch.as_tensor(feature.rank_of_level, dtype=rank.dtype, device=rank.device)
    return (1 - (rank[:, None] - ranks).abs()).relu()


def _sum(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts).sum(dim=0)


def _least(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts).amin(dim=0)
