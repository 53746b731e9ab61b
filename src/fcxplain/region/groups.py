"""Rules prepared once for a task: groups that share no counterfactual value, and the ways of keeping each group.

This is the only place that sorts the atoms of a way: into those about the present row alone, about one counterfactual
value, and about several at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ..rules.nodes import And, Atom, Compare, Formula, refs_of
from ..rules.normal import TRUE, disjuncts, normal_form, substituted
from ..rules.rule import Rule
from ..schema import Schema

# More ways than this, with atoms that no box can express, take longer to go through than the integer program.
MOST_WIDE = 128
# Groups that are remembered: tasks that differ in a rule or two have most of them in common.
REMEMBERED = 512


@dataclass(frozen=True, eq=False)
class Disjunct:
    """One way of keeping some rules: atoms that must hold together, on the counterfactual values of some features."""

    names: tuple[str, ...]
    atoms: tuple[Atom, ...]
    present: tuple[Atom, ...]
    """Atoms about the present row alone."""
    alone: dict[str, tuple[Atom, ...]]
    """Atoms about one counterfactual value, by its feature."""
    wide: tuple[Atom, ...]
    """Atoms that no box can express."""

    @classmethod
    def of(cls, names: Sequence[str], atoms: Sequence[Atom] = ()) -> Disjunct:
        """Atoms, sorted."""
        alone: dict[str, list[Atom]] = {name: [] for name in names}
        present, wide = [], []
        for atom in atoms:
            if not atom.primed:
                present.append(atom)
            elif atom.is_wide:
                wide.append(atom)
            else:
                alone[atom.primed[0].name].append(atom)
        own = {name: tuple(some) for name, some in alone.items()}
        return cls(tuple(names), tuple(atoms), tuple(present), own, tuple(wide))

    @property
    def sums(self) -> list[Compare]:
        """The wide atoms that are linear comparisons."""
        return [atom for atom in self.wide if isinstance(atom, Compare) and not atom.left.folds]


@dataclass(frozen=True, eq=False)
class Group:
    """Rules that share counterfactual values: their normal form, the ways of keeping them if few, those features."""

    formula: Formula
    disjuncts: tuple[Disjunct, ...] | None
    names: tuple[str, ...]
    wide: bool

    @cached_property
    def ways(self) -> tuple[Disjunct, ...]:
        """What boxes can express of the ways of keeping the rules: nothing where there are too many to list."""
        return (Disjunct.of(self.names),) if self.disjuncts is None else self.disjuncts


def frozen_names(rules: Iterable[Rule], schema: Schema) -> frozenset[str]:
    """Features that the schema or a rule freezes."""
    return frozenset({*schema.immutable, *(rule.freezes for rule in rules if rule.freezes)})


def grouped(rules: Iterable[Rule], frozen: frozenset[str]) -> tuple[Group, ...]:
    """Groups of rules that share no counterfactual value; rules that freeze a feature are in none."""
    formulas = [normal_form(substituted(r.formula, frozen)) for r in rules if not r.freezes]
    return tuple(_group(tuple(members)) for members in _connected(formulas))


def _connected(formulas: Sequence[Formula]) -> list[list[Formula]]:
    groups: list[tuple[set[str], list[Formula]]] = []
    for formula in formulas:
        if formula == TRUE:
            continue
        names, members = {r.name for r in refs_of(formula) if r.primed}, [formula]
        for other in [g for g in groups if g[0] & names]:
            groups.remove(other)
            names |= other[0]
            members = other[1] + members
        groups.append((names, members))
    return [members for _, members in groups]


@lru_cache(maxsize=REMEMBERED)
def _group(formulas: tuple[Formula, ...]) -> Group:
    formula = normal_form(And(tuple(formulas)))
    names = tuple(sorted({r.name for r in refs_of(formula) if r.primed}))
    found = disjuncts(formula)
    ways = None if found is None else tuple(Disjunct.of(names, atoms) for atoms in found)
    wide = ways is None or any(way.wide for way in ways)
    if wide and ways is not None and len(ways) > MOST_WIDE:
        ways = None
    return Group(formula, ways, names, wide)
