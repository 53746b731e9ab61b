"""The region in encoded columns, stacked over the ways of keeping rules: what bounds of networks are taken over."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ..encoding import TableEncoder
from ..rules.check import ROUNDING, Bools
from ..rules.nodes import Affine
from ..rules.normal import Disjunct
from ..schema import Feature
from .boxes import Box, Floats
from .linear import at_most, parted
from .region import Choice, Places, Region


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
        low, high, is_open = self.low[:, rows], self.high[:, rows], self.open[:, rows]
        return replace(self, low=low, high=high, open=is_open, rest=self.rest[:, :, rows])

    def within(self, low: Floats, high: Floats) -> EncodedRegion:
        """The part between bounds on all encoded columns, `rows x width` each."""
        low, high = np.maximum(self.low, low[:, self.columns]), np.minimum(self.high, high[:, self.columns])
        is_open = self.open & (low[..., self.numbers] <= high[..., self.numbers]).all(axis=-1)
        for span in self.spans:
            is_open = is_open & high[..., span].any(axis=-1)
        return replace(self, low=low, high=high, open=is_open)

    def hull(self) -> tuple[Floats, Floats]:
        """The least box around all open ways, `rows x columns`; an empty one is a point at 0."""
        some = np.asarray(self.open.any(axis=0))[:, None]
        low = np.where(self.open[..., None], self.low, np.inf).min(axis=0, initial=np.inf)
        high = np.where(self.open[..., None], self.high, -np.inf).max(axis=0, initial=-np.inf)
        return np.where(some, low, 0.0), np.where(some, high, 0.0)


def encoded_regions(region: Region, encoder: TableEncoder) -> tuple[EncodedRegion, ...]:
    """What rows may become in the columns of an encoder; what cannot change comes first, as a point."""
    fixed = Choice(region.fixed, (region.boxes.of(Disjunct(())),), None)
    return tuple(_area(choice, region, encoder) for choice in (fixed, *region.choices))


def _area(choice: Choice, region: Region, encoder: TableEncoder) -> EncodedRegion:
    choice = choice.open()
    features = [region.schema[n] for n in choice.names]
    starts = np.cumsum([0, *(f.width for f in features)]).tolist()
    local = [slice(a, b) for a, b in pairwise(starts)]
    shape = (len(choice.boxes), len(region), starts[-1])
    low, high = np.zeros(shape), np.zeros(shape)
    for way, box in enumerate(choice.boxes):
        for feature, span in zip(features, local, strict=True):
            if feature.name in box.intervals:
                low[way, :, span.start], high[way, :, span.start] = _ends(feature, box, region, encoder)
            elif feature.name in box.levels:
                high[way, :, span] = box.levels[feature.name]
            elif feature.is_number:
                start, spread = encoder.scale_[feature.name]
                low[way, :, span.start] = high[way, :, span.start] = (region.before[feature.name] - start) / spread
            else:
                high[way, :, span] = region.before[feature.name][:, None] == np.arange(feature.width)
    is_open = np.asarray([b.open for b in choice.boxes], dtype=bool).reshape(shape[:2])
    spans = [encoder.spans_[n] for n in choice.names]
    columns = np.concatenate([np.arange(s.start, s.stop) for s in spans] or [np.empty(0, dtype=np.int64)])
    numbers = [s.start for s, f in zip(local, features, strict=True) if f.is_number]
    categories = tuple(s for s, f in zip(local, features, strict=True) if f.is_category)
    weights, rest = _wide(choice, region, encoder, dict(zip(choice.names, local, strict=True)))
    return EncodedRegion(columns, np.asarray(numbers, dtype=np.int64), categories, low, high, is_open, weights, rest)


def _ends(feature: Feature, box: Box, region: Region, encoder: TableEncoder) -> tuple[Floats, Floats]:
    """A number's least and largest column; a present value off the grid counts where it may stay."""
    limits, now = box.intervals[feature.name], region.before[feature.name]
    start, spread = encoder.scale_[feature.name]
    empty = limits.low > limits.high
    low = np.where(empty, np.inf, feature.at(np.where(empty, 0, limits.low)))
    high = np.where(empty, -np.inf, feature.at(np.where(empty, 0, limits.high)))
    low, high = np.where(limits.keeps, np.minimum(low, now), low), np.where(limits.keeps, np.maximum(high, now), high)
    return np.where(box.open, (low - start) / spread, 0.0), np.where(box.open, (high - start) / spread, 0.0)


def _wide(choice: Choice, region: Region, encoder: TableEncoder, local: dict[str, slice]) -> tuple[Floats, Floats]:
    """The comparisons that boxes do not keep, as sums that must not be positive; equalities are two of them."""
    lines = [[line for atom in box.way.sums for line in at_most(atom)] for box in choice.boxes]
    most = max(map(len, lines), default=0)
    width = sum(s.stop - s.start for s in local.values())
    weights, rest = np.zeros((most, len(lines), 1, width)), np.zeros((most, len(lines), len(region)))
    for way, own in enumerate(lines):
        for k, affine in enumerate(own):
            rest[k, way] = _encoded_sum(affine, region, encoder, local, weights[k, way, 0])
    return weights, rest


def _encoded_sum(
    affine: Affine, region: Region, encoder: TableEncoder, local: dict[str, slice], weights: Floats
) -> Floats:
    """What is added to a sum over a choice's columns, less what the exact reading takes for rounding.

    The weights of the columns are set in place.
    """
    terms, rest, size = parted(affine, region.before)
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
    return rest - 4 * ROUNDING * size
