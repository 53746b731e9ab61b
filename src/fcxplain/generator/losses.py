"""The seven terms of the loss, one small function each, with the paper's equation named.

Every term is a mean over the batch. If the paper's form and ours differ, both are here and the preset selects one.
Shapes: `x` and `x_cf` are `n x d` encoded rows, `logits` `n x classes`, `z` `n x latent`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .lof import lof_in_chunks


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
