"""The loss that Algorithm 1 minimises: the paper's seven terms and two more, one small function each, and their sum.

Every term names its equation and is a mean over the batch. If the paper's form and ours differ, both are here and the
preset selects one. Shapes: `x` and `x_cf` are `n x d` encoded rows, `logits` `n x classes`, `z` `n x latent`.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..errors import Fault, TrainingError
from .cvae import Draw
from .settings import LossWeights, TermSettings

# As in scikit-learn: more than k copies of one point would otherwise have infinite density.
TINY = 1e-10
logger = logging.getLogger(__name__)

# Rows per chunk by default.
CHUNK = 256

Penalty = Callable[[Tensor, Tensor], Tensor]
"""A function of rows and counterfactuals (`n x d` each) that returns the violation of the rules, `n`."""


@dataclass(frozen=True)
class Objective:
    """Everything that the loss of a batch depends on.

    `joined` and `apart` are `d x d` masks over encoded columns; `scale`, `d`, is that of `proximity`.
    `expected`, `d x d`, are the absolute correlations in the data: joined columns should reach the share `theta` of
    them, and columns apart should not exceed them, so that the data itself has no loss.
    """

    classifier: nn.Module
    penalty: Penalty
    joined: Tensor
    apart: Tensor
    weights: LossWeights = field(default_factory=LossWeights)
    settings: TermSettings = field(default_factory=TermSettings)
    scale: Tensor | None = None
    expected: Tensor | None = None
    groups: tuple[tuple[int, int], ...] = ()
    """The spans of categories."""

    def on(self, device: torch.device) -> Objective:
        """The same objective on this device; a classifier on another device is copied."""
        own = {name: getattr(self, name) for name in ("joined", "apart", "scale", "expected")}
        parts = [*self.classifier.parameters(), *self.classifier.buffers(), *own.values()]
        if all(part is None or part.device == device for part in parts):
            return self
        moved: dict[str, Any] = {name: None if part is None else part.to(device) for name, part in own.items()}
        return replace(self, classifier=copy.deepcopy(self.classifier).to(device), **moved)

    def terms(self, x: Tensor, y_target: Tensor, drawn: Draw) -> dict[str, Tensor]:
        """The unweighted terms by name, without those of weight 0."""
        known = {name for name, weight in self.weights if weight}
        known -= {"imitation"} if drawn.surprise is None else set()
        return {name: self._term(name, x, y_target, drawn) for name, _ in self.weights if name in known}

    def total(self, terms: dict[str, Tensor]) -> Tensor:
        """The weighted sum."""
        weights = dict(self.weights)
        return torch.stack([weights[name] * term for name, term in terms.items()]).sum()

    def _term(self, name: str, x: Tensor, y_target: Tensor, drawn: Draw) -> Tensor:
        s = self.settings
        match name:
            case "proximity":
                return proximity(x, drawn.x_cf, s.norm, self.scale)
            case "validity":
                return validity(self.classifier(drawn.x_cf), y_target, s.margin, squashed=s.squashed)
            case "kl":
                whole = kl(drawn.mean, drawn.variance)
                return whole if s.kl == "sum" else whole / drawn.mean.shape[1]
            case "hard":
                return hard_rules(self.penalty(x, drawn.x_cf))
            case "soft":
                return self._soft(drawn.x_cf)
            case "sparsity" if s.sparsity == "l1":
                return sparsity_l1(x, drawn.x_cf)
            case "sparsity" if s.sparsity == "gates":
                return open_gates(_gates(drawn))
            case "sparsity":
                return sparsity_threshold(x, drawn.x_cf, s.threshold)
            case "density":
                first = drawn.z[: len(drawn.z) // s.draws]
                return density(first[: s.lof_rows], s.lof_k, s.lof_chunk)
            case "sums":
                return sums_to_one(drawn.x_cf, self.groups)
            case "imitation" if drawn.surprise is not None:
                return drawn.surprise
        raise ValueError(f"no term {name!r}")

    def _soft(self, x_cf: Tensor) -> Tensor:
        s = self.settings
        return soft_causal(
            x_cf,
            self.joined,
            self.apart,
            theta=s.theta if self.expected is None else s.theta * self.expected,
            weight_joined=s.weight_joined,
            weight_apart=s.weight_apart,
            standardised=s.standardised,
            tolerated=self.expected,
        )


def _gates(drawn: Draw) -> Tensor:
    if drawn.gates is None:
        remedy = 'Give the architecture gates, or choose "l1".'
        raise TrainingError("this objective", [Fault('sparsity "gates"', "needs a generator with gates", remedy)])
    return drawn.gates


def proximity(x: Tensor, x_cf: Tensor, norm: int = 1, scale: Tensor | None = None) -> Tensor:
    """Distance of the counterfactual from the row, L1 or squared L2 (second term of Eq. 8).

    `scale`, `d`, is the weight of a difference of 1 in each column; by default 1.
    """
    apart = x_cf - x if scale is None else (x_cf - x) * scale
    apart = apart.abs() if norm == 1 else apart.square()
    return apart.sum(dim=1).mean()


def validity(logits: Tensor, y_target: Tensor, margin: float, *, squashed: bool = True) -> Tensor:
    """Hinge loss that is 0 if the target's score leads every other by the margin (first term of Eq. 8).

    As published, scores are sigmoids of the logits, so that the margin lies between 0 and 1 for any classifier. Not
    squashed, they are the logits themselves, with a margin in log-odds, so that rows far from the target have a
    gradient too. `y_target` holds class indices, `n`.
    """
    scores = logits.sigmoid() if squashed else logits
    wanted = scores.gather(1, y_target[:, None])
    best_other = scores.scatter(1, y_target[:, None], -torch.inf).amax(dim=1, keepdim=True)
    return (margin - (wanted - best_other)).relu().mean()


def kl(mean: Tensor, variance: Tensor) -> Tensor:
    """KL of N(mean, variance) from N(0, I), averaged over the batch (Eq. 9).

    Both are `n x latent`.
    """
    return 0.5 * (mean**2 + variance - variance.log() - 1).sum(dim=1).mean()


def sums_to_one(x_cf: Tensor, groups: Sequence[tuple[int, int]]) -> Tensor:
    """Deviation of the columns of each category from a sum of 1, over all categories; `groups` are their spans."""
    apart = [(1 - x_cf[:, start:stop].sum(dim=1)).abs().mean() for start, stop in groups]
    return torch.stack(apart).sum() if apart else x_cf.new_zeros(())


def hard_rules(penalty: Tensor) -> Tensor:
    """The hard causal constraints, as the violation of the rules by each row (`rules.penalty`), `n`."""
    return penalty.mean()


def unary_hinge(present: Tensor, counterfactual: Tensor) -> Tensor:
    """The paper's unary constraint, max(0, x - x'), for one column that must not fall, row by row."""
    return (present - counterfactual).relu()


def binary_hinge(change_p: Tensor, change_q: Tensor, alpha: float, beta: float) -> Tensor:
    """The paper's binary constraint, max(0, (q' - q) - alpha - beta (p' - p) - min(0, beta)), row by row.

    It bounds the rise of `q` by that of `p`: a higher degree (`q`) needs more years (`p`).
    """
    return (change_q - alpha - beta * change_p - min(0.0, beta)).relu()


def soft_causal(
    values: Tensor,
    joined: Tensor,
    apart: Tensor,
    *,
    theta: float | Tensor,
    weight_joined: float = 1.0,
    weight_apart: float = 1.0,
    standardised: bool = True,
    tolerated: Tensor | None = None,
) -> Tensor:
    """Pairs joined in the graph should covary by at least `theta`, pairs apart not at all (Eq. 10).

    `values` is `n x d`; `joined` and `apart` are `d x d` masks that mark each pair once. As published, it uses
    covariances with their sign; standardised, absolute correlations, so that scale and sign do not matter. `theta` may
    be given per pair, and `tolerated` is how much pairs apart may covary without a penalty, `d x d` each.
    """
    together = correlation(values).abs() if standardised else covariance(values)
    missing = (theta - together).relu().square()
    excess = together if tolerated is None else (together - tolerated).relu()
    unwanted, wanted = torch.where(apart, excess.square(), 0), torch.where(joined, missing, 0)
    return weight_apart * unwanted.sum() + weight_joined * wanted.sum()


def covariance(values: Tensor) -> Tensor:
    """Covariance of the columns over the batch, `d x d`."""
    centred = values - values.mean(dim=0)
    return centred.T @ centred / max(1, len(values) - 1)


def correlation(values: Tensor) -> Tensor:
    """Correlation of the columns over the batch, `d x d`; 0 for a constant column."""
    together = covariance(values)
    variance = together.diagonal()
    scale = torch.where(variance > 1e-12, variance, 1.0).sqrt()
    return together / (scale[:, None] * scale)


def open_gates(gates: Tensor) -> Tensor:
    """Sparsity as the expected number of features changed: the sum of open gates, `n x features` (Eq. 7)."""
    return gates.sum(dim=1).mean()


def sparsity_l1(x: Tensor, x_cf: Tensor) -> Tensor:
    """The paper's L1 form of sparsity: the mean absolute change."""
    return (x_cf - x).abs().mean()


def sparsity_threshold(x: Tensor, x_cf: Tensor, threshold: float) -> Tensor:
    """The published L0 form: columns changed by more than a threshold. It has no gradient."""
    return ((x_cf - x).abs() > threshold).to(x.dtype).sum(dim=1).mean()


def density(z: Tensor, k: int, chunk: int | None = None) -> Tensor:
    """Mean local outlier factor in the latent space (Eq. 11), within chunks of the batch (see `lof_in_chunks`)."""
    return lof_in_chunks(z, k, chunk).mean()


# Local outlier factor of a batch, differentiable (Eqs. 2 to 4, after Breunig et al. 2000). It is about 1 for a point in
# surroundings as dense as its neighbours' are, and much larger for an outlier. Neighbours are selected without
# gradient; distances to neighbours carry it, by a closed formula rather than by autograd.


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
    closest = keys[..., :k]
    # Processors partition in different orders, and the sum over neighbours rounds by their order.
    closest.numpy().sort(axis=-1)
    return closest.bitwise_and(2**29 - 1)


def _at(values: Tensor, neighbours: Tensor) -> Tensor:
    """Each neighbour's value, `... x n x k`, from values `... x n`."""
    return values.unsqueeze(-2).expand(*neighbours.shape[:-1], values.shape[-1]).gather(-1, neighbours)


def _sum_at(values: Tensor, neighbours: Tensor) -> Tensor:
    """For each point, the sum of the values of all points whose neighbour it is, `... x n`, from `... x n x k`."""
    total = values.new_zeros(values.shape[:-1])
    return total.scatter_add_(-1, neighbours.flatten(-2), values.flatten(-2))
