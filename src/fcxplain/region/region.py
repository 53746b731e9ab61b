"""The feasible region: what rules, bounds and immutables leave to each row of a batch.

Rules that share no counterfactual value are kept apart in groups, and each way of keeping a group's rules is a box.
Nothing legal lies outside the boxes. Rules that a box cannot express (on several values at once) are stored alongside.
Views of it are whole numbers (`codes`), encoded columns (`encoded`) and cells of trees (`proof.tree_cells`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rules.check import ROUNDING, Bools, holds
from ..rules.nodes import Formula
from ..rules.normal import Disjunct
from ..schema import Feature, Natural, Schema
from .boxes import BatchBoxes, Box, Floats
from .program import SECONDS
from .repair import Repaired, Repairer

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Choice:
    """Features whose rules are kept together, and the ways of keeping them."""

    names: tuple[str, ...]
    boxes: tuple[Box, ...]
    formula: Formula | None
    """What is still to be checked of a point in the boxes, or None where the boxes express everything."""

    def open(self) -> Choice:
        """Without the boxes that are closed to every row; one box is always kept."""
        return replace(self, boxes=tuple(box for box in self.boxes if box.open.any()) or self.boxes[:1])


@dataclass(frozen=True, eq=False)
class Region:
    """Everything that the rows of a batch (natural columns) may become under prepared rules."""

    repairer: Repairer
    before: Natural

    def __len__(self) -> int:
        return len(self.before[self.schema.names[0]])

    @property
    def schema(self) -> Schema:
        """The features."""
        return self.repairer.schema

    @cached_property
    def fixed(self) -> tuple[str, ...]:
        """Features that may not change."""
        return tuple(n for n in self.schema.names if n in self.repairer.frozen)

    @cached_property
    def boxes(self) -> BatchBoxes:
        """The boxes of the rows."""
        return BatchBoxes(self.schema, self.before)

    @cached_property
    def ruled(self) -> tuple[Choice, ...]:
        """What the rules leave; rules with too many ways to list are checked at each point."""
        return tuple(
            Choice(g.names, tuple(map(self.boxes.of, g.ways)), g.formula if g.wide else None)
            for g in self.repairer.groups
        )

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """Everything that may change: what the rules leave, then each feature without rules."""
        alone = (self.boxes.of(Disjunct((name,))) for name in self.repairer.free.names)
        return (*self.ruled, *(Choice(box.way.names, (box,), None) for box in alone))

    @property
    def is_exact(self) -> bool:
        """Whether every point of the boxes is legal."""
        return not any(group.wide for group in self.repairer.groups)

    @property
    def nothing(self) -> Bools:
        """Rows for which the rules leave nothing at all."""
        found = np.zeros(len(self), dtype=bool)
        for choice in self.choices:
            shut = np.ones(len(self), dtype=bool)
            for box in choice.boxes:
                shut &= ~box.open
                if not shut.any():
                    break
            found |= shut
        return found

    @property
    def uncertain(self) -> Bools:
        """Rows with a value that a rule freezes and that rounding alone keeps off the grid.

        Such a rule would also be kept by the grid's own value, which the boxes leave out.
        """
        found = np.zeros(len(self), dtype=bool)
        for feature in (f for f in self.schema if f.is_number and f.mutable and f.name in self.fixed):
            now = self.before[feature.name]
            grid = feature.at(feature.codes(now))
            found |= (grid != now) & (np.abs(grid - now) <= ROUNDING * (np.abs(grid) + np.abs(now)))
        return found

    def contains(self, after: Natural, row: Places | None = None) -> Bools:
        """Whether candidates keep bounds, grids, immutables and rules; `row` says whose each is, else in order."""
        before = self.before if row is None else {n: v[row] for n, v in self.before.items()}
        kept = holds(self.repairer.rules, before, after)
        for feature in self.schema:
            now, then = before[feature.name], after[feature.name]
            same = feature.same(now, then)
            if feature.mutable:
                # The present value may stay, any other must be legal.
                same = (same & feature.may_stay(now)) | (feature.on_grid(then) & feature.may_give_way(now))
            kept = kept & same
        return kept

    def nearest(self, after: Natural, *, seconds: float = SECONDS, exact: bool = True) -> Repaired:
        """The legal rows nearest to the requested ones, one for each row; see `Repairer.nearest`."""
        return self.repairer.nearest_in(self.boxes, after, seconds, exact)

    @cached_property
    def sizes(self) -> Floats:
        """How many points the boxes of each choice have, `rows x choices`."""
        counts = [sum((self._count(box) for box in c.boxes), np.zeros(len(self))) for c in self.choices]
        return np.stack(counts, axis=1) if counts else np.ones((len(self), 0))

    @property
    def count(self) -> Floats:
        """How many legal rows each row has at most."""
        return np.asarray(self.sizes.prod(axis=1))

    def _count(self, box: Box) -> Floats:
        total = box.open.astype(np.float64)
        for name, limits in box.intervals.items():
            off_grid = limits.keeps & ~self.schema[name].on_grid(self.before[name])
            total = total * (np.maximum(limits.high - limits.low + 1, 0) + off_grid)
        for name, allowed in box.levels.items():
            total = total * (allowed.sum(axis=1) + box.stays[name])
        return total

    def points(self, row: int) -> Points:
        """The points of one row's boxes; use only where there are few, since a grid may have billions."""
        tables = tuple(_choice_points(choice, self, row) for choice in self.choices)
        return Points(self, row, tables)


@dataclass(frozen=True, eq=False)
class Points:
    """The points of one row's boxes: the product of what each choice leaves, `points x names` each."""

    region: Region
    row: int
    tables: tuple[Floats, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many points each choice has."""
        return tuple(map(len, self.tables))

    def __len__(self) -> int:
        return math.prod(self.shape)

    def natural(self, places: Places | None = None) -> dict[str, NDArray[Any]]:
        """Natural columns of the points at some places, or of all."""
        places = np.arange(len(self)) if places is None else places
        lines = np.unravel_index(places, self.shape) if self.shape else ()
        found = {n: np.full(len(places), self.region.before[n][self.row]) for n in self.region.fixed}
        for choice, table, line in zip(self.region.choices, self.tables, lines, strict=True):
            for j, name in enumerate(choice.names):
                column = table[line, j]
                found[name] = column if self.region.schema[name].is_number else column.astype(np.int64)
        return {n: found[n] for n in self.region.schema.names}

    def legal(self) -> dict[str, NDArray[Any]]:
        """Natural columns of the points that are legal rows."""
        found = self.natural()
        if self.region.is_exact:
            return found
        kept = self.region.contains(found, np.full(len(self), self.row))
        return {n: v[kept] for n, v in found.items()}


def _choice_points(choice: Choice, region: Region, row: int) -> Floats:
    """The points of a choice's boxes, each once, `points x names`."""
    tables = [_box_points(box, region, row) for box in choice.boxes if box.open[row]]
    if not tables:
        return np.empty((0, len(choice.names)))
    return tables[0] if len(tables) == 1 else np.unique(np.concatenate(tables), axis=0)


def _box_points(box: Box, region: Region, row: int) -> Floats:
    values = [_values(box, region.schema[n], float(region.before[n][row]), row) for n in box.way.names]
    grid = np.meshgrid(*values, indexing="ij")
    return np.stack([g.ravel() for g in grid], axis=1) if grid else np.zeros((1, 0))


def _values(box: Box, feature: Feature, now: float, row: int) -> Floats:
    if feature.is_category:
        levels = np.flatnonzero(box.levels[feature.name][row]).astype(np.float64)
        return np.append(levels, now) if box.stays[feature.name][row] else levels
    limits = box.intervals[feature.name]
    grid = feature.at(np.arange(limits.low[row], limits.high[row] + 1))
    stays = limits.keeps[row] and not feature.on_grid(np.asarray([now]))[0]
    return np.append(grid, now) if stays else grid
