"""Local outlier factor of a batch, differentiable (Eqs. 2 to 4, after Breunig et al. 2000).

It is about 1 for a point in surroundings as dense as its neighbours' are, and much larger for an outlier. Neighbours
are selected without gradient; distances to neighbours carry it, by a closed formula rather than by autograd.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# As in scikit-learn: more than k copies of one point would otherwise have infinite density.
TINY = 1e-10
logger = logging.getLogger(__name__)

# Rows per chunk by default.
CHUNK = 256


def lof(z: Tensor, k: int) -> Tensor:
    """LOF of each row of `z` (`n x d`) among the others, `n`; or of several sets at once, `sets x n x d`.

    `k` is capped by the number of points, which is logged; a single point scores 1.
    """
    n = z.shape[-2]
    if k < 1:
        raise ValueError(f"LOF needs at least one neighbour, not {k}")
    if n < 2:
        return torch.ones_like(z[..., 0])
    if k >= n:
        logger.info("LOF has %d points, so %d neighbours are used, not %d", n, n - 1, k)
        k = n - 1
    scores: Tensor = _Factor.apply(z.reshape(-1, n, z.shape[-1]), k)  # type: ignore[no-untyped-call]
    return scores.reshape(z.shape[:-1])


def lof_in_chunks(z: Tensor, k: int, chunk: int | None = None) -> Tensor:
    """LOF within chunks of about `chunk` rows, so that the cost of a row does not grow with the batch, `n`.

    By default 256 rows, or 4 k where that is more.
    """
    n, d = z.shape
    chunks = max(1, round(n / (chunk or chunk_for(k))))
    size, larger = divmod(n, chunks)
    # Chunks are as even as possible: some have one more row, and chunks of one size are scored together.
    end = larger * (size + 1)
    parts = [z[:end].reshape(larger, size + 1, d)] if larger else []
    parts.append(z[end:].reshape(chunks - larger, size, d))
    return torch.cat([lof(part, k).flatten() for part in parts])


def chunk_for(k: int) -> int:
    """The number of rows per chunk for `k` neighbours: if these were most of the chunk, LOF would not be local."""
    return max(CHUNK, 4 * k)


@torch.no_grad()
def nearest(apart: Tensor, k: int) -> Tensor:
    """Indices of the `k` nearest other points, nearest first, `... x n x k`, from distances `... x n x n`."""
    others = apart + torch.diag_embed(apart.new_full(apart.shape[-1:], torch.inf))
    return others.topk(k, dim=-1, largest=False, sorted=True).indices


class _Factor(torch.autograd.Function):
    """LOF of `sets x n x d` points with `k` neighbours each.

    Let r be the mean reachability distance of a point plus `TINY`, and 1/r its density. LOF is r times the mean density
    of its neighbours. The gradient of r goes to the distances that it consists of, and from a distance to its two
    points, along the line between them. This needs only `n x k` numbers and one `n x n` matrix.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, k: int) -> Tensor:
        distance, neighbours = _neighbourhood(z, k)
        theirs = _at(distance[..., -1], neighbours)
        radius = torch.maximum(distance, theirs).mean(dim=-1) + TINY
        around = _at(1 / radius, neighbours).mean(dim=-1)
        ctx.save_for_backward(z, distance, neighbours, theirs, radius, around)
        return around * radius

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, wanted: Tensor) -> tuple[Tensor, None]:
        z, distance, neighbours, theirs, radius, around = ctx.saved_tensors
        by_density = _sum_at((wanted * radius).unsqueeze(-1).expand_as(distance), neighbours) / distance.shape[-1]
        by_radius = (wanted * around - by_density / radius.square()) / distance.shape[-1]
        by_reach = by_radius.unsqueeze(-1).expand_as(distance)
        # If the two are equal they are the same distance, so it does not matter which one gets the gradient.
        by_distance = torch.where(distance >= theirs, by_reach, 0)
        by_distance[..., -1] += _sum_at(by_reach - by_distance, neighbours)
        # Copies of one point are 0 apart, and have no direction.
        pull = torch.where(distance > 0, by_distance / distance, 0)
        return _along_lines(z, pull, neighbours), None


def _along_lines(z: Tensor, pull: Tensor, neighbours: Tensor) -> Tensor:
    """For each point, the sum over its pairs of `pull` times the difference of the two points."""
    n = z.shape[-2]
    between = pull.new_zeros((*z.shape[:-1], n)).scatter_(-1, neighbours, pull)
    points = z - z.mean(dim=-2, keepdim=True)
    # With few rows and many columns, products in this order are several times as fast.
    flat = points.mT
    others = flat @ between + flat @ between.mT
    return points * (between.sum(dim=-1) + between.sum(dim=-2)).unsqueeze(-1) - others.mT


def _neighbourhood(z: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Distances to the `k` nearest other points, and their indices, `sets x n x k` each, the farthest last."""
    points = z - z.mean(dim=-2, keepdim=True)
    sizes = points.square().sum(dim=-1)
    squares = sizes.unsqueeze(-1) + sizes.unsqueeze(-2)
    squares.baddbmm_(points, points.mT, alpha=-2).clamp_min_(0)
    neighbours = _closest(squares, k)
    nearby = squares.gather(-1, neighbours)
    # Products lose digits for points that are close. No reachability distance is below a k-distance, so half of the
    # digits of the smallest k-distance are enough; if even these are lost, as among copies of a point, differences are
    # computed instead, which are exactly 0 for copies.
    unsure = nearby[..., -1].amin(dim=-1) <= torch.finfo(z.dtype).eps ** 0.5 * sizes.amax(dim=-1)
    if not unsure.any():
        return nearby.sqrt(), neighbours
    apart = torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist")
    neighbours = _closest(apart, k)
    return apart.gather(-1, neighbours), neighbours


def _closest(apart: Tensor, k: int) -> Tensor:
    """Indices of the `k` nearest other points, the farthest last, from distances or their squares."""
    if apart.dtype != torch.float32 or apart.device.type != "cpu":
        return nearest(apart, k)
    # Twice as fast as topk: each distance and its index form one integer, in the same order as the distances, since the
    # last 29 bits of a single stored as a double are 0.
    keys = apart.double().view(torch.int64).bitwise_or_(torch.arange(apart.shape[-1]))
    keys.diagonal(dim1=-2, dim2=-1).fill_(torch.iinfo(torch.int64).max)
    keys.numpy().partition(k - 1, axis=-1)
    return keys[..., :k].bitwise_and(2**29 - 1)


def _at(values: Tensor, neighbours: Tensor) -> Tensor:
    """Each neighbour's value, `... x n x k`, from values `... x n`."""
    return values.unsqueeze(-2).expand(*neighbours.shape[:-1], values.shape[-1]).gather(-1, neighbours)


def _sum_at(values: Tensor, neighbours: Tensor) -> Tensor:
    """For each point, the sum of the values of all points whose neighbour it is, `... x n`, from `... x n x k`."""
    total = values.new_zeros(values.shape[:-1])
    return total.scatter_add_(-1, neighbours.flatten(-2), values.flatten(-2))
