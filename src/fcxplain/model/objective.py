"""The weighted sum that Algorithm 1 minimises: seven terms of one batch, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor, nn

from . import losses
from .cvae import Draw

Penalty = Callable[[Tensor, Tensor], Tensor]
"""From rows and counterfactuals (`n x d` each) to how far each is from keeping the rules, `n`."""
Sparsity = Literal["l1", "threshold"]


@dataclass(frozen=True)
class Weights:
    """What each term counts for; 0 leaves it out."""

    proximity: float = 1.0
    validity: float = 1.0
    kl: float = 1.0
    hard: float = 1.0
    soft: float = 1.0
    sparsity: float = 1.0
    density: float = 1.0

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter((f.name, getattr(self, f.name)) for f in fields(self))


@dataclass(frozen=True)
class TermSettings:
    """The free choices inside the terms; the defaults are the paper's forms."""

    norm: int = 1
    margin: float = 0.5
    theta: float = 0.2
    standardised: bool = False
    weight_joined: float = 1.0
    weight_apart: float = 1.0
    sparsity: Sparsity = "l1"
    threshold: float = 0.05
    lof_k: int = 20
    lof_chunk: int = 256


@dataclass(frozen=True)
class Objective:
    """Everything that a batch is judged by. `joined` and `apart` are `d x d` masks over encoded columns."""

    classifier: nn.Module
    penalty: Penalty
    joined: Tensor
    apart: Tensor
    weights: Weights = Weights()
    settings: TermSettings = TermSettings()

    def terms(self, x: Tensor, y_target: Tensor, drawn: Draw) -> dict[str, Tensor]:
        """Each term that counts for something, before weighing, by name."""
        return {name: self._term(name, x, y_target, drawn) for name, weight in self.weights if weight}

    def total(self, terms: dict[str, Tensor]) -> Tensor:
        """The weighted sum."""
        weights = dict(self.weights)
        return torch.stack([weights[name] * term for name, term in terms.items()]).sum()

    def _term(self, name: str, x: Tensor, y_target: Tensor, drawn: Draw) -> Tensor:
        s = self.settings
        match name:
            case "proximity":
                return losses.proximity(x, drawn.x_cf, s.norm)
            case "validity":
                return losses.validity(self.classifier(drawn.x_cf), y_target, s.margin)
            case "kl":
                return losses.kl(drawn.mean, drawn.variance)
            case "hard":
                return losses.hard_rules(self.penalty(x, drawn.x_cf))
            case "soft":
                return self._soft(drawn.x_cf)
            case "sparsity" if s.sparsity == "l1":
                return losses.sparsity_l1(x, drawn.x_cf)
            case "sparsity":
                return losses.sparsity_threshold(x, drawn.x_cf, s.threshold)
            case "density":
                return losses.density(drawn.z, s.lof_k, s.lof_chunk)
        raise ValueError(f"no term {name!r}")

    def _soft(self, x_cf: Tensor) -> Tensor:
        s = self.settings
        return losses.soft_causal(
            x_cf,
            self.joined,
            self.apart,
            theta=s.theta,
            weight_joined=s.weight_joined,
            weight_apart=s.weight_apart,
            standardised=s.standardised,
        )
