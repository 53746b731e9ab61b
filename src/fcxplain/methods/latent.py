"""REVISE (Joshi et al., 2019) and C-CHVAE (Pawelczyk et al., 2020), which search a VAE's latent space.

REVISE descends along gradients until the decoded row gets the target class. C-CHVAE searches growing rings around a
row's latent point, and needs the model's predictions only. Settings and details follow CARLA's implementations of both,
which the literature compares with. They share one network per task: its encoder reads the mutable columns, its decoder
a latent point and the immutable columns, so that every decoded row belongs to the same person.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Self
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, softplus

from ..classifier import differentiable
from ..classifier.networks import mlp
from ..errors import refuse, whole
from ..explanation import Explanation
from ..generator.losses import kl
from ..hashing import row_noise
from ..task import Task
from ..training_loop import Schedule, minimise, one_thread
from .base import (
    BaseMethod,
    BatchSize,
    Count,
    Outputs,
    Positive,
    RowsAsked,
    Weight,
    Widths,
    answered,
    in_parts,
    setting_faults,
)
from .encoded import ColumnLayout, best_of_each
from .grid import Judge

SMALLEST_VARIANCE = 1e-6
# Descents in one batch.
DESCENTS = 512
# Latent points lie on a grid this fine, so that rounding errors, which depend on the batch, do not add up.
GRID = 2.0**16
# Candidates of rings that are decoded at a time.
CANDIDATES = 8_192


@dataclass(frozen=True)
class VAESettings:
    """Widths of the hidden layers (mirrored in the decoder), size of the latent space, and the training schedule.

    The weight of KL rises from 0 to `beta` over the epochs. Small tables get more epochs until they reach `steps`
    steps; the original leaves them untrained.
    """

    hidden: Widths = (512, 256)
    latent: Count = 8
    beta: Weight = 0.3
    epochs: Count = 5
    batch: BatchSize = 32
    learning_rate: Positive = 1e-3
    weight_decay: Weight = 1e-6
    steps: Annotated[int, partial(whole, low=0)] = 1000

    def __post_init__(self) -> None:
        refuse("these settings of the VAE", list(setting_faults(self)))


PUBLISHED = VAESettings()


class VAE(nn.Module):
    """An encoder of the mutable columns, and a decoder of a latent point and the immutable columns, with sigmoids."""

    mutable: Tensor
    immutable: Tensor

    def __init__(self, columns: ColumnLayout, settings: VAESettings, generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("mutable", columns.mutable.nonzero().flatten())
        self.register_buffer("immutable", (~columns.mutable).nonzero().flatten())
        self.latent, may, may_not = settings.latent, len(self.mutable), len(self.immutable)
        # The last layer outputs the latent mean and the input of the variance's softplus.
        self.encoder = mlp(may, 2 * self.latent, generator, torch.float32, settings.hidden)
        self.decoder = mlp(self.latent + may_not, may, generator, torch.float32, settings.hidden[::-1])

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the latent point, `n x latent` each, for rows `n x d`."""
        mean, raw = self.encoder(x.index_select(1, self.mutable)).chunk(2, dim=1)
        return mean, softplus(raw) + SMALLEST_VARIANCE

    def decode(self, z: Tensor, x: Tensor) -> Tensor:
        """Latent points `n x latent` as encoded rows `n x d`, immutable columns as in `x`."""
        return x.index_copy(1, self.mutable, self.scores(z, x).sigmoid())

    def scores(self, z: Tensor, x: Tensor) -> Tensor:
        """The mutable columns before the sigmoid."""
        found: Tensor = self.decoder(torch.cat([z, x.index_select(1, self.immutable)], dim=1))
        return found


_KNOWN: WeakKeyDictionary[Task, dict[tuple[VAESettings, int], VAE]] = WeakKeyDictionary()


def fitted_vae(task: Task, settings: VAESettings, seed: int) -> VAE:
    """The frozen network, trained on all training rows once per task, settings and seed."""
    known = _KNOWN.setdefault(task, {})
    if (settings, seed) not in known:
        known[settings, seed] = _trained(task, settings, seed)
    return known[settings, seed]


def _trained(task: Task, settings: VAESettings, seed: int) -> VAE:
    generator = torch.Generator().manual_seed(seed)
    vae, s, x = VAE(ColumnLayout(task), settings, generator), settings, task.encoder.encode(task.train).float()
    schedule = Schedule(s.epochs, s.batch, s.learning_rate, s.weight_decay, steps=s.steps)
    minimise(vae, lambda x, progress: loss_of(vae, x, generator, s.beta * progress), [x], schedule, generator)
    return vae.requires_grad_(False)


def loss_of(vae: VAE, x: Tensor, generator: torch.Generator, beta: float) -> Tensor:
    """Cross entropy summed over the mutable columns, and KL times `beta`; the mean over a batch."""
    mean, variance = vae.encode(x)
    z = mean + variance.sqrt() * torch.randn(mean.shape, generator=generator)
    missed = binary_cross_entropy_with_logits(vae.scores(z, x), x.index_select(1, vae.mutable), reduction="sum")
    return missed / len(x) + beta * kl(mean, variance)


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
        found = [self.descend(starts[part], x[part], y_target[part]) for part in in_parts(len(row), DESCENTS)]
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


@dataclass(kw_only=True, eq=False, repr=False)
class CCHVAE(BaseMethod):
    """Return the L1-nearest flipped row of the first ring that has one, or the `k` nearest distinct ones.

    Parameters
    ----------
    vae : VAESettings
        Settings of the VAE whose latent space is searched.
    candidates : int
        Candidates per ring: Gaussian directions divided by their L1 norm, times a length drawn uniformly between the
        ring's radii. They are the same for all rows.
    width, rings : float, int
        Width of a ring, and the largest number of rings. The first ring starts at radius 0.
    seed : int
        Seed of all randomness.
    """

    vae: VAESettings = PUBLISHED
    candidates: Count = 300
    width: Positive = 0.1
    rings: Count = 1000

    def fit(self, task: Task) -> Self:
        """Train the VAE on the training rows, unless REVISE has already done so for the same task."""
        self._check()
        self.vae_: VAE = fitted_vae(task, self.vae, self.seed)
        self.exact_vae_: VAE = copy.deepcopy(self.vae_).double()
        self.columns_, self.task_ = ColumnLayout(task), task
        return self

    @torch.no_grad()
    def explain(self, rows: pd.DataFrame, k: int = 1) -> Explanation:
        """Find at most `k` answers for each row that does not have the target class."""
        question = self._asked(rows, k)
        judge = Judge(question)
        z = self.exact_vae_.encode(question.x.double())[0]
        left, found = np.arange(len(question)), [(question.x[:0], np.empty(0, dtype=np.int64))]
        with one_thread():
            for offsets in self.rings_around():
                if not len(left):
                    break
                x_cf, row = self.flipped(judge, z, left, offsets, k)
                found.append((x_cf, row))
                left = np.setdiff1d(left, row)
        reason = f"no candidate within {self.rings * self.width:g} of its latent point has the target class"
        x_cf, row = torch.cat([x for x, _ in found]), np.concatenate([r for _, r in found])
        outputs = Outputs(x_cf, row, dict.fromkeys(left.tolist(), reason), calls=judge.calls)
        return answered(question, outputs, "C-CHVAE")

    def rings_around(self) -> Iterator[Tensor]:
        """Yield the offsets of each ring from its centre, `candidates x latent`, the innermost ring first."""
        generator = torch.Generator().manual_seed(self.seed)
        for ring in range(self.rings):
            directions = torch.randn((self.candidates, self.vae_.latent), generator=generator, dtype=torch.float64)
            lengths = (ring + torch.rand((self.candidates, 1), generator=generator, dtype=torch.float64)) * self.width
            yield directions / directions.abs().sum(dim=1, keepdim=True) * lengths

    def flipped(
        self, judge: Judge, z: Tensor, left: NDArray[np.int64], offsets: Tensor, k: int
    ) -> tuple[Tensor, NDArray[np.int64]]:
        """The `k` nearest candidates of one ring that have the target class, for those rows `left` that have any.

        All candidates are decoded in single precision; those that flip are decoded again in double precision, so that
        the answer depends neither on the batch size nor on the other rows of the batch.
        """
        parts = in_parts(len(left), max(1, CANDIDATES // self.candidates))
        hits = [self._hits(judge, z, left[part], offsets) for part in parts]
        row, which = (np.concatenate(places) for places in zip(*hits, strict=True))
        x = judge.question.x[row].double()
        x_cf = self.columns_.legal(self.exact_vae_.decode(z[row] + offsets[which], x), x)
        distance = (x_cf - x).abs().sum(dim=1)
        distance[~judge.valid(x_cf, row)] = torch.inf
        kept = best_of_each(row, distance, x_cf, k)
        return x_cf[kept].to(judge.question.x.dtype), row[kept]

    def _hits(
        self, judge: Judge, z: Tensor, part: NDArray[np.int64], offsets: Tensor
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Indices of the rows and of the offsets of the candidates that flip."""
        row = part.repeat(len(offsets))
        x = judge.question.x[row]
        around = (z[part, None] + offsets).flatten(0, 1).float()
        x_cf = self.columns_.legal(self.vae_.decode(around, x.float()).to(x.dtype), x)
        flips = np.flatnonzero(judge.valid(x_cf, row))
        return row[flips], flips % len(offsets)
