"""Proposals: several counterfactuals per row from a fitted generator, as grid codes, for a search to choose from.

One fixed bank of quasi-random numbers serves all rows, so that what is proposed for a row depends on the row, the
model and the seed, and never on the rows beside it.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc
from torch import Tensor

from .model.cvae import ConditionalVAE
from .rule_boxes import RuleBoxes
from .schema import Natural
from .task import Task

Codes = NDArray[np.int64]
# Draws that go through the network at a time, so that they stay in the processor's cache.
CHUNK = 4_096
TINY = 2.0**-40
# By how much the noise on choices is enlarged, draw after draw: a well trained generator is sure of itself, and what
# it would do next best shows under more noise than it was trained with.
LOUDNESS = (1.0, 2.0, 3.0, 4.0)


class Proposer:
    """Draws from a generator for rows of a task. The first draw of a row is the generator's own best, without noise.

    All others move the latent point and, where the generator has gates, its choices too: seen with the row itself, a
    decoder has little use for the latent point, and would say the same sixteen times.
    """

    def __init__(self, model: ConditionalVAE, task: Task, *, seed: int = 0) -> None:
        # In double precision, so that the size of a batch never shows after rounding.
        self.model, self.task, self.seed = copy.deepcopy(model).double().eval(), task, seed
        self.boxes = RuleBoxes(task) if model.heads is not None else None
        self._banks: dict[int, tuple[Tensor, Tensor | None]] = {}

    @torch.no_grad()
    def draws(self, codes: Codes, y_target: NDArray[np.int64], n: int, natural: Natural | None = None) -> Codes:
        """`n` proposals for each row of grid codes `r x features`, as codes `r x n x features`.

        `y_target` has the place of the class wanted for each row, `r`. `natural` are the rows' natural columns, for
        rows that may lie off the grid; there an unchanged code means the present value.
        """
        natural = self.task.encoder.natural_of_codes(codes) if natural is None else natural
        size = max(1, CHUNK // n)
        found = np.empty((len(codes), n, codes.shape[1]), dtype=np.int64)
        for start in range(0, len(codes), size):
            part = slice(start, start + size)
            columns = {name: values[part] for name, values in natural.items()}
            found[part] = self._chunk(columns, torch.from_numpy(np.asarray(y_target[part], dtype=np.int64)), n)
        fixed = [i for i, may in enumerate(self.model.layout.mutable) if not may]
        found[:, :, fixed] = codes[:, None, fixed]
        return found

    def _chunk(self, natural: Natural, y_target: Tensor, n: int) -> Codes:
        encoder = self.task.encoder
        x = encoder.encode_natural(natural).double()
        noise, jitter = self._bank(n)
        mean, variance = self.model.encode(x, y_target)
        z = (mean[:, None] + variance.sqrt()[:, None] * noise).flatten(0, 1)
        allowed = None if self.boxes is None else self.boxes.of(natural).repeated(n)
        jitter = None if jitter is None else jitter.repeat(len(x), 1)
        x_cf = self.model.decode(z, x.repeat_interleave(n, 0), y_target.repeat_interleave(n), allowed, jitter)
        drawn = encoder.decode_natural(x_cf)
        codes = np.stack([f.codes(drawn[f.name]) for f in self.task.schema], axis=1)
        return codes.reshape(len(x), n, -1)

    def _bank(self, n: int) -> tuple[Tensor, Tensor | None]:
        """Latent noise `n x latent` and noise on the choices, `n x outputs`; the first line of both is 0."""
        if n not in self._banks:
            latent, heads = self.model.architecture.latent, self.model.heads
            width = latent + (heads.width if heads is not None else 0)
            uniform = _sobol(n - 1, width, self.seed)
            noise = torch.from_numpy(np.vstack([np.zeros(latent), ndtri(uniform[:, :latent])]))
            jitter = None
            if heads is not None:
                loud = torch.from_numpy(np.resize(LOUDNESS, n - 1))
                jitter = loud[:, None] * heads.jitter(torch.from_numpy(uniform[:, latent:]))
                jitter = torch.cat([jitter.new_zeros(1, heads.width), jitter])
            self._banks[n] = noise, jitter
        return self._banks[n]


def _sobol(n: int, width: int, seed: int) -> NDArray[np.float64]:
    """The first `n` points of a scrambled Sobol sequence, strictly between 0 and 1, `n x width`."""
    points = qmc.Sobol(width, scramble=True, rng=np.random.default_rng(seed)).random_base2(max(0, n - 1).bit_length())
    return np.asarray(np.clip(points[:n], TINY, 1 - TINY))
