"""Local outlier factor of a batch, differentiable (Eqs. 2 to 4, after Breunig et al. 2000).

About 1 for a point as densely surrounded as its neighbours are, much larger for an outlier. Who is whose
neighbour is decided without gradient; distances to neighbours carry it.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from ..errors import FcxWarning

# As scikit-learn does: more than k copies of one point would otherwise have infinite density.
TINY = 1e-10


def lof(z: Tensor, k: int) -> Tensor:
    """LOF of each row of `z` (`n x d`) among the others, `n`.

    `k` is capped by the batch, with a warning; a batch of one has nobody to differ from and scores 1.
    """
    n = len(z)
    if k < 1:
        raise ValueError(f"LOF needs at least one neighbour, not {k}")
    if n < 2:
        return torch.ones_like(z[:, 0]) if n else z.new_zeros(0)
    if k >= n:
        warnings.warn(f"LOF has {n} points, so {n - 1} neighbours are used, not {k}", FcxWarning, stacklevel=2)
        k = n - 1
    neighbours = nearest(z, k)
    distance = _distances(z, neighbours)
    k_distance = distance[:, -1]
    reach = torch.maximum(distance, k_distance[neighbours])
    density = 1 / (reach.mean(dim=1) + TINY)
    return density[neighbours].mean(dim=1) / density


def lof_in_chunks(z: Tensor, k: int, chunk: int = 256) -> Tensor:
    """LOF within chunks of the batch, so that the cost of a row does not grow with the batch.

    Rows that would make a last chunk of less than half the size join the one before.
    """
    chunks = max(1, round(len(z) / chunk))
    return torch.cat([lof(part, k) for part in z.tensor_split(chunks)])


@torch.no_grad()
def nearest(z: Tensor, k: int) -> Tensor:
    """Indices of the `k` nearest other rows, nearest first, `n x k`."""
    apart = torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist")
    apart.fill_diagonal_(torch.inf)
    return apart.topk(k, dim=1, largest=False, sorted=True).indices


def _distances(z: Tensor, neighbours: Tensor) -> Tensor:
    """Distances to the neighbours, `n x k`; two copies of one point are 0 apart, with gradient 0."""
    squared = (z[:, None, :] - z[neighbours]).square().sum(dim=2)
    copies = squared == 0
    return torch.where(copies, 1.0, squared).sqrt().masked_fill(copies, 0.0)
