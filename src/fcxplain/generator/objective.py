"""The weighted sum that Algorithm 1 minimises: the paper's seven terms of one batch, by name, and two more."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import Fault, TrainingError
from . import losses
from .cvae import Draw
from .settings import LossWeights, TermSettings

Penalty = Callable[[Tensor, Tensor], Tensor]
"""A function of rows and counterfactuals (`n x d` each) that returns the violation of the rules, `n`."""


@dataclass(frozen=True)
class Objective:
    """Everything that the loss of a batch depends on.

    `joined` and `apart` are `d x d` masks over encoded columns; `scale`, `d`, is that of `losses.proximity`.
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
                return losses.proximity(x, drawn.x_cf, s.norm, self.scale)
            case "validity":
                return losses.validity(self.classifier(drawn.x_cf), y_target, s.margin, squashed=s.squashed)
            case "kl":
                whole = losses.kl(drawn.mean, drawn.variance)
                return whole if s.kl == "sum" else whole / drawn.mean.shape[1]
            case "hard":
                return losses.hard_rules(self.penalty(x, drawn.x_cf))
            case "soft":
                return self._soft(drawn.x_cf)
            case "sparsity" if s.sparsity == "l1":
                return losses.sparsity_l1(x, drawn.x_cf)
            case "sparsity" if s.sparsity == "gates":
                return losses.open_gates(_gates(drawn))
            case "sparsity":
                return losses.sparsity_threshold(x, drawn.x_cf, s.threshold)
            case "density":
                first = drawn.z[: len(drawn.z) // s.draws]
                return losses.density(first[: s.lof_rows], s.lof_k, s.lof_chunk)
            case "sums":
                return losses.sums_to_one(drawn.x_cf, self.groups)
            case "imitation" if drawn.surprise is not None:
                return drawn.surprise
        raise ValueError(f"no term {name!r}")

    def _soft(self, x_cf: Tensor) -> Tensor:
        s = self.settings
        return losses.soft_causal(
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
