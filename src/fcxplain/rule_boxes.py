"""Rules as the rule layer takes them: for each row the boxes that they leave, as tensors over encoded columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .model.rule_layer import Allowed, Boxes
from .rules import Rule
from .rules.boxes import BoxSearch
from .rules.check import truth
from .rules.nodes import Affine, Atom, Compare, refs_of
from .rules.repair import Group, Repairer
from .schema import Feature, Natural
from .task import Task

# Rules that leave more alternatives than this are kept by their penalty: every row would carry all of them.
MAX_BOXES = 64
SIGNS = {
    "<": frozenset({-1}),
    "<=": frozenset({-1, 0}),
    "==": frozenset({0}),
    ">=": frozenset({0, 1}),
    ">": frozenset({1}),
}


@dataclass(frozen=True, eq=False)
class Sides:
    """The features that a group of rules is about, and where their encoded columns are."""

    categories: tuple[Feature, ...]
    numbers: tuple[Feature, ...]
    level_columns: Tensor
    number_columns: Tensor


class RuleBoxes:
    """The rules of a task that are boxes once the present row is known.

    `rest` are the others: rules on sums of several counterfactual numbers, and those with too many alternatives.
    """

    def __init__(self, task: Task) -> None:
        self.encoder, self.schema, self.units = task.encoder, task.schema, task.units
        freezing = [r for r in task.rules if r.freezes]
        narrow = [r for r in task.rules if not r.freezes and all(map(_fits, _groups([*freezing, r], task)))]
        groups = _groups([*freezing, *narrow], task)
        self.groups = tuple(g for g in groups if _fits(g))
        self._sides = tuple(map(self._sides_of, self.groups))
        self._ends = {name: self._trained(name) for name in self.schema.numbers}
        # Rules that fit alone may have too many alternatives together.
        crowded = {name for g in groups if not _fits(g) for name in g.names}
        kept = {r for r in narrow if not crowded & {ref.name for ref in refs_of(r.formula) if ref.primed}}
        self.rest = tuple(r for r in task.rules if not r.freezes and r not in kept)

    def of(self, natural: Natural) -> Allowed:
        """What the rules allow rows, given as natural columns."""
        search = BoxSearch(self.schema, self.units, natural, natural)
        pairs = zip(self.groups, self._sides, strict=True)
        return Allowed(tuple(self._boxes(group, sides, search) for group, sides in pairs))

    def _boxes(self, group: Group, sides: Sides, search: BoxSearch) -> Boxes:
        parts = [self._box(atoms, sides.categories, sides.numbers, search) for atoms in group.boxes or ()]
        stacked = {name: np.stack([part[name] for part in parts], axis=1) for name in parts[0]}
        # Alternatives that no row of these has need not be weighed; the choice among the rest is the same.
        useful = np.asarray(stacked["possible"].any(axis=0))
        useful[0] |= not useful.any()
        tensors = {name: torch.from_numpy(np.ascontiguousarray(value[:, useful])) for name, value in stacked.items()}
        return Boxes(sides.level_columns, sides.number_columns, **tensors)

    def _sides_of(self, group: Group) -> Sides:
        features = [self.schema[name] for name in group.names]
        categories, numbers = [f for f in features if f.is_category], [f for f in features if f.is_number]
        columns = [c for f in categories for c in range(*self._span(f))]
        return Sides(tuple(categories), tuple(numbers), _long(columns), _long([self._span(f)[0] for f in numbers]))

    def _trained(self, name: str) -> tuple[int, int]:
        """The codes at the ends of the training range of a number."""
        least, spread = self.encoder.scale_[name]
        first, last = self.schema[name].codes(np.asarray([least, least + spread])).tolist()
        return first, last

    def _box(
        self, atoms: Sequence[Atom], categories: Sequence[Feature], numbers: Sequence[Feature], search: BoxSearch
    ) -> dict[str, NDArray[Any]]:
        """One alternative for all rows: its levels `n x c`, and `low`, `high` and `keeps`, `n x m`."""
        own: dict[str, list[Atom]] = {f.name: [] for f in (*categories, *numbers)}
        possible = np.ones(search.rows, dtype=bool)
        for atom in atoms:
            features = atom.primed
            if features:
                own[features[0].name].append(atom)
            else:
                possible &= truth(atom, search.before, search.after)
        masks = [search.levels(f, own[f.name]) for f in categories]
        limits = [self._limits(f, own[f.name], search) for f in numbers]
        for mask in masks:
            possible &= mask.any(axis=1)
        for low, high, keeps in limits:
            possible &= (low <= high) | keeps
        low, high, keeps = (_columns([limit[i] for limit in limits], search.rows) for i in range(3))
        kind = np.float64 if self.encoder.dtype_ == torch.float64 else np.float32
        return {
            "possible": possible,
            "levels": np.concatenate([np.empty((search.rows, 0), dtype=bool), *masks], axis=1),
            "low": low.astype(kind),
            "high": high.astype(kind),
            "keeps": keeps.astype(bool),
        }

    def _limits(self, feature: Feature, atoms: Sequence[Atom], search: BoxSearch) -> tuple[NDArray[Any], ...]:
        """Encoded ends of a number's interval, inside the training range as far as the rules leave it there."""
        interval = search.interval(feature, atoms)
        least, spread = self.encoder.scale_[feature.name]
        most = np.maximum(interval.low, interval.high)
        ends = (np.minimum(np.maximum(end, interval.low), most) for end in self._ends[feature.name])
        first, last = ((feature.at(codes) - least) / spread for codes in ends)
        return first, np.where(interval.low > interval.high, first - 1, last), interval.keeps

    def _span(self, feature: Feature) -> tuple[int, int]:
        span = self.encoder.spans_[feature.name]
        return span.start, span.stop


def _groups(rules: Sequence[Rule], task: Task) -> list[Group]:
    return [_pruned(group) for group in Repairer(rules, task.schema).groups]


def _pruned(group: Group) -> Group:
    """The group without boxes that are empty for every row, and those that lie inside another.

    Told by signs: atoms that compare the same sum with 0 must leave it a sign in common.
    """
    signs = {atoms: found for atoms in group.boxes or () if all((found := _signs(atoms)).values())}
    if not signs or len(signs) > 4 * MAX_BOXES:
        return group
    outer = [a for a, own in signs.items() if not any(_inside(own, signs[b]) for b in signs if b != a)]
    return replace(group, boxes=tuple(outer))


def _signs(atoms: Sequence[Atom]) -> dict[Affine | Atom, frozenset[int]]:
    """What each sum may be by its sign, and a mark for atoms of other kinds."""
    found: dict[Affine | Atom, frozenset[int]] = {}
    for atom in atoms:
        key = atom.left if isinstance(atom, Compare) else atom
        own = SIGNS[atom.op] if isinstance(atom, Compare) else frozenset({0})
        found[key] = found.get(key, own) & own
    return found


def _inside(one: dict[Affine | Atom, frozenset[int]], other: dict[Affine | Atom, frozenset[int]]) -> bool:
    """Whether one box asks for all that the other asks for, and more."""
    return one != other and all(key in one and one[key] <= signs for key, signs in other.items())


def _fits(group: Group) -> bool:
    return not group.wide and group.boxes is not None and 0 < len(group.boxes) <= MAX_BOXES and bool(group.names)


def _columns(parts: Sequence[NDArray[Any]], rows: int) -> NDArray[Any]:
    return np.stack(parts, axis=1) if parts else np.empty((rows, 0))


def _long(places: Sequence[int]) -> Tensor:
    return torch.tensor(places, dtype=torch.long)
