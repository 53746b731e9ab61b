"""The differentiable reading of a rule: a hinge that is 0 where the rule holds with a margin.

Sign convention: a penalty is never negative, and 0 means kept. `and` adds, `or` takes the least, `not` is
pushed down to the comparisons. Only strict comparisons need the margin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..encoding import Columns
from ..schema import Feature
from .nodes import OPPOSITE, Abs, Affine, And, Compare, Formula, Implies, Member, Not, Or, Ref, Same, refs_of
from .rule import Rule


def penalty(
    rules: Rule | Iterable[Rule],
    before: Mapping[str, Tensor],
    after: Mapping[str, Tensor],
    *,
    margin: float | None = None,
    units: Mapping[str, float] | None = None,
) -> Tensor:
    """How far each row is from keeping the rule (or the sum over the rules), `n`, never negative.

    Parameters
    ----------
    rules
        One rule, or several.
    before, after
        Columns in natural units, as `TableEncoder.columns` makes them: numbers and expected ranks `n`, categories
        `n x levels`.
    margin
        Margin of a strict comparison, in natural units; by default one step of its finest feature.
    units
        What counts as 1 for some or all numbers, so that a rule about dollars does not outweigh one about years; by
        default one natural unit.
    """
    some_column = next(iter(after.values()))
    total = torch.zeros(some_column.shape[0], dtype=some_column.dtype, device=some_column.device)
    reading = _Reading(before, after, margin, units or {}, total)
    for rule in [rules] if isinstance(rules, Rule) else rules:
        total = total + reading.of(rule.formula, wanted=True)
    return total


@dataclass
class _Reading:
    """One walk over a tree with the columns of a batch."""

    before: Mapping[str, Tensor]
    after: Mapping[str, Tensor]
    margin: float | None
    units: Mapping[str, float]
    zero: Tensor
    _read: dict[Ref, Tensor] = field(default_factory=dict)

    def of(self, formula: Formula, *, wanted: bool) -> Tensor:
        """The penalty for a formula that should be true (or, not `wanted`, false)."""
        match formula:
            case Compare():
                miss = self._miss(formula, wanted)
                return miss / self._unit(formula.difference) if self.units else miss
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

    def _unit(self, affine: Affine) -> float:
        """What counts as 1 in a comparison: the largest unit of its parts, each with its factor."""
        parts = [
            abs(weight) * (self._unit(atom.inside) if isinstance(atom, Abs) else self.units.get(atom.name, 1.0))
            for weight, atom in affine.terms
        ]
        return max(parts, default=0.0) or 1.0

    def _miss(self, formula: Compare, wanted: bool) -> Tensor:
        difference = self._value(formula.difference)
        margin = self._margin(ref.feature for ref in refs_of(formula))
        match formula.op if wanted else OPPOSITE[formula.op]:
            case "<=":
                return difference.relu()
            case ">=":
                return (-difference).relu()
            case "==":
                return difference.abs()
            case "!=":
                return (margin - difference.abs()).relu()
            case "<":
                return (margin + difference).relu()
            case ">":
                return (margin - difference).relu()

    def _margin(self, features: Iterable[Feature]) -> float:
        """The margin of a strict comparison."""
        return self.margin if self.margin is not None else min((float(f.step or 1) for f in features), default=1.0)

    def _value(self, affine: Affine) -> Tensor:
        total = self.zero
        for weight, atom in affine.terms:
            part = self._value(atom.inside).abs() if isinstance(atom, Abs) else self._column(atom)
            total = total + weight * part
        return total + affine.constant

    def _column(self, ref: Ref) -> Tensor:
        # Rules name the same few features again and again.
        if ref not in self._read:
            column = (self.after if ref.primed else self.before)[ref.name]
            if not ref.feature.is_number and column.ndim == 2:
                column = column @ torch.as_tensor(ref.feature.rank_of_level, dtype=column.dtype, device=column.device)
            self._read[ref] = column
        return self._read[ref]

    def _levels(self, ref: Ref) -> Tensor:
        columns = self.after if ref.primed else self.before
        if isinstance(columns, Columns):
            return columns.levels(ref.name)
        column = columns[ref.name]
        if column.ndim == 2:
            return column
        # From a bare rank: 1 at its own rank, falling to 0 one rank away.
        ranks = torch.as_tensor(ref.feature.rank_of_level, dtype=column.dtype, device=column.device)
        return (1 - (column[:, None] - ranks).abs()).relu()

    def _member(self, ref: Ref, values: tuple[float, ...], wanted: bool) -> Tensor:
        if ref.feature.is_category:
            inside = self._levels(ref)[:, list(map(int, values))].sum(dim=1)
            return (1 - inside).relu() if wanted else inside.relu()
        column, unit = self._column(ref), self.units.get(ref.name, 1.0)
        distances = [(column - value).abs() for value in values]
        if wanted:
            return _least(distances) / unit
        margin = self._margin([ref.feature])
        return _sum([(margin - d).relu() for d in distances]) / unit

    def _same(self, left: Ref, right: Ref, wanted: bool) -> Tensor:
        a, b, codes = self._levels(left), self._levels(right), right.feature.level_of_text
        pairs = [(i, codes[str(level)]) for i, level in enumerate(left.feature.levels) if str(level) in codes]
        alike = _sum([a[:, i] * b[:, j] for i, j in pairs]) if pairs else self.zero
        return (1 - alike).relu() if wanted else alike.relu()


def _sum(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts).sum(dim=0)


def _least(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts).amin(dim=0)
