"""Mahajan et al. (2019): a conditional VAE whose loss includes the target class and a causal constraint.

It follows the authors' public code. There is one model for the unary constraint (a feature must not fall) and one for
the binary constraint (a feature must not rise unless another does); the task's rules define which features these are.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from ..classifier import differentiable
from ..errors import DataError, between, refuse
from ..explanation import Explanation, Status
from ..generator import view
from ..generator.cvae import ConditionalVAE
from ..generator.losses import Penalty, kl, proximity, sums_to_one, validity
from ..generator.settings import Architecture, NumberUnit
from ..generator.training import TrainingRows
from ..hashing import row_noise
from ..task import Task
from ..training_loop import Schedule, minimise
from .base import BaseMethod, Count, Outputs, Positive, RowsAsked, answered, asked
from .encoded import ColumnLayout

Constraint = Literal["unary", "binary"]
ARCHITECTURE = Architecture(hidden=(20, 16, 14, 12), latent=10, dropout=0.1, variance="sigmoid")
# Training rows on which restarts are compared.
COMPARED = 500


@dataclass(frozen=True)
class MahajanWeights:
    """Margin of the target class, and weights of validity and the constraint.

    Parameters
    ----------
    margin, validity, feasibility : float
        Margin of the validity hinge, its weight, and the weight of the rules.
    """

    margin: float
    validity: float
    feasibility: float

    def __post_init__(self) -> None:
        refuse("these weights", *(between(name, value, 0) for name, value in vars(self).items()))


PUBLISHED = {"unary": MahajanWeights(0.764, 29.0, 192.0), "binary": MahajanWeights(0.344, 76.0, 87.0)}
SCHEDULE = Schedule(epochs=25, batch=2048, learning_rate=1e-2, weight_decay=1e-2, steps=250)


@dataclass(kw_only=True, eq=False, repr=False)
class Mahajan(BaseMethod):
    """Return one draw of a conditional VAE per answer, whether or not it passes the checks, as in the paper.

    The loss, a mean over `draws` decodings, is the sum of the distance to the row, the deviation of each category's
    columns from a sum of 1, KL, a hinge on the target class, and the violation of the task's rules.

    Parameters
    ----------
    constraint : {"unary", "binary"}
        The constraint whose published settings are used.
    weights : MahajanWeights, optional
        Margin of the hinge, and weights of hinge and rules; by default the published ones of the constraint.
    slope : float
        A binary rule `q' > q => p' > p` acts as a hinge: `q` may rise by `slope` times the rise of `p`, both as shares
        of their ranges. The original has a linear reward made for its data instead. Other rules act by their violation.
    number_unit : {"own", "range", "mad"}
        Unit of numbers in the L1 distance: "own" units, as published, which dominate the loss if numbers are large, or
        their range or MAD in the training rows.
    architecture : Architecture
        Architecture of the network.
    draws : int
        Decodings per row in the loss.
    schedule : Schedule
        Schedule of the training.
    restarts : int
        Number of networks to train. Results depend strongly on the seed, so the network with the most verified answers
        for training rows is kept.
    seed : int
        Seed of all randomness.

    Notes
    -----
    | topic | the original (Mahajan, Tan, Sharma 2019, and its public code) | here |
    |---|---|---|
    | constraints | unary: a hinge on a feature that must not fall; binary: a linear reward made for its data | every rule of the task: the two forms as hinges, any other by its violation |
    | weights, margin, draws, schedule | in its code | the same |
    | immutable columns | reconstructed like the others | restored before the loss is computed |
    | small tables | 25 epochs | more epochs, until there are 250 steps |
    | an answer | a draw, counted before it is decoded | a draw, decoded and checked |
    """  # noqa: E501

    _learnt, reads_rules = "network_", True

    constraint: Constraint = "unary"
    weights: MahajanWeights | None = None
    slope: Positive = 10.0
    number_unit: NumberUnit = "own"
    architecture: Architecture = ARCHITECTURE
    draws: Count = 50
    schedule: Schedule = SCHEDULE
    restarts: Count = 1

    def fit(self, task: Task) -> Self:
        """Train on the training rows that do not have the target class."""
        self._check()
        self.surrogate_ = differentiable(task.classifier, task, seed=self.seed)
        rows, self.task_ = view.refused_rows(task, task.train), task
        if len(rows) < 2:
            few = f"the model gives the target class to all but {len(rows)} of {len(task.train):,} training rows"
            raise DataError(f"{self._name} learns from rows without the target class, but {few}")
        runs = [self._trained(rows, self.seed + restart) for restart in range(self.restarts)]
        verified = [self._verified(network) for network, _ in runs] if len(runs) > 1 else [0]
        self.network_, self.losses_ = runs[int(np.argmax(verified))]
        return self

    def explain(self, rows: pd.DataFrame, k: int = 1) -> Explanation:
        """Return the distinct ones of `k` draws for each row that does not have the target class."""
        question = self._asked(rows, k)
        return self._drawn(self.network_, question, k)

    @property
    def _name(self) -> str:
        return f"Mahajan {self.constraint}"

    def _trained(self, rows: TrainingRows, seed: int) -> tuple[ConditionalVAE, list[float]]:
        """Train a network; return it with its loss in each epoch."""
        generator = torch.Generator().manual_seed(seed)
        layout = view.layout(self.task_)
        # The original's encoder reads the whole row, immutable columns too.
        network = ConditionalVAE(replace(layout, mutable=(True,) * len(layout.mutable)), self.architecture, generator)
        terms = Terms.of(self, self.task_, self.surrogate_.module)
        losses = minimise(
            network,
            lambda x, y_target, _: terms.total(network, x, y_target, generator),
            [rows.x, rows.y_target],
            self.schedule,
            generator,
        )
        return network, losses

    def _verified(self, network: ConditionalVAE) -> int:
        """The number of verified answers for the first training rows that need one."""
        table = self.task_.train[self.task_.refused(self.task_.train)].head(COMPARED)
        return int((self._drawn(network, asked(self.task_, table), 1).row_status == Status.VERIFIED).sum())

    @torch.no_grad()
    def _drawn(self, network: ConditionalVAE, question: RowsAsked, k: int) -> Explanation:
        """Draw answers in double precision, so that after rounding they do not depend on the batch size."""
        exact, columns = copy.deepcopy(network).double().eval(), ColumnLayout(self.task_)
        codes, x = self.task_.encoder.codes(question.rows), question.x.double()
        noise = [torch.from_numpy(row_noise(codes, network.architecture.latent, self.seed, d)) for d in range(k)]
        draws = [columns.restored(exact(x, question.y_target, one).x_cf, x) for one in noise]
        x_cf, row = columns.distinct(draws, x, np.arange(len(question)))
        return answered(question, Outputs(x_cf, row, raw=x_cf), self._name, self.surrogate_)


@dataclass(frozen=True, eq=False)
class Terms:
    """The five terms of the loss. `scale`, `d`, is the weight of a difference of 1 in each encoded column."""

    classifier: nn.Module
    columns: ColumnLayout
    penalty: Penalty
    scale: Tensor | None
    weights: MahajanWeights
    draws: int

    @classmethod
    def of(cls, method: Mahajan, task: Task, classifier: nn.Module) -> Terms:
        """The terms for a task with a method's settings, or the published ones where it has none."""
        weights = method.weights or PUBLISHED[method.constraint]
        penalty = view.rule_penalty(task, "hinge", 0.0, method.slope)
        scale = view.proximity_scale(task, method.number_unit)
        return cls(classifier, ColumnLayout(task), penalty, scale, weights, method.draws)

    def each(
        self, network: ConditionalVAE, x: Tensor, y_target: Tensor, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """The unweighted terms of a batch by name: means over its rows and over the draws."""
        mean, variance = network.encode(x, y_target)
        z = mean + variance.sqrt() * torch.randn((self.draws, *mean.shape), generator=generator)
        x, y_target = x.repeat(self.draws, 1), y_target.repeat(self.draws)
        x_cf = self.columns.restored(network.decode(z.flatten(0, 1), x, y_target), x)
        return {
            "distance": proximity(x, x_cf, scale=self.scale),
            "sums": sums_to_one(x_cf, self.columns.groups),
            # The original takes the mean over the latent dimensions too.
            "kl": kl(mean, variance) / mean.shape[1],
            "validity": validity(self.classifier(x_cf), y_target, self.weights.margin),
            "feasibility": self.penalty(x, x_cf).mean(),
        }

    def total(self, network: ConditionalVAE, x: Tensor, y_target: Tensor, generator: torch.Generator) -> Tensor:
        """The weighted sum."""
        t = self.each(network, x, y_target, generator)
        weighed = self.weights.validity * t["validity"] + self.weights.feasibility * t["feasibility"]
        return t["distance"] + t["sums"] + t["kl"] + weighed
