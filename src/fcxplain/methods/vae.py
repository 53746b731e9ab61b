"""The variational autoencoder of REVISE and C-CHVAE, as in CARLA's implementations of both.

The encoder reads the mutable columns; the decoder reads a latent point and the immutable columns, so that every decoded
row belongs to the same person. Both methods share one network per task.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from ..classifier.networks import mlp
from ..errors import refuse, whole
from ..generator.losses import kl
from ..task import Task
from ..training_loop import Schedule, minimise
from .base import BatchSize, Count, Positive, Weight, Widths, setting_faults
from .encoded import ColumnLayout

SMALLEST_VARIANCE = 1e-6


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
