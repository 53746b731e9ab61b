"""What rows may become: the boxes that the rules leave to each row, as values and as encoded columns.

Rules that share no counterfactual value are kept apart in groups, and each way of keeping a group's rules is a box.
Nothing legal lies outside the boxes. What a box cannot say (a rule on several values at once) is kept beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..encoding import TableEncoder
from ..rules.check import ROUNDING, evaluate, truth
from ..rules.nodes import Affine, Atom, Compare, Formula, Ref
from ..rules.rule import Rule
from ..schema import Feature, Natural, Schema
from .boxes import BoxSearch, Interval
from .repair import Repairer

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Box:
    """One way of keeping some rules, row by row: the codes of each number, the levels of each category."""

    intervals: dict[str, Interval]
    levels: dict[str, Bools]
    open: Bools
    """Whether the box holds anything for the row."""
    wide: tuple[Compare, ...]
    """Linear comparisons of several counterfactual values, which the box does not keep."""


@dataclass(frozen=True)
class Choice:
    """Features whose rules are kept together, and the ways of keeping them."""

    names: tuple[str, ...]
    boxes: tuple[Box, ...]
    formula: Formula | None
    """What has still to be asked of a point in the boxes, or None where the boxes say everything."""


@dataclass(frozen=True)
class Region:
    """All that some rows may become."""

    schema: Schema
    before: Natural
    fixed: tuple[str, ...]
    choices: tuple[Choice, ...]

    @classmethod
    def of(cls, repairer: Repairer, before: Natural) -> Region:
        """What rules, bounds and immutables leave to rows."""
        schema = repairer.schema
        search = BoxSearch(schema, repairer.units, before, before)
        choices, free = [], set(schema.names) - repairer.frozen
        for group in repairer.groups:
            if group.boxes is None:
                # Too many ways to list: the rules are left out of the boxes and asked of each point.
                boxes: tuple[Box, ...] = (_box(search, (), group.names),)
            else:
                boxes = tuple(_box(search, atoms, group.names) for atoms in group.boxes)
            choices.append(Choice(group.names, boxes, group.formula if group.wide else None))
            free -= set(group.names)
        choices += [Choice((n,), (_box(search, (), (n,)),), None) for n in schema.names if n in free]
        fixed = tuple(n for n in schema.names if n in repairer.frozen)
        return cls(schema, before, fixed, tuple(choices))

    def __len__(self) -> int:
        return len(self.before[self.schema.names[0]])

    @property
    def is_exact(self) -> bool:
        """Whether every point of the boxes is legal."""
        return all(choice.formula is None for choice in self.choices)

    @property
    def nothing(self) -> Bools:
        """Rows for which the rules leave nothing at all."""
        found = np.zeros(len(self), dtype=bool)
        for choice in self.choices:
            found |= ~np.logical_or.reduce([b.open for b in choice.boxes], axis=0, initial=False)
        return found

    def uncertain(self, rules: Sequence[Rule]) -> Bools:
        """Rows with a value that a rule freezes and that rounding alone keeps off the grid.

        Such a rule would also be kept by the grid's own value, which the boxes leave out.
        """
        found = np.zeros(len(self), dtype=bool)
        frozen = {r.freezes for r in rules} - set(self.schema.immutable)
        for feature in (f for f in self.schema if f.is_number and f.name in frozen):
            now = self.before[feature.name]
            grid = feature.at(feature.codes(now))
            found |= (grid != now) & (np.abs(grid - now) <= ROUNDING * (np.abs(grid) + np.abs(now)))
        return found


def width_of_boxes(repairer: Repairer) -> int:
    """How many encoded columns all the boxes of one row have together."""
    widths = {f.name: f.width for f in repairer.schema}
    return sum(len(g.boxes or ((),)) * sum(widths[n] for n in g.names) for g in repairer.groups)


def _box(search: BoxSearch, atoms: Sequence[Atom], names: Sequence[str]) -> Box:
    own: dict[str, list[Atom]] = {name: [] for name in names}
    is_open, wide = np.ones(search.rows, dtype=bool), []
    for atom in atoms:
        features = atom.primed
        if not features:
            is_open &= truth(atom, search.before, search.before)
        elif not atom.is_wide:
            own[features[0].name].append(atom)
        elif isinstance(atom, Compare) and not atom.left.folds:
            wide.append(atom)
    intervals, levels = {}, {}
    for name in names:
        feature = search.schema[name]
        if feature.is_number:
            limits = intervals[name] = search.interval(feature, own[name])
            is_open &= (limits.low <= limits.high) | limits.keeps
        else:
            levels[name] = search.levels(feature, own[name])
            is_open &= levels[name].any(axis=1)
    return Box(intervals, levels, is_open, tuple(wide))


def ends(feature: Feature, limits: Interval, now: Floats) -> tuple[Floats, Floats]:
    """The least and the largest value of an interval; a present value off the grid counts where it may stay."""
    empty = limits.low > limits.high
    low = np.where(empty, np.inf, feature.at(np.where(empty, 0, limits.low)))
    high = np.where(empty, -np.inf, feature.at(np.where(empty, 0, limits.high)))
    return np.where(limits.keeps, np.minimum(low, now), low), np.where(limits.keeps, np.maximum(high, now), high)


@dataclass(frozen=True)
class EncodedRegion:
    """A choice in encoded columns, stacked: `ways x rows x columns`.

    A number's column lies between `low` and `high`; a level's column has `high` 1 where the level is allowed. In
    `wide`, the comparisons are `weights . x + rest <= 0` for each way, `comparisons x ways x (rows x) columns`.
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
        return EncodedRegion(
            self.columns, self.numbers, self.spans, self.low[:, rows], self.high[:, rows], self.open[:, rows],
            self.weights, self.rest[:, :, rows],
        )  # fmt: skip

    def within(self, low: Floats, high: Floats) -> EncodedRegion:
        """The part between bounds on all encoded columns, `rows x width` each."""
        low, high = np.maximum(self.low, low[:, self.columns]), np.minimum(self.high, high[:, self.columns])
        is_open = self.open & (low[..., self.numbers] <= high[..., self.numbers]).all(axis=-1)
        for span in self.spans:
            is_open = is_open & high[..., span].any(axis=-1)
        return EncodedRegion(self.columns, self.numbers, self.spans, low, high, is_open, self.weights, self.rest)

    def hull(self) -> tuple[Floats, Floats]:
        """The least box around all open ways, `rows x columns`; an empty one is a point at 0."""
        some = np.asarray(self.open.any(axis=0))[:, None]
        low = np.where(self.open[..., None], self.low, np.inf).min(axis=0, initial=np.inf)
        high = np.where(self.open[..., None], self.high, -np.inf).max(axis=0, initial=-np.inf)
        return np.where(some, low, 0.0), np.where(some, high, 0.0)


def encoded_regions(reach: Region, encoder: TableEncoder) -> tuple[EncodedRegion, ...]:
    """What rows may become in the columns of an encoder; what cannot change is the first area, a point."""
    return (_point(reach, encoder), *(_area(choice, reach, encoder) for choice in reach.choices))


def _point(reach: Region, encoder: TableEncoder) -> EncodedRegion:
    boxes = (Box({}, {}, np.ones(len(reach), dtype=bool), ()),)
    area = _area(Choice(reach.fixed, boxes, None), reach, encoder)
    start = 0
    for name in reach.fixed:
        feature, now = reach.schema[name], reach.before[name]
        if feature.is_number:
            low, spread = encoder.scale_[name]
            area.low[0, :, start] = area.high[0, :, start] = (now - low) / spread
        else:
            area.high[0, np.arange(len(now)), start + now] = 1.0
        start += feature.width
    return area


def _area(choice: Choice, reach: Region, encoder: TableEncoder) -> EncodedRegion:
    features = [reach.schema[n] for n in choice.names]
    starts = np.cumsum([0, *(f.width for f in features)]).tolist()
    local = [slice(a, b) for a, b in pairwise(starts)]
    shape = (len(choice.boxes), len(reach), starts[-1])
    low, high = np.zeros(shape), np.zeros(shape)
    for way, box in enumerate(choice.boxes):
        for feature, span in zip(features, local, strict=True):
            if feature.name in box.intervals:
                _fill(low[way, :, span.start], high[way, :, span.start], feature, box, reach, encoder)
            elif feature.name in box.levels:
                high[way, :, span] = box.levels[feature.name]
    is_open = np.asarray([b.open for b in choice.boxes], dtype=bool).reshape(shape[:2])
    spans = [encoder.spans_[n] for n in choice.names]
    columns = np.concatenate([np.arange(s.start, s.stop) for s in spans] or [np.empty(0, dtype=np.int64)])
    numbers = [s.start for s, f in zip(local, features, strict=True) if f.is_number]
    categories = tuple(s for s, f in zip(local, features, strict=True) if f.is_category)
    weights, rest = _wide(choice, reach, encoder, dict(zip(choice.names, local, strict=True)))
    return EncodedRegion(columns, np.asarray(numbers, dtype=np.int64), categories, low, high, is_open, weights, rest)


def _fill(low: Floats, high: Floats, feature: Feature, box: Box, reach: Region, encoder: TableEncoder) -> None:
    least, most = ends(feature, box.intervals[feature.name], reach.before[feature.name])
    start, spread = encoder.scale_[feature.name]
    low[:] = np.where(box.open, (least - start) / spread, 0.0)
    high[:] = np.where(box.open, (most - start) / spread, 0.0)


def _wide(choice: Choice, reach: Region, encoder: TableEncoder, local: dict[str, slice]) -> tuple[Floats, Floats]:
    """The comparisons that boxes do not keep, as sums that must not be positive; equalities are two of them."""
    lines = [[line for atom in box.wide for line in at_most(atom)] for box in choice.boxes]
    most = max(map(len, lines), default=0)
    width = sum(s.stop - s.start for s in local.values())
    weights, rest = np.zeros((most, len(lines), 1, width)), np.zeros((most, len(lines), len(reach)))
    for way, own in enumerate(lines):
        for k, affine in enumerate(own):
            weights[k, way, 0], rest[k, way] = _encoded_sum(affine, reach, encoder, local)
    return weights, rest


def at_most(atom: Compare) -> list[Affine]:
    """The comparison as expressions that must not be above 0; a strict one is taken as not strict."""
    if atom.op in ("<", "<="):
        return [atom.left]
    return [atom.left * -1.0] if atom.op in (">", ">=") else [atom.left, atom.left * -1.0]


def _encoded_sum(
    affine: Affine, reach: Region, encoder: TableEncoder, local: dict[str, slice]
) -> tuple[Floats, Floats]:
    """Weights on a choice's columns and what is added to them, less what the exact reading takes for rounding."""
    weights = np.zeros(max((s.stop for s in local.values()), default=0))
    present = Affine(tuple(t for t in affine.terms if not _is_primed(t[1])), affine.constant)
    rest, size = evaluate(present, reach.before, reach.before)
    for weight, ref in affine.terms:
        if not _is_primed(ref):
            continue
        assert isinstance(ref, Ref)
        span, feature = local[ref.name], ref.feature
        if feature.is_number:
            low, spread = encoder.scale_[ref.name]
            weights[span.start] += weight * spread
            rest, size = rest + weight * low, size + abs(weight) * (_largest(feature) + 2 * abs(low))
        else:
            weights[span] += weight * feature.rank_of_level
            size = size + abs(weight) * np.abs(feature.rank_of_level).max()
    return weights, np.broadcast_to(rest - 4 * ROUNDING * size, (len(reach),))


def _is_primed(ref: Any) -> bool:
    return isinstance(ref, Ref) and ref.primed


def _largest(feature: Feature) -> float:
    return max(abs(feature.low or 0.0), abs(feature.high or 0.0))
