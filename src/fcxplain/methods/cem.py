"""CEM: the pertinent negative, the smallest and sparsest change whose absence keeps the row in its class.

Dhurandhar et al. (2018), with the settings of CARLA's implementation, which the literature compares with. It is batched
FISTA, with an attack weight c that is bisected for each row.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Self

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from ..classifier import differentiable
from ..classifier.networks import mlp
from ..explanation import Explanation
from ..task import Task
from ..training_loop import Schedule, minimise, one_thread
from .base import BaseMethod, Count, Positive, Weight, answered, in_parts, one_for_each
from .encoded import ColumnLayout

# Rows searched in one batch.
CHUNK = 1024
# Iterates lie on a grid this fine, so that rounding errors, which depend on the batch, do not add up over the steps.
GRID = 2.0**32
WIDTHS = (20, 10, 7)
TIE = 1e-6
# The factor by which c grows until some c is large enough.
GROWTH = 10.0


@dataclass(frozen=True, eq=False)
class PertinentNegatives:
    """For each row, `n`: the best x + delta, `n x d`, the legal row it decodes to, and its elastic net.

    The elastic net is infinite where nothing was found. `low` is the largest c that was too small for the row, and
    `high` the smallest that was large enough; 0 and infinity mean that there is none yet.
    """

    raw: Tensor
    x_cf: Tensor
    elastic: Tensor
    low: Tensor
    high: Tensor


@dataclass(kw_only=True, eq=False, repr=False)
class CEM(BaseMethod):
    """Minimise c max(0, f_other - f_wanted + kappa) + beta |delta|_1 + |delta|_2^2 + gamma |AE(x_cf) - x_cf|^2.

    x_cf is x + delta, f are the model's probabilities, and "other" is the likeliest class other than the target.

    Parameters
    ----------
    kappa, beta, gamma : float
        As above; `gamma` has an effect with an `autoencoder` only. As in the public code, the soft threshold is `beta`
        itself, whatever the step size, so that changes are few and large.
    autoencoder : bool
        Whether to train an autoencoder.
    c, searches : float, int
        Initial value of c, and number of bisection rounds.
    steps, learning_rate : int, float
        Number of FISTA steps; the size of a step is `learning_rate` sqrt(1 - step / steps).
    seed : int
        Seed of all randomness.

    Notes
    -----
    x_cf stays within the range of each column. An iterate counts if the legal row that it decodes to has the target
    class; the one with the smallest elastic net is the answer. The public code counts soft rows, which are not answers,
    and encodes a category of two levels as one column. With one column per level, gradients are centred over the
    levels, since the gain of one level is the loss of another. Its rule that delta may only add to an image is left out
    for the same reason. There is one answer per row, whatever `k`.
    """

    kappa: Weight = 0.1
    beta: Weight = 0.9
    gamma: Weight = 1.0
    autoencoder: bool = False
    c: Positive = 10.0
    searches: Count = 9
    steps: Count = 100
    learning_rate: Positive = 0.01

    def fit(self, task: Task) -> Self:
        """Get the model's gradients, and train the autoencoder if one is requested."""
        self._check()
        self.surrogate_ = differentiable(task.classifier, task, seed=self.seed)
        # In double precision, so that answers do not depend on the batch size.
        self.classifier_: nn.Module = copy.deepcopy(self.surrogate_.module).double()
        columns = self.columns_ = ColumnLayout(task)
        # The lowest and the highest value of each column: 0 and 1 except for numbers.
        ends = torch.zeros(columns.layout.width, dtype=torch.float64)
        self.low_ = ends.index_copy(0, columns.numbers, columns.low)
        self.high_ = (ends + 1).index_copy(0, columns.numbers, columns.high)
        self.tie_ = torch.full_like(self.low_, TIE).index_fill(0, self.columns_.numbers, 0.0)
        self.autoencoder_ = _autoencoder(task, self.seed) if self.autoencoder else None
        self.task_ = task
        return self

    def explain(self, rows: pd.DataFrame, k: int = 1) -> Explanation:
        """Find an answer for each row that does not have the target class."""
        question = self._asked(rows, k)
        x, parts = question.x.double(), in_parts(len(question), CHUNK)
        found = [self.search(x[part], question.y_target[part]) for part in parts]
        x_cf, raw, elastic = (torch.cat([getattr(f, name) for f in found]) for name in ("x_cf", "raw", "elastic"))
        reason = f"no step of {self.searches} searches reached a legal row with the target class"
        note = "CEM gives one answer for each row" if k > 1 else ""
        return answered(question, one_for_each(question, x_cf, raw, elastic, reason, note), "CEM", self.surrogate_)

    def search(self, x: Tensor, y_target: Tensor) -> PertinentNegatives:
        """Bisect c for each row, `n x d`, and keep the best of all the descents."""
        c, low, high = (torch.full_like(x[:, 0], start) for start in (self.c, 0.0, math.inf))
        raw, best, elastic = x.clone(), x.clone(), torch.full_like(c, math.inf)
        for _ in range(self.searches):
            one = self.descend(x, y_target, c)
            enough = one.elastic.isfinite()
            better = one.elastic < elastic
            raw[better], best[better], elastic[better] = one.raw[better], one.x_cf[better], one.elastic[better]
            high, low = torch.where(enough, c, high), torch.where(enough, low, c)
            c = torch.where(high.isinf(), c * GROWTH, (low + high) / 2)
        return PertinentNegatives(raw, best, elastic, low, high)

    def descend(self, x: Tensor, y_target: Tensor, c: Tensor) -> PertinentNegatives:
        """Run FISTA with one attack weight per row, `n`; rows of a batch do not affect each other."""
        low, high = torch.minimum(x, self.low_), torch.maximum(x, self.high_)
        raw, best, elastic = x.clone(), x.clone(), torch.full_like(c, math.inf)
        here, ahead = x, x
        with one_thread():
            for step in range(self.steps):
                rate = self.learning_rate * math.sqrt(1 - step / self.steps)
                there = self._shrunk(ahead - rate * self._slope(ahead, x, y_target, c), x, low, high)
                ahead, here = there + step / (step + 3) * (there - here), there
                x_cf, cost = self._judged(here, x, y_target)
                better = cost < elastic
                raw[better], best[better], elastic[better] = here[better], x_cf[better], cost[better]
        nothing = torch.zeros_like(c)
        return PertinentNegatives(raw, best, elastic, nothing, nothing)

    def objective(self, x_cf: Tensor, x: Tensor, y_target: Tensor, c: Tensor) -> Tensor:
        """The objective without its L1 part, which the soft threshold handles, `n`."""
        probabilities = self.classifier_(x_cf).softmax(dim=1)
        wanted = probabilities.gather(1, y_target[:, None])[:, 0]
        other = probabilities.scatter(1, y_target[:, None], -1.0).amax(dim=1)
        loss: Tensor = c * (other - wanted + self.kappa).clamp(min=0) + ((x_cf - x) ** 2).sum(dim=1)
        if self.autoencoder_ is not None:
            loss = loss + self.gamma * ((self.autoencoder_(x_cf) - x_cf) ** 2).sum(dim=1)
        return loss

    def _slope(self, x_cf: Tensor, x: Tensor, y_target: Tensor, c: Tensor) -> Tensor:
        at = x_cf.detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.objective(at, x, y_target, c).sum(), [at])
        for start, stop in self.columns_.groups:
            slope[:, start:stop] -= slope[:, start:stop].mean(dim=1, keepdim=True)
        return slope

    def _shrunk(self, z: Tensor, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Apply the soft threshold to the change, clip it to the box, and restore immutable columns."""
        delta = nn.functional.softshrink(z - x, self.beta)
        there = torch.minimum(torch.maximum(x + delta, low), high)
        return self.columns_.restored((there * GRID).round() / GRID, x).where(delta != 0, x)

    @torch.no_grad()
    def _judged(self, raw: Tensor, x: Tensor, y_target: Tensor) -> tuple[Tensor, Tensor]:
        """The legal rows of iterates, and their elastic net, infinite for those without the target class."""
        # A level that has risen as high as the present one replaces it.
        x_cf = self.columns_.legal(raw - self.tie_ * x, x)
        delta = raw - x
        elastic = self.beta * delta.abs().sum(dim=1) + (delta**2).sum(dim=1)
        return x_cf, elastic.where(self.classifier_(x_cf).argmax(dim=1) == y_target, math.inf)


def _autoencoder(task: Task, seed: int) -> nn.Module:
    """Train an autoencoder of widths 20, 10, 7 and back, with sigmoid outputs, on the training rows, and freeze it."""
    generator, width = torch.Generator().manual_seed(seed), task.encoder.width_
    whole_way = (*WIDTHS, *WIDTHS[-2::-1])
    module = nn.Sequential(*mlp(width, width, generator, torch.float32, whole_way), nn.Sigmoid())
    x, schedule = task.encoder.encode(task.train).float(), Schedule(epochs=5, batch=32, learning_rate=1e-3, steps=1000)
    minimise(module, lambda x, _: mse_loss(module(x), x), [x], schedule, generator)
    return module.double().requires_grad_(False)
