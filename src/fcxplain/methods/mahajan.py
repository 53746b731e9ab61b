"""Mahajan et al. (2019): a conditional VAE whose loss asks for the class wanted and for a causal constraint.

Written after the authors' public code. There is one model for the unary constraint (a feature must not fall) and one
for the binary (a feature must not rise unless another does); which features these are, the task's rules say.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from ..classifier import differentiable
from ..errors import DataError, between, one_of, refuse, whole
from ..explanation import Explanation, Status
from ..generator import view
from ..generator.cvae import ConditionalVAE
from ..generator.losses import kl, proximity, sums_to_one, validity
from ..generator.objective import Penalty
from ..generator.settings import Architecture, NumberUnit
from ..generator.training import TrainingRows
from ..hashing import row_noise
from ..task import Task
from ..training_loop import Schedule, minimise
from .base import BaseMethod, Outputs, answered, asked
from .encoded import ColumnLayout

Constraint = Literal["unary", "binary"]
ARCHITECTURE = Architecture(hidden=(20, 16, 14, 12), latent=10, dropout=0.1, variance="sigmoid")
# Training rows that restarts are compared on.
COMPARED = 500


@dataclass(frozen=True)
class MahajanWeights:
    """By how much the class wanted should lead, and what that and the constraint count for.

    Parameters
    ----------
    margin, validity, feasibility : float
        Of the hinge that asks for the class wanted, its weight, and that of the rules.
    """

    margin: float
    validity: float
    feasibility: float

    def __post_init__(self) -> None:
        refuse("these weights", *(between(name, value, 0) for name, value in vars(self).items()))


PUBLISHED = {"unary": MahajanWeights(0.764, 29.0, 192.0), "binary": MahajanWeights(0.344, 76.0, 87.0)}
SCHEDULE = Schedule(epochs=25, batch=2048, learning_rate=1e-2, weight_decay=1e-2, steps=250)


class Mahajan(BaseMethod):
    """One draw of a conditional VAE for each answer, handed out whatever the checks say of it, as in the paper.

    The loss, a mean over `draws` decodings, is the sum of: the distance to the row, how far each category's columns are
    from summing to 1, KL, a hinge that asks for the class wanted, and how far the task's rules are from being kept.

    Parameters
    ----------
    constraint : {"unary", "binary"}
        Whose published settings are taken.
    weights : MahajanWeights, optional
        Margin of the hinge, and what hinge and rules count for; by default the published ones of the constraint.
    slope : float
        A binary rule `q' > q => p' > p` acts as a hinge, by which `q` may rise by `slope` times the rise of `p`, both
        as shares of their ranges; the original has a linear reward made for its data instead. Other rules act by how
        far they are from being kept.
    number_unit : {"own", "range", "mad"}
        The distance is L1, of numbers in "own" units as published, which drown all else where numbers are large, or in
        their range or MAD in the training rows.
    architecture : Architecture
        Of the network.
    draws : int
        See above.
    schedule : Schedule
        Of the training.
    restarts : int
        Results hang on the seed: of so many networks, the one with most verified answers for training rows is kept.
    seed : int
        Of all randomness.

    Notes
    -----
    | topic | the original (Mahajan, Tan, Sharma 2019, and its public code) | here |
    |---|---|---|
    | constraints | unary: a hinge on a feature that must not fall; binary: a linear reward made for its data | every rule of the task: the two forms as hinges, any other by how far it is from being kept |
    | weights, margin, draws, schedule | in its code | the same |
    | immutable columns | rebuilt like the others | put back before the loss is taken |
    | small tables | 25 epochs | more epochs, until there are 250 steps |
    | an answer | a draw, counted before it is decoded | a draw, decoded and checked |
    """  # noqa: E501

    _learnt, reads_rules = "network_", True

    def __init__(
        self,
        *,
        constraint: Constraint = "unary",
        weights: MahajanWeights | None = None,
        slope: float = 10.0,
        number_unit: NumberUnit = "own",
        architecture: Architecture = ARCHITECTURE,
        draws: int = 50,
        schedule: Schedule = SCHEDULE,
        restarts: int = 1,
        seed: int = 0,
    ) -> None:
        self.constraint, self.weights, self.slope, self.number_unit = constraint, weights, slope, number_unit
        self.architecture, self.draws, self.schedule = architecture, draws, schedule
        self.restarts, self.seed = restarts, seed

    def fit(self, task: Task) -> Self:
        """Train on the training rows that have another class than the one wanted."""
        self._check()
        self.surrogate_ = differentiable(task.classifier, task, seed=self.seed)
        rows, self.task_ = view.refused_rows(task, task.train), task
        if len(rows) < 2:
            few = f"the model gives the class wanted to all but {len(rows)} of {len(task.train):,} training rows"
            raise DataError(f"{self._name} learns from rows without the class wanted, but {few}")
        runs = [self._trained(rows, self.seed + restart) for restart in range(self.restarts)]
        verified = [self._verified(network) for network, _ in runs] if len(runs) > 1 else [0]
        self.network_, self.losses_ = runs[int(np.argmax(verified))]
        return self

    def explain(self, rows: pd.DataFrame, k: int = 1) -> Explanation:
        """The distinct ones of `k` draws for each row that does not have the class wanted."""
        self._check_asked(k)
        return self._drawn(self.network_, rows, k)

    @property
    def _name(self) -> str:
        return f"Mahajan {self.constraint}"

    def _check(self) -> None:
        self._refuse(
            one_of("constraint", self.constraint, get_args(Constraint)),
            between("slope", self.slope, 0, open_low=True),
            one_of("number_unit", self.number_unit, get_args(NumberUnit)),
            *(whole(name, getattr(self, name), 1) for name in ("draws", "restarts")),
        )

    def _trained(self, rows: TrainingRows, seed: int) -> tuple[ConditionalVAE, list[float]]:
        """A network, and its loss in each epoch."""
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
        """How many of the first training rows that need an answer get one that holds."""
        table = self.task_.train[self.task_.refused(self.task_.train)].head(COMPARED)
        return int((self._drawn(network, table, 1).row_status == Status.VERIFIED).sum())

    @torch.no_grad()
    def _drawn(self, network: ConditionalVAE, rows: pd.DataFrame, k: int) -> Explanation:
        """In double precision, so that the size of a batch never shows after rounding."""
        question = asked(self.task_, rows)
        exact, columns = copy.deepcopy(network).double().eval(), ColumnLayout(self.task_)
        codes, x = self.task_.encoder.codes(question.rows), question.x.double()
        noise = [torch.from_numpy(row_noise(codes, network.architecture.latent, self.seed, d)) for d in range(k)]
        draws = [columns.restored(exact(x, question.y_target, one).x_cf, x) for one in noise]
        x_cf, row = columns.distinct(draws, x, np.arange(len(question)))
        return answered(question, Outputs(x_cf, row, raw=x_cf), self._name, self.surrogate_)


@dataclass(frozen=True, eq=False)
class Terms:
    """The five terms of the loss. `scale`, `d`, is what a difference of 1 in each encoded column counts for."""

    classifier: nn.Module
    columns: ColumnLayout
    penalty: Penalty
    scale: Tensor | None
    weights: MahajanWeights
    draws: int

    @classmethod
    def of(cls, method: Mahajan, task: Task, classifier: nn.Module) -> Terms:
        """The terms for a task with a method's settings, or the published ones where it leaves them open."""
        weights = method.weights or PUBLISHED[method.constraint]
        penalty = view.rule_penalty(task, "hinge", 0.0, method.slope)
        scale = view.proximity_scale(task, method.number_unit)
        return cls(classifier, ColumnLayout(task), penalty, scale, weights, method.draws)

    def each(
        self, network: ConditionalVAE, x: Tensor, y_target: Tensor, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """The terms of a batch by name, before weighing: means over its rows and over the draws."""
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
