"""C-CHVAE (Pawelczyk et al., 2020): search growing rings around a row's latent point until a decoded row flips.

Settings and details follow CARLA's implementation. The method needs the model's predictions only, no gradients.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..explanation import Explanation
from ..task import Task
from ..training_loop import one_thread
from .base import BaseMethod, Count, Outputs, Positive, answered, in_parts
from .encoded import ColumnLayout, best_of_each
from .grid import Judge
from .vae import PUBLISHED, VAE, VAESettings, fitted_vae

# Candidates decoded at a time.
CHUNK = 8_192


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
        parts = in_parts(len(left), max(1, CHUNK // self.candidates))
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
