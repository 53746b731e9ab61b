"""The tree of a rule: names, linear expressions, comparisons and logic.

A rule is bound to its features when it is read, so every reading of the tree (exact check, penalty, repair,
words) needs the tree alone. Numbers stand in their own units, ordinals by rank, levels by code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, cast

from ..schema import Feature

Op = Literal["<", "<=", "==", "!=", ">=", ">"]
OPPOSITE: dict[Op, Op] = {"<": ">=", "<=": ">", "==": "!=", "!=": "==", ">=": "<", ">": "<="}
MIRRORED: dict[Op, Op] = {"<": ">", "<=": ">=", "==": "==", "!=": "!=", ">=": "<=", ">": "<"}


@dataclass(frozen=True, repr=False)
class Ref:
    """A feature's value: the present one, or, primed, the counterfactual one."""

    feature: Feature
    primed: bool

    def __repr__(self) -> str:
        return self.name + "'" * self.primed

    def __hash__(self) -> int:
        # Hashed often, and the name identifies the feature.
        return hash((self.feature.name, self.primed))

    @cached_property
    def name(self) -> str:
        """The feature's name."""
        return self.feature.name


@dataclass(frozen=True)
class Affine:
    """A sum of weighted values and a constant. Ordinals count by their rank."""

    terms: tuple[tuple[float, Ref | Abs], ...] = ()
    constant: float = 0.0

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Hashed often, and expressions may be long.
        return hash((self.terms, self.constant))

    @classmethod
    def total(cls, parts: Iterable[Affine]) -> Affine:
        """The sum of any number of expressions."""
        weights: dict[Ref | Abs, float] = {}
        constant = 0.0
        for part in parts:
            constant += part.constant
            for weight, atom in part.terms:
                weights[atom] = weights.get(atom, 0.0) + weight
        return cls(tuple((weight, atom) for atom, weight in weights.items() if weight), constant)

    def __add__(self, other: Affine) -> Affine:
        return Affine.total((self, other))

    def __mul__(self, factor: float) -> Affine:
        terms = tuple((weight * factor, atom) for weight, atom in self.terms if weight * factor)
        return Affine(terms, self.constant * factor)

    def __sub__(self, other: Affine) -> Affine:
        return self + other * -1.0

    @property
    def ref(self) -> Ref | None:
        """The name, if the expression is nothing but a name."""
        if len(self.terms) != 1 or self.constant or self.terms[0][0] != 1:
            return None
        atom = self.terms[0][1]
        return atom if isinstance(atom, Ref) else None

    @cached_property
    def folds(self) -> int:
        """How many `abs` of counterfactual values it has, nested ones included."""
        return sum(1 + atom.inside.folds for _, atom in self.terms if isinstance(atom, Abs) and atom.primed)


@dataclass(frozen=True)
class Abs:
    """The absolute value of an expression."""

    inside: Affine

    @cached_property
    def primed(self) -> bool:
        """Whether it contains a counterfactual value; if not, it is constant for a row."""
        return any(ref.primed for ref in refs_of(self.inside))


class _Plain:
    """What all atoms have in common."""

    @cached_property
    def primed(self) -> tuple[Feature, ...]:
        """The features whose counterfactual value the atom mentions."""
        return tuple({r.name: r.feature for r in refs_of(cast("Atom", self)) if r.primed}.values())

    @cached_property
    def is_wide(self) -> bool:
        """Whether no box can express it: it mentions several counterfactual values, or `abs` of one."""
        return len(self.primed) > 1 or (isinstance(self, Compare) and self.difference.folds > 0)


@dataclass(frozen=True)
class Compare(_Plain):
    """A comparison of two expressions, all numbers or all ordinals."""

    left: Affine
    op: Op
    right: Affine

    @cached_property
    def difference(self) -> Affine:
        """What is compared with 0."""
        return self.left - self.right


@dataclass(frozen=True)
class Member(_Plain):
    """Whether a value is one of a set: level codes of a category, or numbers."""

    ref: Ref
    values: tuple[float, ...]
    negated: bool = False


@dataclass(frozen=True)
class Same(_Plain):
    """Whether two categories have the same level."""

    left: Ref
    right: Ref
    negated: bool = False


@dataclass(frozen=True)
class And:
    """All of the items."""

    items: tuple[Formula, ...]


@dataclass(frozen=True)
class Or:
    """At least one of the items."""

    items: tuple[Formula, ...]


@dataclass(frozen=True)
class Not:
    """The opposite of the item."""

    item: Formula


@dataclass(frozen=True)
class Implies:
    """If the condition holds, so must the consequence."""

    condition: Formula
    consequence: Formula


Atom = Compare | Member | Same
Formula = Atom | And | Or | Not | Implies


def frozen_by(formula: Formula) -> str | None:
    """The feature `f` of a formula that says `f' == f` and nothing else."""
    match formula:
        case Same(left, right, negated=False):
            pass
        case Compare(op="==") if (a := formula.left.ref) and (b := formula.right.ref) and a.feature.is_number:
            left, right = a, b
        case _:
            return None
    return left.name if left.name == right.name and left.primed != right.primed else None


def refs_of(node: Formula | Affine) -> Iterator[Ref]:
    """Every name in a formula or expression, in order, with repetition."""
    match node:
        case Affine(terms=terms):
            for _, atom in terms:
                yield from (atom,) if isinstance(atom, Ref) else refs_of(atom.inside)
        case Compare(left=left, right=right):
            yield from refs_of(left)
            yield from refs_of(right)
        case Member(ref=ref):
            yield ref
        case Same(left=first, right=second):
            yield from (first, second)
        case And(items=items) | Or(items=items):
            for item in items:
                yield from refs_of(item)
        case Not(item=item):
            yield from refs_of(item)
        case Implies(condition=condition, consequence=consequence):
            yield from refs_of(condition)
            yield from refs_of(consequence)
