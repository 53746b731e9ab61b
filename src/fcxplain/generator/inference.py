"""A generator as it explains: the decisions of `cvae` and `heads` without gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor, nn

from .cvae import SMALLEST_VARIANCE, ConditionalVAE
from .heads import EDGE, NEVER, Heads
from .rule_layer import Allowed, Boxes

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Places = NDArray[np.int64]
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class Decisions:
    """What draws would change: for each mutable category whether it changes and the level, `n x k`; numbers likewise.

    `values` are encoded, `n x m`.
    """

    new_level: Bools
    level: Places
    new_value: Bools
    value: Floats


@dataclass(frozen=True, eq=False)
class Noise:
    """What the draws of every row differ by, a line for each.

    Noise on the latent point, `lines x latent`, noise on the heads' scores, `lines x outputs`, and how far numbers go
    in comparison with where the scores put them, `lines`.
    """

    latent: Floats
    jitter: Floats
    reach: Floats


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows as they are: levels `r x k x l`, numbers `r x m`; and which of them each draw is for, `n`."""

    levels: Bools
    numbers: Floats
    of_draw: Places


@dataclass(frozen=True, eq=False)
class _Choices:
    """What draws may become, see `heads.Choices`; forced gates of categories and of numbers, `n x (k + m)`."""

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
        """Decisions for rows `r x d`, one for each line of the noise: `r * lines` of them, row by row."""
        condition = (y_target[:, None] == np.arange(1, self.classes)).astype(np.float64)
        mean, deviation = self._encoded(x, condition)
        row = np.repeat(np.arange(len(x)), len(noise.latent))
        z = (mean[:, None] + deviation[:, None] * noise.latent).reshape(len(row), -1)
        seen = [z, condition[row], *([x[row]] if self.architecture.skip else [])]
        outputs = _through([*self.decoder, self.output], np.concatenate(seen, axis=1))
        return self.choose(outputs + np.tile(noise.jitter, (len(x), 1)), np.tile(noise.reach, len(x)), x, row, allowed)

    def _encoded(self, x: Floats, condition: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the latent point, `r x latent` each."""
        hidden = np.maximum(_through(self.encoder, np.concatenate([x[:, self.columns], condition], axis=1)), 0.0)
        mean, raw = _through([self.mean], hidden), _through([self.spread], hidden)
        is_published = self.architecture.variance == "sigmoid"
        return mean, np.sqrt(0.5 + expit(raw) if is_published else np.logaddexp(0.0, raw) + SMALLEST_VARIANCE)


class _Heads:
    """`Heads` without gradients; categories come before numbers wherever both stand in one array."""

    def __init__(self, heads: Heads) -> None:
        self.features, self.real = heads.features, heads.real.cpu().numpy()
        self.level_columns, self.number_columns = _numpy(heads.level_columns), _numpy(heads.number_columns)
        self.level_outputs, self.number_outputs = _numpy(heads.level_outputs), _numpy(heads.number_outputs)
        self.gates = np.concatenate([_numpy(heads.category_gates), _numpy(heads.number_gates)])
        self.slot_of_column, self.number_of_column = _numpy(heads.slot_of_column), _numpy(heads.number_of_column)
        self.low, self.high, self.step = _numpy(heads.ranges)

    def __call__(self, scores: Floats, reach: Floats, x: Floats, row: Places, allowed: Allowed) -> Decisions:
        """Decisions by scores `n x outputs`, for the rows `x`, `r x d`, that `row`, `n`, names.

        A number's score of 0 means its present value, so that `reach`, `n`, times the score goes farther the same way.
        """
        columns = scores[:, self.features :]
        gates, values = scores[:, self.gates] > 0, columns[:, self.number_outputs] * reach[:, None]
        levels = columns[:, self.level_outputs].reshape(len(row), *self.real.shape)
        present = x[:, self.level_columns].reshape(len(x), *self.real.shape) > 0.5
        rows = _Rows(present & self.real, x[:, self.number_columns], row)
        choices = self._free(rows)
        drawn = self._decided(gates, levels, values, choices, rows)
        if not allowed.groups:
            return drawn
        return self._decided(gates, levels, values, self._within(rows, drawn, allowed), rows)

    def _free(self, rows: _Rows) -> _Choices:
        """What each draw may become where no rule forbids anything."""
        low, high = (np.broadcast_to(end, rows.numbers.shape) for end in (self.low, self.high))
        others = self.real & ~rows.levels
        closed = _moveless(others, low, high, rows.numbers)[rows.of_draw]
        draw = rows.of_draw
        return _Choices(others[draw], low[draw], high[draw], np.zeros_like(closed), closed)

    def _within(self, rows: _Rows, draft: Decisions, allowed: Allowed) -> _Choices:
        """What is left inside the box of each group of rules that the draft is nearest to."""
        draw = rows.of_draw
        present, numbers = rows.levels[draw], rows.numbers[draw]
        levels = np.where(
            draft.new_level[:, :, None], np.arange(self.real.shape[1]) == draft.level[:, :, None], present
        )
        values = np.where(draft.new_value, draft.value, numbers)
        may, keeps = np.ones((len(draw), self.real.size), dtype=bool), np.ones(numbers.shape, dtype=bool)
        low, high = (np.tile(end, (len(draw), 1)) for end in (self.low, self.high))
        for boxes in allowed.groups:
            slots = self.slot_of_column[_numpy(boxes.level_columns)]
            own = self.number_of_column[_numpy(boxes.number_columns)]
            drawn = levels.reshape(len(draw), -1)[:, slots]
            box = _nearest(boxes, draw, drawn, values[:, own], numbers[:, own])
            may[:, slots], low[:, own], high[:, own], keeps[:, own] = box
        permitted = may.reshape(present.shape)
        others = permitted & self.real & ~present
        stays = np.concatenate([(permitted & present).any(axis=2), keeps], axis=1)
        closed = _moveless(others, low, high, numbers)
        return _Choices(others, low, high, ~stays & ~closed, closed)

    def _decided(self, gates: Bools, levels: Floats, values: Floats, choices: _Choices, rows: _Rows) -> Decisions:
        opened = (gates & ~choices.must_close) | choices.must_open
        count = self.real.shape[0]
        # Without a category there is no level to be the best.
        best = np.where(choices.levels, levels, NEVER).argmax(axis=2) if count else np.zeros((len(gates), 0), np.int64)
        value = self._value(values, choices, rows.numbers[rows.of_draw])
        return Decisions(opened[:, :count], best, opened[:, count:], value)

    def _value(self, scores: Floats, choices: _Choices, present: Floats) -> Floats:
        """See `Heads`."""
        low, width = choices.low, choices.high - choices.low
        place = np.clip((present - low) / np.maximum(width, TINY), EDGE, 1 - EDGE)
        value = low + width * expit(scores + np.log(place / (1 - place)))
        return np.asarray(self.low + self.step * np.round((value - self.low) / self.step))


def _moveless(others: Bools, low: Floats, high: Floats, present: Floats) -> Bools:
    """Where there is nothing to change to, categories and then numbers."""
    fixed = (low > high) | ((low == high) & (low == present))
    return np.concatenate([~others.any(axis=2), fixed], axis=1)


def _nearest(
    boxes: Boxes, row: Places, drawn: Bools, values: Floats, present: Floats
) -> tuple[Bools, Floats, Floats, Bools]:
    """Levels, low, high and keeps of the possible box that each draft is nearest to; see `rule_layer.nearest_box`."""
    possible, levels, low, high, keeps = (
        _numpy(part) for part in (boxes.possible, boxes.levels, boxes.low, boxes.high, boxes.keeps)
    )
    cost = (drawn[:, None] & ~levels[row]).sum(axis=2) + _number_cost(low[row], high[row], keeps[row], values, present)
    best = np.where(possible[row], cost, np.inf).argmin(axis=1)
    some = possible[row, best][:, None]
    first = low[row, best]
    return levels[row, best] & some, first, np.where(some, high[row, best], first - 1), keeps[row, best] & some


def _number_cost(low: Floats, high: Floats, keeps: Bools, values: Floats, present: Floats) -> Floats:
    """How far drafts are from what each box allows, `n x boxes`."""
    drawn = values[:, None]
    outside = np.maximum(low - drawn, 0.0) + np.maximum(drawn - high, 0.0)
    outside = np.where(low <= high, outside, np.inf)
    staying = np.where(keeps, np.abs(present - values)[:, None], np.inf)
    return np.asarray(np.minimum(outside, staying).sum(axis=2))


Linear = tuple[Tensor, Tensor]
"""Weights `inputs x outputs`, and biases."""


def _through(layers: list[Linear], x: Floats) -> Floats:
    """Linear layers with a ReLU between each two; by torch, which keeps to the number of threads that it was given."""
    hidden = torch.from_numpy(x)
    for weight, bias in layers[:-1]:
        hidden = torch.addmm(bias, hidden, weight).relu_()
    return np.asarray(torch.addmm(layers[-1][1], hidden, layers[-1][0]).numpy())


def _layers(stack: nn.Sequential) -> list[Linear]:
    """Linear layers with the batch norm behind each in them, as in evaluation."""
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
