"""Inference of a generator: the decisions of `cvae` and `heads` without gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor, nn

from .cvae import SMALLEST_VARIANCE, ConditionalVAE
from .heads import EDGE, NEVER, Allowed, Boxes, Heads

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Places = NDArray[np.int64]
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class Decisions:
    """The changes of draws: for each mutable category whether it changes, and to which level, `n x k`.

    The same for mutable numbers, `n x m`; `value` is encoded.
    """

    new_level: Bools
    level: Places
    new_value: Bools
    value: Floats


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise of the draws, the same for every row.

    Noise on the latent point, `lines x latent`, and on the heads' scores, `lines x outputs`; for each draw the `line`
    that it uses, and `reach`, the factor on its changes of numbers.
    """

    latent: Floats
    jitter: Floats
    line: Places
    reach: Floats


@dataclass(frozen=True, eq=False)
class _Rows:
    """Present values, shared by all draws of a row: levels, `r x 1 x k x l`, their codes, and numbers, `r x 1 x m`."""

    levels: Bools
    codes: Places
    numbers: Floats


@dataclass(frozen=True, eq=False)
class _Choices:
    """The values that draws may take, see `heads.Choices`; forced gates are `r x n x (k + m)`, categories first."""

    levels: Bools
    low: Floats
    high: Floats
    must_open: Bools
    must_close: Bools


class Inference:
    """Draws of a fitted generator with gates, in double precision."""

    def __init__(self, model: ConditionalVAE) -> None:
        assert model.heads is not None
        self.architecture, self.classes = model.architecture, model.layout.classes
        self.columns = model.columns.cpu().numpy()
        self.encoder, self.decoder = _layers(model.encoder), _layers(model.decoder)
        self.mean, self.spread, self.output = _linear(model.mean), _linear(model.spread), _linear(model.output)
        self.choose = _Heads(model.heads)

    def draws(self, x: Floats, y_target: Places, noise: Noise, allowed: Allowed) -> Decisions:
        """Decisions for rows `r x d`, one per draw of the noise: `r * draws` of them, row by row."""
        condition = (y_target[:, None] == np.arange(1, self.classes)).astype(np.float64)
        row = np.repeat(np.arange(len(x)), len(noise.latent))
        z = self._latent(x, condition, noise.latent)
        seen = [z, condition[row], *([x[row]] if self.architecture.skip else [])]
        outputs = _through([*self.decoder, self.output], np.concatenate(seen, axis=1))
        scores = (outputs.reshape(len(x), *noise.jitter.shape) + noise.jitter)[:, noise.line]
        return self.choose(scores, noise.reach, x, allowed)

    def _latent(self, x: Floats, condition: Floats, noise: Floats) -> Floats:
        """Latent points, `(r * lines) x latent`."""
        hidden = np.maximum(_through(self.encoder, np.concatenate([x[:, self.columns], condition], axis=1)), 0.0)
        mean = _through([self.mean], hidden)[:, None]
        if noise.any():
            raw, is_published = _through([self.spread], hidden), self.architecture.variance == "sigmoid"
            variance = 0.5 + expit(raw) if is_published else np.logaddexp(0.0, raw) + SMALLEST_VARIANCE
            mean = mean + np.sqrt(variance)[:, None] * noise
        return mean.reshape(-1, mean.shape[2])


class _Heads:
    """`Heads` without gradients; categories come before numbers wherever one array has both."""

    def __init__(self, heads: Heads) -> None:
        self.features, self.real = heads.features, heads.real.cpu().numpy()
        self.level_columns, self.number_columns = _numpy(heads.level_columns), _numpy(heads.number_columns)
        self.level_outputs, self.number_outputs = _numpy(heads.level_outputs), _numpy(heads.number_outputs)
        self.gates = np.concatenate([_numpy(heads.category_gates), _numpy(heads.number_gates)])
        self.slot_of_column, self.number_of_column = _numpy(heads.slot_of_column), _numpy(heads.number_of_column)
        self.low, self.high, self.step = _numpy(heads.ranges)

    def __call__(self, scores: Floats, reach: Floats, x: Floats, allowed: Allowed) -> Decisions:
        """Decisions from scores `r x n x outputs` for rows `x`, `r x d`: `r * n` of them, row by row.

        A number's score of 0 means its present value, so `reach`, `n`, times the score goes farther in the same
        direction.
        """
        columns = scores[:, :, self.features :]
        gates, values = scores[:, :, self.gates] > 0, columns[:, :, self.number_outputs] * reach[:, None]
        levels = columns[:, :, self.level_outputs].reshape(*scores.shape[:2], *self.real.shape)
        present = (x[:, self.level_columns].reshape(len(x), 1, *self.real.shape) > 0.5) & self.real
        codes = np.where(present.any(axis=3), present @ np.arange(self.real.shape[1]), -1)
        rows = _Rows(present, codes, x[:, None, self.number_columns])
        free = self._free(rows)
        drawn = self._decided(gates, levels, values, free, rows)
        if allowed.groups:
            drawn = self._decided(gates, levels, values, self._within(rows, free, drawn, allowed), rows)
        count = scores.shape[0] * scores.shape[1]
        return Decisions(*(part.reshape(count, part.shape[2]) for part in vars(drawn).values()))

    def _free(self, rows: _Rows) -> _Choices:
        """The values that each draw may take without rules."""
        others = self.real & ~rows.levels
        closed = _moveless(others, self.low, self.high, rows.numbers)
        return _Choices(others, self.low, self.high, np.zeros_like(closed), closed)

    def _within(self, rows: _Rows, free: _Choices, draft: Decisions, allowed: Allowed) -> _Choices:
        """The free choices that remain inside the box nearest to the draft, for each group of rules."""
        shape, count = draft.new_value.shape, len(self.real)
        values = np.where(draft.new_value, draft.value, rows.numbers)
        others = np.broadcast_to(free.levels, (*shape[:2], *self.real.shape)).copy()
        low, high = (np.tile(end, (*shape[:2], 1)) for end in (self.low, self.high))
        stays, closed = np.ones((*shape[:2], len(self.gates)), dtype=bool), np.tile(free.must_close, (1, shape[1], 1))
        for boxes in allowed.groups:
            category, level = np.divmod(self.slot_of_column[_numpy(boxes.level_columns)], max(1, self.real.shape[1]))
            own = self.number_of_column[_numpy(boxes.number_columns)]
            drawn = np.where(draft.new_level, draft.level, rows.codes)[..., category] == level
            box = _nearest(boxes, drawn, values[..., own], rows.numbers[..., own])
            others[..., category, level] &= box.levels
            low[..., own], high[..., own], stays[..., count + own] = box.low, box.high, box.keeps
            for one in np.unique(category):
                its = category == one
                stays[..., one] = (box.levels[..., its] & (rows.codes[..., [one]] == level[its])).any(axis=2)
                closed[..., one] = ~others[..., one, :].any(axis=2)
            closed[..., count + own] = _fixed(box.low, box.high, rows.numbers[..., own])
        return _Choices(others, low, high, ~stays & ~closed, closed)

    def _decided(self, gates: Bools, levels: Floats, values: Floats, choices: _Choices, rows: _Rows) -> Decisions:
        opened = (gates & ~choices.must_close) | choices.must_open
        count = self.real.shape[0]
        best, which = np.zeros(levels.shape[:3], dtype=np.int64), np.nonzero(opened[..., :count])
        allowed = np.broadcast_to(choices.levels, levels.shape)[which]
        best[which] = np.where(allowed, levels[which], NEVER).argmax(axis=1) if len(allowed) else 0
        value = self._value(values, choices, rows.numbers)
        return Decisions(opened[..., :count], best, opened[..., count:], value)

    def _value(self, scores: Floats, choices: _Choices, present: Floats) -> Floats:
        """The same as `Heads._value`."""
        low, width = choices.low, choices.high - choices.low
        place = np.clip((present - low) / np.maximum(width, TINY), EDGE, 1 - EDGE)
        value = low + width * expit(scores + np.log(place / (1 - place)))
        return np.asarray(self.low + self.step * np.round((value - self.low) / self.step))


def _moveless(others: Bools, low: Floats, high: Floats, present: Floats) -> Bools:
    """Features without another value to change to, categories before numbers."""
    return np.concatenate([~others.any(axis=3), _fixed(low, high, present)], axis=2)


def _fixed(low: Floats, high: Floats, present: Floats) -> Bools:
    """Numbers without another value to change to."""
    return np.asarray((low > high) | ((low == high) & (low == present)))


@dataclass(frozen=True, eq=False)
class _Box:
    """One box of `heads.Boxes` per draw."""

    levels: Bools
    low: Floats
    high: Floats
    keeps: Bools


def _nearest(boxes: Boxes, drawn: Bools, values: Floats, present: Floats) -> _Box:
    """The possible box nearest to each draft; see `heads.nearest_box`."""
    possible, levels, low, high, keeps = (
        _numpy(part) for part in (boxes.possible, boxes.levels, boxes.low, boxes.high, boxes.keeps)
    )
    # The number of drawn levels that are not allowed, as a product of whole numbers.
    cost = drawn.astype(np.float64) @ (~levels).astype(np.float64).swapaxes(1, 2)
    cost = cost + _number_cost(low[:, None], high[:, None], keeps[:, None], values, present)
    best, row = np.where(possible[:, None], cost, np.inf).argmin(axis=2), np.arange(len(low))[:, None]
    some = possible[row, best][..., None]
    first = low[row, best]
    return _Box(levels[row, best] & some, first, np.where(some, high[row, best], first - 1), keeps[row, best] & some)


def _number_cost(low: Floats, high: Floats, keeps: Bools, values: Floats, present: Floats) -> Floats:
    """Distances of drafts from each box, `r x n x boxes`."""
    drawn = values[:, :, None]
    outside = np.maximum(low - drawn, 0.0) + np.maximum(drawn - high, 0.0)
    outside = np.where(low <= high, outside, np.inf)
    staying = np.where(keeps, np.abs(present - values)[:, :, None], np.inf)
    return np.asarray(np.minimum(outside, staying).sum(axis=3))


Linear = tuple[Tensor, Tensor]
"""Weights `inputs x outputs`, and biases."""


def _through(layers: list[Linear], x: Floats) -> Floats:
    """Apply linear layers with ReLUs in between; in torch, which respects its number of threads."""
    hidden = torch.from_numpy(x)
    for weight, bias in layers[:-1]:
        hidden = torch.addmm(bias, hidden, weight).relu_()
    return np.asarray(torch.addmm(layers[-1][1], hidden, layers[-1][0]).numpy())


def _layers(stack: nn.Sequential) -> list[Linear]:
    """Linear layers with the batch norm after each folded in, as in evaluation."""
    found: list[Linear] = []
    for part in stack:
        if isinstance(part, nn.Linear):
            found.append(_linear(part))
        elif isinstance(part, nn.BatchNorm1d):
            assert part.running_mean is not None
            assert part.running_var is not None
            factor = part.weight.detach().double() / (part.running_var.double() + part.eps).sqrt()
            weight, bias = found[-1]
            shift = part.bias.detach().double()
            found[-1] = weight * factor, (bias - part.running_mean.double()) * factor + shift
    return found


def _linear(layer: nn.Linear) -> Linear:
    return layer.weight.detach().double().T.contiguous(), layer.bias.detach().double()


def _numpy(tensor: Tensor) -> NDArray[Any]:
    """A tensor as an array, floats in double precision."""
    return np.asarray((tensor.detach().double() if tensor.is_floating_point() else tensor.detach()).cpu().numpy())
