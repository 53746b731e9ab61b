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
    """LOF of each row of `z` (`n x d`) among the others, `n`; or of several sets at once, `sets x n x d`.

    `k` is capped by the number of points, with a warning; a point alone has nobody to differ from and scores 1.
    """
    n = z.shape[-2]
    if k < 1:
        raise ValueError(f"LOF needs at least one neighbour, not {k}")
    if n < 2:
        return torch.ones_like(z[..., 0])
    if k >= n:
        warnings.warn(f"LOF has {n} points, so {n - 1} neighbours are used, not {k}", FcxWarning, stacklevel=2)
        k = n - 1
    # Differences, not products: copies of one point are exactly 0 apart, with gradient 0.
    apart = torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist")
    neighbours = nearest(apart, k)
    distance = apart.gather(-1, neighbours)
    reach = torch.maximum(distance, _at(distance[..., -1], neighbours))
    density = 1 / (reach.mean(dim=-1) + TINY)
    return _at(density, neighbours).mean(dim=-1) / density


def lof_in_chunks(z: Tensor, k: int, chunk: int = 256) -> Tensor:
    """LOF within chunks of about `chunk` rows, so that the cost of a row does not grow with the batch, `n`."""
    n, chunks = len(z), max(1, round(len(z) / chunk))
    size, larger = divmod(n, chunks)
    # As even as can be: some chunks have one row more, and those of one size are scored together.
    end = larger * (size + 1)
    parts = [z[:end].reshape(larger, size + 1, z.shape[1])] if larger else []
    parts.append(z[end:].reshape(chunks - larger, size, z.shape[1]))
    return torch.cat([lof(part, k).flatten() for part in parts])


@torch.no_grad()
def nearest(apart: Tensor, k: int) -> Tensor:
    """Indices of the `k` nearest other points, nearest first, `... x n x k`, from distances `... x n x n`."""
    others = apart + torch.diag_embed(apart.new_full(apart.shape[-1:], torch.inf))
    return others.topk(k, dim=-1, largest=False, sorted=True).indices


def _at(values: Tensor, neighbours: Tensor) -> Tensor:
    """Each neighbour's value, `... x n x k`, from values `... x n`."""
    return values.unsqueeze(-2).expand(*neighbours.shape[:-1], values.shape[-1]).gather(-1, neighbours)
