"""Upper bounds of a score over what rows may become.

A linear score is largest at an end of each number's interval and at the best allowed level of each category, in the
best of the rules' boxes: exact. Rules on several values at once enter with multipliers: any multipliers give a true
bound, so the best ones that bisection finds may be used. Above a ReLU network lies a linear function (CROWN: Zhang et
al. 2018), whose largest value is a bound again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..encoding import TableEncoder
from .network import Layer, Network
from .reach import Area, Bools, Floats

# Multipliers are looked for by so many steps up, each to four times as much, and so many halvings.
STEPS_UP, HALVINGS = 16, 24
SWEEPS = 2


@dataclass(frozen=True)
class Linear:
    """A score `weights . x + size . |x| + constant` of encoded rows; `weights` is `rows x width`, or one row."""

    weights: Floats
    size: Floats
    constant: Floats


@dataclass(frozen=True)
class Peak:
    """The largest value of a score over what each row may become (-inf: nothing), and where it lies.

    `kept`: that place also keeps the comparisons which the boxes do not.
    """

    value: Floats
    x: Floats
    kept: Bools


def peak(areas: Sequence[Area], score: Linear) -> Peak:
    """The largest value of a score, or, with rules on several values at once, a bound of it."""
    rows, width = areas[0].open.shape[1], len(score.size)
    value, x = np.broadcast_to(score.constant, (rows,)).astype(np.float64), np.zeros((rows, width))
    kept, every = np.ones(rows, dtype=bool), np.arange(rows)
    for area in areas:
        if not len(area.open):
            return Peak(np.full(rows, -np.inf), x, ~kept)
        best, where = _tightened(area, score) if len(area.weights) else _highest(area, score)
        way = best.argmax(axis=0)
        value = value + best[way, every]
        x[:, area.columns] = where[way, every]
        sums = (area.weights * where).sum(axis=-1) + area.rest
        kept &= (sums <= 0).all(axis=0)[way, every]
    return Peak(value, x, kept)


def _highest(area: Area, score: Linear, multipliers: Floats | None = None) -> tuple[Floats, Floats]:
    """The largest value in each way and where, `ways x rows` and `ways x rows x columns`."""
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


def _tightened(area: Area, score: Linear) -> tuple[Floats, Floats]:
    """The lowest bound found over multipliers of the comparisons that boxes do not keep, each in its turn."""
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
            # The bound falls with the multiplier as long as its peak breaks the comparison.
            breaks = (area.weights[k] * x).sum(axis=-1) + area.rest[k] > 0
            low = np.where(breaks, multipliers[k], low)
            high = np.where(breaks, high * 4 if is_rising else high, multipliers[k] if not is_rising else high)
        multipliers[k] = high
    return best, where


def hull(areas: Sequence[Area], width: int) -> tuple[Floats, Floats]:
    """The least box around what each row may become, `rows x width`."""
    rows = areas[0].open.shape[1]
    low, high = np.zeros((rows, width)), np.zeros((rows, width))
    for area in areas:
        low[:, area.columns], high[:, area.columns] = area.hull()
    return low, high


def ceiling(network: Network, towards: Floats, low: Floats, high: Floats, encoder: TableEncoder) -> Linear:
    """A linear score above a sum of the network's logits everywhere in a hull, whatever the rounding.

    `towards` has a weight for each class. A network of one layer is such a score itself, for all rows at once.
    """
    size, anyhow = network.sizes(towards)
    last = network.layers[-1]
    weights, constant = towards @ last.weight, towards @ last.bias
    if len(network.layers) > 1:
        limits = _activations(network, low, high, encoder)
        form, extra = _backwards(network.layers[:-1], weights[None, None], limits)
        weights, constant = form[:, 0], constant + extra[:, 0]
    # Encoding subtracts a number's minimum, and what is cut off there counts by its full length.
    for name, (start, spread) in encoder.scale_.items():
        anyhow += 2 * size[encoder.spans_[name].start] * abs(start) / spread
    return Linear(np.atleast_2d(weights), size, np.asarray(constant + anyhow + network.slack))


def _activations(network: Network, low: Floats, high: Floats, encoder: TableEncoder) -> list[tuple[Floats, Floats]]:
    """Bounds of what each ReLU gets, layer by layer, `rows x units`."""
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
    """Forms on the last ReLUs' outputs as forms on the inputs that are nowhere smaller, with what is added.

    `form` is `rows x forms x units`. A ReLU that may switch lies below the line through its ends, and above 0
    and above its own input: the nearer of these two is taken.
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
