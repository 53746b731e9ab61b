"""Proofs about networks: upper bounds of a score over a region, and branch and bound if they are loose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..encoding import TableEncoder
from ..outcome import Need
from ..region.region import EncodedRegion, Places, encoded_regions
from ..rules.check import Bools
from ..schema import Natural
from .batch import ProofBatch, Reason

if TYPE_CHECKING:
    # It needs torch.
    from ..classifier.reading.networks import Layer, ReluNetwork

Floats = NDArray[np.float64]

# The search for multipliers: the number of steps up, each by a factor of four, and the number of bisections.
STEPS_UP, HALVINGS = 16, 24
SWEEPS = 2
# Relative rounding error of the last sum, and rounding error of a probability in single precision.
ROUNDED, ROUNDED_SHARE = 1e-12, 1e-5


@dataclass(frozen=True)
class LinearBound:
    """A score `weights . x + size . |x| + constant` of encoded rows; `weights` is `rows x width`, or one row."""

    weights: Floats
    size: Floats
    constant: Floats


def peak(areas: Sequence[EncodedRegion], score: LinearBound) -> tuple[Floats, Floats, Bools]:
    """The largest value of a score over the region of each row (-inf if it is empty), and where it lies.

    With rules on several values at once, it is an upper bound; the last result says whether that point keeps them.
    """
    rows, width = areas[0].open.shape[1], len(score.size)
    value, x = np.broadcast_to(score.constant, (rows,)).astype(np.float64), np.zeros((rows, width))
    kept, every = np.ones(rows, dtype=bool), np.arange(rows)
    for area in areas:
        if not len(area.open):
            return np.full(rows, -np.inf), x, ~kept
        best, where = _tightened(area, score) if len(area.weights) else _highest(area, score)
        way = best.argmax(axis=0)
        value = value + best[way, every]
        x[:, area.columns] = where[way, every]
        sums = (area.weights * where).sum(axis=-1) + area.rest
        kept &= (sums <= 0).all(axis=0)[way, every]
    return value, x, kept


def _highest(area: EncodedRegion, score: LinearBound, multipliers: Floats | None = None) -> tuple[Floats, Floats]:
    """The largest value in each alternative and where, `ways x rows` and `ways x rows x columns`."""
    weights, size = score.weights[:, area.columns][None], score.size[area.columns]
    total = np.zeros(area.open.shape)
    if multipliers is not None:
        weights = weights - (multipliers[..., None] * area.weights).sum(axis=0)
        total -= (multipliers * area.rest).sum(axis=0)
    x = np.zeros(area.low.shape)
    numbers = area.numbers
    low, high, own = area.low[..., numbers], area.high[..., numbers], weights[..., numbers]
    at_low, at_high = (own * end + size[numbers] * np.abs(end) for end in (low, high))
    x[..., numbers] = np.where(at_high > at_low, high, low)
    total += np.maximum(at_low, at_high).sum(axis=-1)
    for span in area.spans:
        levels = np.where(area.high[..., span] > 0, weights[..., span] + size[span], -np.inf)
        total += levels.max(axis=-1)
        np.put_along_axis(x[..., span], levels.argmax(axis=-1)[..., None], 1.0, axis=-1)
    return np.where(area.open, total, -np.inf), x


def _tightened(area: EncodedRegion, score: LinearBound) -> tuple[Floats, Floats]:
    """The lowest bound found over multipliers of the comparisons outside the boxes, one after the other."""
    multipliers = np.zeros(area.rest.shape)
    best, where = _highest(area, score)
    reach = np.abs(score.weights).sum() + 1.0
    for k in list(range(len(multipliers))) * (SWEEPS if len(multipliers) > 1 else 1):
        low = np.zeros(area.open.shape)
        high = np.full(area.open.shape, 1.0) * reach / np.maximum(np.abs(area.weights[k]).max(axis=-1), 1e-300)
        for step in range(STEPS_UP + HALVINGS):
            is_rising = step < STEPS_UP
            multipliers[k] = high if is_rising else (low + high) / 2
            found, x = _highest(area, score, multipliers)
            lower = found < best
            best, where = np.where(lower, found, best), np.where(lower[..., None], x, where)
            # The bound falls as the multiplier grows, as long as its maximum violates the comparison.
            breaks = (area.weights[k] * x).sum(axis=-1) + area.rest[k] > 0
            low = np.where(breaks, multipliers[k], low)
            high = np.where(breaks, high * 4 if is_rising else high, multipliers[k] if not is_rising else high)
        multipliers[k] = high
    return best, where


def hull(areas: Sequence[EncodedRegion], width: int) -> tuple[Floats, Floats]:
    """The smallest box around the region of each row, `rows x width`; an empty one is a point at 0."""
    rows = areas[0].open.shape[1]
    low, high = np.zeros((rows, width)), np.zeros((rows, width))
    for area in areas:
        some, is_open = np.asarray(area.open.any(axis=0))[:, None], area.open[..., None]
        least = np.where(is_open, area.low, np.inf).min(axis=0, initial=np.inf)
        most = np.where(is_open, area.high, -np.inf).max(axis=0, initial=-np.inf)
        low[:, area.columns], high[:, area.columns] = np.where(some, least, 0.0), np.where(some, most, 0.0)
    return low, high


def ceiling(network: ReluNetwork, towards: Floats, low: Floats, high: Floats, encoder: TableEncoder) -> LinearBound:
    """A linear upper bound of a sum of the network's logits in a hull, sound under rounding.

    `towards` has a weight per class. A network of one layer is linear itself, so one bound serves all rows.
    """
    size, anyhow = network.sizes(towards)
    last = network.layers[-1]
    weights, constant = towards @ last.weight, towards @ last.bias
    if len(network.layers) > 1:
        limits = _activations(network, low, high, encoder)
        form, extra = _backwards(network.layers[:-1], weights[None, None], limits)
        weights, constant = form[:, 0], constant + extra[:, 0]
    # Encoding subtracts a number's minimum, and the rounding error of that is relative to the whole number.
    for name, (start, spread) in encoder.scale_.items():
        anyhow += 2 * size[encoder.spans_[name].start] * abs(start) / spread
    return LinearBound(np.atleast_2d(weights), size, np.asarray(constant + anyhow + network.slack))


def _activations(network: ReluNetwork, low: Floats, high: Floats, encoder: TableEncoder) -> list[tuple[Floats, Floats]]:
    """Bounds of the input of each ReLU, layer by layer, `rows x units`."""
    limits: list[tuple[Floats, Floats]] = []
    for i, layer in enumerate(network.layers[:-1]):
        both = np.concatenate([layer.weight, -layer.weight])[None]
        form, extra = _backwards(network.layers[:i], both, limits)
        bias = np.concatenate([layer.bias, -layer.bias])
        most = _most(form, low, high, encoder) + extra + bias
        units = len(layer.bias)
        limits.append((-most[:, units:], most[:, :units]))
    return limits


def _backwards(layers: Sequence[Layer], form: Floats, limits: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Linear forms on the inputs, with constants, that bound forms on the last ReLUs' outputs from above.

    `form` is `rows x forms x units`. A ReLU that may switch lies below the line through its ends, and above 0 and above
    its own input; the tighter of these two is used.
    """
    extra = np.zeros(form.shape[:2])
    for layer, (low, high) in zip(reversed(layers), reversed(limits[: len(layers)]), strict=True):
        switches = (low < 0) & (high > 0)
        slope = np.where(switches, high / np.where(switches, high - low, 1.0), high > 0)[:, None]
        lift = np.where(switches, -low, 0.0)[:, None] * slope
        floor = np.where(switches, high > -low, high > 0)[:, None]
        up, down = np.maximum(form, 0.0), np.minimum(form, 0.0)
        extra = extra + (up * lift).sum(axis=-1)
        form = up * slope + down * floor
        extra = extra + form @ layer.bias
        form = form @ layer.weight
    return form, extra


def _most(form: Floats, low: Floats, high: Floats, encoder: TableEncoder) -> Floats:
    """The largest value of forms over a hull, `rows x forms`."""
    total = np.zeros((len(low), form.shape[1]))
    for feature in encoder.schema_:
        span = encoder.spans_[feature.name]
        own = form[..., span]
        if feature.is_number:
            total += np.maximum(own * low[:, None, span], own * high[:, None, span])[..., 0]
        else:
            total += np.where(high[:, None, span] > 0, own, -np.inf).max(axis=-1)
    return total


# The most open parts of one row before it is given up.
PARTS = 256
# The most bisections of one part before its row is given up.
ROUNDS = 64
# The most numbers in an array of rows x forms x columns.
CELLS = 2**22


@dataclass(frozen=True)
class Branches:
    """Parts of the regions of rows: the row of each, and its bounds on the encoded columns."""

    row: Places
    low: Floats
    high: Floats

    def take(self, which: Bools | Places | slice) -> Branches:
        """Some of the parts."""
        return Branches(self.row[which], self.low[which], self.high[which])


class Splitter:
    """Bounds of an outcome's score over the regions of some rows."""

    def __init__(
        self, network: ReluNetwork, needs: list[Need], areas: list[EncodedRegion], encoder: TableEncoder, now: Natural
    ) -> None:
        self.network, self.areas, self.encoder, self.now = network, areas, encoder, now
        self.others = np.stack([need.weights for need in needs])
        # A sum of two numbers is rounded too.
        self.loose = np.array([need.loose + ROUNDED * abs(need.loose) for need in needs])
        self.importance = np.max([network.sizes(t)[0] for t in self.others], axis=0)
        self.rows = areas[0].open.shape[1]

    def refute(self, parts: int) -> tuple[Bools, Bools, Floats]:
        """Bound all rows, and split those that are neither refuted nor reach the class.

        Rows that are proved not to reach it, and rows that seem to, with their encoded candidates.
        """
        undecided, reached = np.zeros(self.rows, dtype=bool), np.zeros(self.rows, dtype=bool)
        x = np.zeros((self.rows, self.encoder.width_))
        left = Branches(np.arange(self.rows), *hull(self.areas, self.encoder.width_))
        for _ in range(ROUNDS):
            left, at, here = self._open(left)
            x[left.row[here]], reached[left.row[here]] = at[here], True
            crowded = np.bincount(left.row, minlength=self.rows) * 2 > parts
            left, whole = self._cut(left.take(~(reached | crowded)[left.row]))
            undecided |= crowded | whole
            left = left.take(~undecided[left.row])
            if not len(left.row):
                break
        undecided[left.row] = True
        return ~(undecided | reached), reached, x

    def _open(self, parts: Branches) -> tuple[Branches, Floats, Bools]:
        """The parts that no bound closes, tightened; the best point of each, and whether it is good enough."""
        widest = max(layer.weight.size for layer in self.network.layers)
        ways = sum(area.low.shape[0] * area.low.shape[2] for area in self.areas)
        size = max(16, CELLS // (2 * max(widest, ways)))
        found = [self._open_chunk(parts.take(slice(s, s + size))) for s in range(0, len(parts.row), size)]
        row, low, high, x = (np.concatenate([f[i] for f in found]) for i in range(4))
        scores = self.network.logits(x) @ self.others.T + self.loose
        return Branches(row, low, high), x, np.concatenate([f[4] for f in found]) & (scores > 0).all(axis=1)

    def _open_chunk(self, parts: Branches) -> tuple[Places, Floats, Floats, Floats, Bools]:
        areas = [area.take(parts.row).within(parts.low, parts.high) for area in self.areas]
        low, high = hull(areas, self.encoder.width_)
        best, x, kept = np.full(len(low), np.inf), np.zeros(low.shape), np.zeros(len(low), dtype=bool)
        for towards, loose in zip(self.others, self.loose, strict=True):
            value, at, fits = peak(areas, ceiling(self.network, towards, low, high, self.encoder))
            lower = value + loose < best
            best, x = np.where(lower, value + loose, best), np.where(lower[:, None], at, x)
            kept = np.where(lower, fits, kept)
        # Anything but a proof keeps a part open, including NaN.
        is_open = ~(best < 0)
        return parts.row[is_open], low[is_open], high[is_open], x[is_open], kept[is_open]

    def _cut(self, parts: Branches) -> tuple[Branches, Bools]:
        """Split each part along the feature with the largest effect; also return rows with a part of a single point."""
        weight = np.stack([self._width(parts, name) for name in self.encoder.schema_.names], axis=1)
        is_point, whole = weight.max(axis=1) <= 0, np.zeros(self.rows, dtype=bool)
        whole[parts.row[is_point]] = True
        parts, chosen = parts.take(~is_point), weight[~is_point].argmax(axis=1)
        first, second = (Branches(parts.row, parts.low.copy(), parts.high.copy()) for _ in range(2))
        for i, name in enumerate(self.encoder.schema_.names):
            cut = self._cut_category if self.encoder.schema_[name].is_category else self._cut_number
            cut(name, np.flatnonzero(chosen == i), first, second)
        both = zip(vars(first).values(), vars(second).values(), strict=True)
        return Branches(*(np.concatenate(pair) for pair in both)), whole

    def _width(self, parts: Branches, name: str) -> Floats:
        """The largest effect of a feature in each part; 0 if it has a single value."""
        span = self.encoder.spans_[name]
        weight = self.importance[span]
        if self.encoder.schema_[name].is_number:
            return np.asarray(weight[0] * (parts.high[:, span.start] - parts.low[:, span.start]))
        allowed = parts.high[:, span] > 0
        several = allowed.sum(axis=1) > 1
        return np.where(several, 2 * np.where(allowed, weight, 0.0).max(axis=1), 0.0)

    def _cut_category(self, name: str, own: Places, first: Branches, second: Branches) -> None:
        """Put half of the allowed levels into one part, half into the other."""
        span = self.encoder.spans_[name]
        allowed = first.high[own, span] > 0
        rank = allowed.cumsum(axis=1)
        early = allowed & (rank <= rank[:, -1:] // 2)
        first.high[own, span], second.high[own, span] = early, allowed & ~early

    def _cut_number(self, name: str, own: Places, first: Branches, second: Branches) -> None:
        """Split at the middle: one part ends on the grid below it, the other starts above it."""
        feature, column = self.encoder.schema_[name], self.encoder.spans_[name].start
        start, spread = self.encoder.scale_[name]
        low, high, now = first.low[own, column], first.high[own, column], self.now[name][first.row[own]]
        middle = (low + high) / 2 * spread + start
        code = np.floor((middle - feature.at(np.array([0]))) / float(feature.step or 1)).astype(np.int64)
        left, right = feature.at(code), feature.at(code + 1)
        # An off-grid present value between the two belongs to the first.
        left = np.where((left < now) & (now < right), now, left)
        first.high[own, column] = np.clip((left - start) / spread, low, high)
        second.low[own, column] = np.clip((right - start) / spread, low, high)


def by_bounds(batch: ProofBatch) -> None:
    """Refute rows by bounds on the scores of a network, or find rows that get the class."""
    network, encoder, outcomes = batch.model.network, batch.model.encoder, batch.outcomes
    if network is None:
        return
    edge = batch.task.classifier.threshold
    # The threshold is in the last layer; in addition, probabilities are rounded.
    built_in = 0.0 if edge is None else math.log(edge / (1 - edge))
    room = 0.0 if outcomes.least is None else ROUNDED_SHARE
    for code in np.unique(outcomes.code).tolist():
        rows = np.flatnonzero(batch.open & batch.whole & (outcomes.code == code))
        if not len(rows):
            continue
        own = [area.take(rows) for area in encoded_regions(batch.region, encoder)]
        now, certain = {n: v[rows] for n, v in batch.region.before.items()}, np.ones(len(rows), dtype=bool)
        # Rows are impossible if each alternative of their outcome is refuted.
        for needs in outcomes.ways(code, room=room, built_in=built_in):
            refuted, reached, x = Splitter(network, needs, own, encoder, now).refute(batch.limits.parts)
            certain &= refuted
            batch.confirm(rows, reached & batch.open[rows], _natural(encoder, x, now))
        batch.settle(rows[certain], Reason.BOUND)


def _natural(encoder: TableEncoder, x: Floats, now: Natural) -> dict[str, NDArray[Any]]:
    """Natural columns of encoded rows whose numbers are grid values or present ones."""
    found: dict[str, NDArray[Any]] = {}
    for feature in encoder.schema_:
        span = encoder.spans_[feature.name]
        if feature.is_category:
            found[feature.name] = x[:, span].argmax(axis=1)
            continue
        low, spread = encoder.scale_[feature.name]
        values, present = feature.at(feature.codes(x[:, span.start] * spread + low)), now[feature.name]
        found[feature.name] = np.where(x[:, span.start] == (present - low) / spread, present, values)
    return found
