"""The weighted sum that Algorithm 1 minimises: seven terms of one batch, by name."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from ..errors import Fault, TrainingError, between, one_of, refuse, whole
from . import losses
from .cvae import Draw

Penalty = Callable[[Tensor, Tensor], Tensor]
"""From rows and counterfactuals (`n x d` each) to how far each is from keeping the rules, `n`."""
Sparsity = Literal["l1", "threshold", "gates"]
NumberUnit = Literal["range", "mad"]


@dataclass(frozen=True)
class LossWeights:
    """What each term of the loss counts for; 0 leaves it out.

    Parameters
    ----------
    proximity, validity : float
        How far the counterfactual is from the row, and by how much it misses the class wanted (Eq. 8).
    kl : float
        How far the latent distribution is from a normal one (Eq. 9).
    hard, soft : float
        The rules, and the causal graph (Eq. 10).
    sparsity, density : float
        How much changes (Eq. 7), and how far it is from other rows in the latent space (Eq. 11).
    """

    proximity: float = 1.0
    validity: float = 1.0
    kl: float = 1.0
    hard: float = 1.0
    soft: float = 1.0
    sparsity: float = 1.0
    density: float = 1.0

    def __post_init__(self) -> None:
        wrong = [name for name, weight in self if not (math.isfinite(weight) and weight >= 0)]
        remedy = "Give 0 or more; 0 leaves the term out."
        faults = [Fault(f"weight of {name}", f"is {getattr(self, name)}", remedy) for name in wrong]
        if not any(weight for _, weight in self):
            faults.append(Fault("weights", "are all 0, so that there is nothing to minimise", "Let a term count."))
        if faults:
            raise TrainingError("these weights cannot be used", faults)

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter((f.name, getattr(self, f.name)) for f in fields(self))


@dataclass(frozen=True)
class TermSettings:
    """The free choices inside the terms; the defaults are the paper's forms.

    Parameters
    ----------
    norm : {1, 2}
        Of the proximity.
    number_unit : {"range", "mad"}
        What a number's change counts in for proximity: its range in the training rows, or its MAD there.
    margin : float
        By how much the class wanted should lead: as a difference of sigmoids, or of logits where not
        `squashed`.
    squashed : bool
        Whether logits go through a sigmoid there.
    alpha : float
        Of the paper's binary hinge: by how much the condition may rise for nothing.
    beta : float
        Of the paper's binary hinge: how far the condition may rise for a rise of the consequence by 1.
    theta : float
        By how much joined columns should covary; where `standardised`, as a share of the data's own
        correlation.
    standardised : bool
        Whether covariances are held against the data's own.
    weight_joined, weight_apart : float
        What joined columns, and those apart, count for in the soft term.
    sparsity : {"l1", "threshold", "gates"}
        The size of changes, columns that change (no gradient), or how many features are likely to (needs
        gates).
    threshold : float
        From where a column counts as changed.
    lof_k : int
        Neighbours in the LOF.
    lof_chunk : int, optional
        Rows that LOF is taken over; by default 256, or 4 k where that is more.

    Raises
    ------
    TrainingError
        If a setting cannot work.
    """

    norm: int = 1
    number_unit: NumberUnit = "range"
    margin: float = 0.5
    squashed: bool = True
    alpha: float = 0.0
    beta: float = 1.0
    theta: float = 0.2
    standardised: bool = False
    weight_joined: float = 1.0
    weight_apart: float = 1.0
    sparsity: Sparsity = "l1"
    threshold: float = 0.05
    lof_k: int = 20
    lof_chunk: int | None = None

    def __post_init__(self) -> None:
        refuse(
            "these settings of the terms",
            one_of("norm", self.norm, (1, 2)),
            one_of("number_unit", self.number_unit, get_args(NumberUnit)),
            one_of("sparsity", self.sparsity, get_args(Sparsity)),
            one_of("squashed", self.squashed, (False, True)),
            *(
                between(n, getattr(self, n), 0)
                for n in ("margin", "theta", "threshold", "weight_joined", "weight_apart")
            ),
            *(between(n, getattr(self, n), -math.inf) for n in ("alpha", "beta")),
            whole("lof_k", self.lof_k, 1),
            [] if self.lof_chunk is None else whole("lof_chunk", self.lof_chunk, 2),
        )


@dataclass(frozen=True)
class Objective:
    """Everything that a batch is judged by.

    `joined` and `apart` are `d x d` masks over encoded columns; `scale`, `d`, is that of `losses.proximity`.
    `expected`, `d x d`, is the size of the data's own correlations: joined columns should have the share `theta` of
    it, and columns apart no more than it, so that the data itself costs nothing.
    """

    classifier: nn.Module
    penalty: Penalty
    joined: Tensor
    apart: Tensor
    weights: LossWeights = LossWeights()
    settings: TermSettings = TermSettings()
    scale: Tensor | None = None
    expected: Tensor | None = None

    def on(self, device: torch.device) -> Objective:
        """The same objective for rows on this device; a classifier that lies elsewhere is copied there."""
        own = {name: getattr(self, name) for name in ("joined", "apart", "scale", "expected")}
        parts = [*self.classifier.parameters(), *self.classifier.buffers(), *own.values()]
        if all(part is None or part.device == device for part in parts):
            return self
        moved: dict[str, Any] = {name: None if part is None else part.to(device) for name, part in own.items()}
        return replace(self, classifier=copy.deepcopy(self.classifier).to(device), **moved)

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
                return losses.proximity(x, drawn.x_cf, s.norm, self.scale)
            case "validity":
                return losses.validity(self.classifier(drawn.x_cf), y_target, s.margin, squashed=s.squashed)
            case "kl":
                return losses.kl(drawn.mean, drawn.variance)
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
                return losses.density(drawn.z, s.lof_k, s.lof_chunk)
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
