"""REVISE (Joshi et al., 2019): gradient descent in a VAE's latent space until the decoded row gets the target class.

Settings and details follow CARLA's implementation, which the literature compares with.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..classifier import differentiable
from ..explanation import Explanation
from ..hashing import row_noise
from ..task import Task
from ..training_loop import one_thread
from .base import BaseMethod, Count, Outputs, Positive, RowsAsked, Weight, answered, in_parts
from .encoded import ColumnLayout, best_of_each
from .vae import PUBLISHED, VAE, VAESettings, fitted_vae

# Descents in one batch.
CHUNK = 512
# Latent points lie on a grid this fine, so that rounding errors, which depend on the batch, do not add up.
GRID = 2.0**16


@dataclass(frozen=True, eq=False)
class Descents:
    """The best legal row of each descent, `n x d`, its loss, `n` (infinite where no step had the target class), and
    the mean loss of all rows at each step.
    """

    x_cf: Tensor
    loss: Tensor
    course: list[float]


@dataclass(kw_only=True, eq=False, repr=False)
class REVISE(BaseMethod):
    """Minimise the cross entropy to the target class plus `distance` times L1, starting at the row's latent mean.

    Every iterate is judged by the legal row that it decodes to (gradients pass straight through the rounding). The
    answer is the iterate with the lowest loss among those with the target class. The paper gives one answer; for `k`
    answers, further descents start at draws around the latent mean.

    Parameters
    ----------
    vae : VAESettings
        Settings of the VAE whose latent space is searched.
    steps, learning_rate : int, float
        Steps and learning rate of the descent.
    distance : float
        Weight of the L1 distance.
    seed : int
        Seed of all randomness.
    """

    vae: VAESettings = PUBLISHED
    steps: Count = 1000
    learning_rate: Positive = 0.1
    distance: Weight = 0.5

    def fit(self, task: Task) -> Self:
        """Train the VAE on the training rows, unless C-CHVAE has already done so for the same task."""
        self._check()
        self.surrogate_ = differentiable(task.classifier, task, seed=self.seed)
        # In double precision, so that answers do not depend on the batch size.
        self.classifier_: nn.Module = copy.deepcopy(self.surrogate_.module).double()
        self.vae_: VAE = copy.deepcopy(fitted_vae(task, self.vae, self.seed)).double()
        self.columns_, self.task_ = ColumnLayout(task), task
        return self

    def explain(self, rows: pd.DataFrame, k: int = 1) -> Explanation:
        """Find at most `k` answers for each row that does not have the target class."""
        question = self._asked(rows, k)
        row = np.repeat(np.arange(len(question)), k)
        starts = self._starts(question, k)
        x, y_target = question.x.double()[row], question.y_target[row]
        found = [self.descend(starts[part], x[part], y_target[part]) for part in in_parts(len(row), CHUNK)]
        x_cf, loss = (torch.cat([getattr(f, name) for f in found]) for name in ("x_cf", "loss"))
        kept = best_of_each(row, loss, x_cf, k)
        reason = f"none of {self.steps:,} steps in the latent space decoded to a row with the target class"
        reasons = {int(r): reason for r in np.setdiff1d(row, row[kept])}
        return answered(question, Outputs(x_cf[kept], row[kept], reasons), "REVISE", self.surrogate_)

    @torch.no_grad()
    def _starts(self, question: RowsAsked, k: int) -> Tensor:
        """Latent points, `k` per row: its mean, then draws around it that depend only on the row and the seed."""
        mean, variance = self.vae_.encode(question.x.double())
        codes = self.task_.encoder.codes(question.rows)
        draws = [torch.from_numpy(row_noise(codes, self.vae_.latent, self.seed, d)) for d in range(1, k)]
        noise = torch.stack([torch.zeros_like(mean), *draws], dim=1)
        return (mean[:, None] + variance.sqrt()[:, None] * noise).flatten(0, 1)

    def descend(self, start: Tensor, x: Tensor, y_target: Tensor) -> Descents:
        """Run Adam on each latent point, `n x latent`; the rows `n x d` of a batch do not affect each other."""
        z = start.clone().requires_grad_()
        optimiser = torch.optim.Adam([z], lr=self.learning_rate)
        best, best_loss, course = x.clone(), torch.full_like(x[:, 0], torch.inf), []
        with one_thread():
            for _ in range(self.steps):
                x_cf, loss, valid = self.objective(z, x, y_target)
                better = valid & (loss.detach() < best_loss)
                best[better], best_loss[better] = x_cf.detach()[better], loss.detach()[better]
                course.append(float(loss.detach().mean()))
                (z.grad,) = torch.autograd.grad(loss.sum(), [z])
                optimiser.step()
                z.data.mul_(GRID).round_().div_(GRID)
        return Descents(best, best_loss, course)

    def objective(self, z: Tensor, x: Tensor, y_target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The legal rows that latent points decode to, the loss of each, and whether it has the target class."""
        x_cf = self.columns_.restored(self.columns_.straight(self.vae_.decode(z, x)), x)
        logits = self.classifier_(x_cf)
        away = (x_cf - x).abs().sum(dim=1)
        loss = cross_entropy(logits, y_target, reduction="none") + self.distance * away
        return x_cf, loss, logits.argmax(dim=1) == y_target
