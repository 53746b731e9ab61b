"""The feasible region: what rules, bounds and immutables leave to each row of a batch.

Rules that share no counterfactual value are kept apart in groups, and each way of keeping a group's rules is a box.
Nothing legal lies outside the boxes. Rules that a box cannot express (on several values at once) are stored alongside.
Views of it are encoded columns, which bounds of networks are taken over, whole numbers (`codes`) and cells of trees
(`proof.tree_cells`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..encoding import TableEncoder
from ..rules.check import ROUNDING, Bools, holds
from ..rules.nodes import Affine, Formula
from ..rules.normal import Disjunct
from ..schema import Feature, Natural
from .boxes import BatchBoxes, Box, Floats
from .linear import at_most, parted
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


class Region:
    """Everything that the rows of a batch (natural columns) may become under prepared rules."""

    def __init__(self, repairer: Repairer, before: Natural) -> None:
        self.repairer, self.before, self.schema = repairer, before, repairer.schema
        self.boxes = BatchBoxes(self.schema, before)
        self.fixed = tuple(n for n in self.schema.names if n in repairer.frozen)
        """Features that may not change."""

    def __len__(self) -> int:
        return self.boxes.rows

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
        free = (Choice(way.names, (self.boxes.of(way),), None) for way in self.repairer.each_free)
        return (*self.ruled, *free)

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
        return Points(self, row, tuple(self._points(choice, row) for choice in self.choices))

    def _points(self, choice: Choice, row: int) -> Floats:
        """The points of a choice's boxes, each once, `points x names`."""
        tables = []
        for box in (box for box in choice.boxes if box.open[row]):
            grid = np.meshgrid(*(self._values(box, self.schema[n], row) for n in choice.names), indexing="ij")
            tables.append(np.stack([g.ravel() for g in grid], axis=1) if grid else np.zeros((1, 0)))
        if len(tables) == 1:
            return tables[0]
        return np.unique(np.concatenate(tables), axis=0) if tables else np.empty((0, len(choice.names)))

    def _values(self, box: Box, feature: Feature, row: int) -> Floats:
        now = float(self.before[feature.name][row])
        if feature.is_category:
            found = np.flatnonzero(box.levels[feature.name][row]).astype(np.float64)
            stays = box.stays[feature.name][row]
        else:
            limits = box.intervals[feature.name]
            found = feature.at(np.arange(limits.low[row], limits.high[row] + 1))
            stays = limits.keeps[row] and not feature.on_grid(np.asarray([now]))[0]
        return np.append(found, now) if stays else found


@dataclass(frozen=True, eq=False)
class Points:
    """The points of one row's boxes: the product of what each choice leaves, `points x names` each."""

    region: Region
    row: int
    tables: tuple[Floats, ...]

    def __len__(self) -> int:
        return math.prod(map(len, self.tables))

    def natural(self, places: Places | None = None) -> dict[str, NDArray[Any]]:
        """Natural columns of the points at some places, or of all."""
        places = np.arange(len(self)) if places is None else places
        lines = np.unravel_index(places, tuple(map(len, self.tables))) if self.tables else ()
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


@dataclass(frozen=True)
class EncodedRegion:
    """A choice in encoded columns, stacked: `ways x rows x columns`.

    A number's column lies between `low` and `high`; a level's column has `high` 1 where the level is allowed. Sums that
    boxes do not keep are `weights . x + rest <= 0`, `comparisons x ways x (rows x) columns`.
    """

    columns: Places
    numbers: Places
    """Which of `columns` are numbers."""
    spans: tuple[slice, ...]
    """Where among `columns` each category lies."""
    low: Floats
    high: Floats
    open: Bools
    weights: Floats
    rest: Floats

    def take(self, rows: Places) -> EncodedRegion:
        """The same choice for some rows, or for rows more than once."""
        low, high, is_open = self.low[:, rows], self.high[:, rows], self.open[:, rows]
        return replace(self, low=low, high=high, open=is_open, rest=self.rest[:, :, rows])

    def within(self, low: Floats, high: Floats) -> EncodedRegion:
        """The part between bounds on all encoded columns, `rows x width` each."""
        low, high = np.maximum(self.low, low[:, self.columns]), np.minimum(self.high, high[:, self.columns])
        is_open = self.open & (low[..., self.numbers] <= high[..., self.numbers]).all(axis=-1)
        for span in self.spans:
            is_open = is_open & high[..., span].any(axis=-1)
        return replace(self, low=low, high=high, open=is_open)


def encoded_regions(region: Region, encoder: TableEncoder) -> tuple[EncodedRegion, ...]:
    """What rows may become in the columns of an encoder; what cannot change comes first, as a point."""
    fixed = Choice(region.fixed, (region.boxes.of(Disjunct(())),), None)
    return tuple(_area(choice, region, encoder) for choice in (fixed, *region.choices))


def _area(choice: Choice, region: Region, encoder: TableEncoder) -> EncodedRegion:
    choice = choice.open()
    features = [region.schema[n] for n in choice.names]
    local, width = dict[str, slice](), 0
    for feature in features:
        local[feature.name] = slice(width, width + feature.width)
        width += feature.width
    low, high = np.zeros((2, len(choice.boxes), len(region), width))
    for way, box in enumerate(choice.boxes):
        for feature in features:
            span, now = local[feature.name], region.before[feature.name]
            if feature.name in box.intervals:
                low[way, :, span.start], high[way, :, span.start] = _ends(feature, box, region, encoder)
            elif feature.name in box.levels:
                high[way, :, span] = box.levels[feature.name]
            elif feature.is_number:
                start, spread = encoder.scale_[feature.name]
                low[way, :, span.start] = high[way, :, span.start] = (now - start) / spread
            else:
                high[way, :, span] = now[:, None] == np.arange(feature.width)
    lines = [[line for atom in box.way.sums for line in at_most(atom)] for box in choice.boxes]
    most = max(map(len, lines), default=0)
    weights, rest = np.zeros((most, len(lines), 1, width)), np.zeros((most, len(lines), len(region)))
    for way, own in enumerate(lines):
        for k, affine in enumerate(own):
            weights[k, way, 0], rest[k, way] = _encoded_sum(affine, width, region, encoder, local)
    is_open = np.asarray([box.open for box in choice.boxes], dtype=bool).reshape(low.shape[:2])
    every = np.arange(encoder.width_)
    columns = np.concatenate([every[:0], *(every[encoder.spans_[f.name]] for f in features)])
    numbers = np.asarray([local[f.name].start for f in features if f.is_number], dtype=np.int64)
    categories = tuple(local[f.name] for f in features if f.is_category)
    return EncodedRegion(columns, numbers, categories, low, high, is_open, weights, rest)


def _ends(feature: Feature, box: Box, region: Region, encoder: TableEncoder) -> tuple[Floats, Floats]:
    """A number's least and largest column; a present value off the grid counts where it may stay."""
    limits, now = box.intervals[feature.name], region.before[feature.name]
    start, spread = encoder.scale_[feature.name]
    empty = limits.low > limits.high
    low = np.where(empty, np.inf, feature.at(np.where(empty, 0, limits.low)))
    high = np.where(empty, -np.inf, feature.at(np.where(empty, 0, limits.high)))
    low, high = np.where(limits.keeps, np.minimum(low, now), low), np.where(limits.keeps, np.maximum(high, now), high)
    return np.where(box.open, (low - start) / spread, 0.0), np.where(box.open, (high - start) / spread, 0.0)


def _encoded_sum(
    affine: Affine, width: int, region: Region, encoder: TableEncoder, local: dict[str, slice]
) -> tuple[Floats, Floats]:
    """A comparison that boxes do not keep, as weights on a choice's columns and what is added to their sum.

    The sum must not be positive; what the exact reading takes for rounding is subtracted.
    """
    weights, (terms, rest, size) = np.zeros(width), parted(affine, region.before)
    for weight, ref in terms:
        span, feature = local[ref.name], ref.feature
        if feature.is_number:
            low, spread = encoder.scale_[ref.name]
            weights[span.start] += weight * spread
            largest = max(abs(feature.low or 0.0), abs(feature.high or 0.0))
            rest, size = rest + weight * low, size + abs(weight) * (largest + 2 * abs(low))
        else:
            weights[span] += weight * feature.rank_of_level
            size = size + abs(weight) * np.abs(feature.rank_of_level).max()
    return weights, rest - 4 * ROUNDING * size
