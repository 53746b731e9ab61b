"""CEILS (Crupi et al., 2021): interventions on the causes, whose effects follow along the causal graph.

Every feature with causes is a function of these and a residual of its own. Roots and residuals, U, are what is searched
by gradient; x = F(U) is what the model sees.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pandas as pd
import torch
from torch import Tensor, nn

from ..causal import CausalGraph, Knowledge, as_graph, discover
from ..classifier.networks import mlp
from ..errors import between, whole
from ..explanation import Explanation
from ..task import Task
from ..training_loop import Schedule, minimise, one_thread
from .base import BaseMethod, answered, gradients, one_for_each
from .encoded import ColumnLayout

# Rows searched side by side.
CHUNK = 1024
# Training rows that the structural equations are learnt from, at most.
LEARNT_FROM = 50_000
# Tables so small that the epochs would have fewer steps get more epochs.
STEPS = 500
# Points lie on a grid this fine, so that rounding, which depends on the batch, does not add up over the steps.
GRID = 2.0**32
# By how much the weight of the class wanted falls at a step that has it, and rises at one that has not; and its ends.
GROWTH, LIGHTEST, HEAVIEST = 1.1, 1e-3, 1e4


@dataclass(frozen=True, eq=False)
class Interventions:
    """The best legal row of each search, `n x d`, the point it comes from, and its cost, `n`; infinite is none."""

    x_cf: Tensor
    u: Tensor
    cost: Tensor


class CEILS(BaseMethod):
    """The cheapest point U' near a row's own U for which F(U') decodes to a row with the class wanted.

    Parameters
    ----------
    graph : CausalGraph, matrix, networkx graph or path, optional
        The causal graph; by default the task's own, else one discovered from the training rows. Edges without a
        direction get one that closes no cycle (`CausalGraph.dag`). What may not change is taken for a root, since
        nothing that is done moves it.
    significance : float
        Of the discovery.
    hidden, epochs, batch, fit_rate : tuple of int, int, int, float
        Of the networks that predict a feature's columns from those of its causes; a category's residual lies in its
        columns. The original takes a tenth of the rate for up to 200 epochs.
    beta : float
        What L1 counts for beside squared L2, both of the change of U.
    kappa : float
        By how much the logit of the class wanted should lead.
    steps, learning_rate : int, float
        Of the proximal gradient steps.
    surrogate : bool
        Whether a model without gradients is explained by way of a network that imitates it.
    seed : int
        Of all randomness.

    Notes
    -----
    The original hands the search to a library, which bisects the weight of the class wanted; here it falls at every
    step where a row has that class, rises where it has not, and the cheapest step that has it counts. Steps stay in the
    box of the U of training rows. Every point is judged as the legal row that it decodes to, and gradients pass
    straight through the rounding. There is one answer for each row, whatever `k`.
    """

    _learnt = "equations_"

    def __init__(
        self,
        *,
        graph: Any = None,
        significance: float = 0.01,
        hidden: tuple[int, ...] = (40, 40),
        epochs: int = 30,
        batch: int = 512,
        fit_rate: float = 1e-3,
        beta: float = 0.5,
        kappa: float = 0.2,
        steps: int = 300,
        learning_rate: float = 0.02,
        surrogate: bool = False,
        seed: int = 0,
    ) -> None:
        self.graph, self.significance, self.hidden = graph, significance, hidden
        self.epochs, self.batch, self.fit_rate = epochs, batch, fit_rate
        self.beta, self.kappa, self.steps, self.learning_rate = beta, kappa, steps, learning_rate
        self.surrogate, self.seed = surrogate, seed

    def fit(self, task: Task) -> Self:
        """Find the graph, learn the structural equations, and see how far U goes."""
        self._check()
        self.surrogate_ = gradients(task, "CEILS", surrogate=self.surrogate, seed=self.seed)
        # In double precision, so that the size of a batch does not show.
        self.classifier_: nn.Module = copy.deepcopy(self.surrogate_).double()
        self.columns_, self.task_ = ColumnLayout(task), task
        self.graph_ = self._graph(task)
        generator = torch.Generator().manual_seed(self.seed)
        causes = _causes(self.graph_, self.columns_, task.schema.names)
        self.equations_ = Equations(causes, self.columns_, self.hidden, generator)
        x = task.encoder.encode(task.train)
        self.losses_ = self._learn(x[torch.randperm(len(x), generator=generator)[:LEARNT_FROM]].float(), generator)
        self.equations_.double().requires_grad_(False)
        seen = [self.equations_.residuals(part.double()) for part in torch.split(x, LEARNT_FROM)]
        self.low_ = torch.stack([u.amin(dim=0) for u in seen]).amin(dim=0)
        self.high_ = torch.stack([u.amax(dim=0) for u in seen]).amax(dim=0)
        return self

    def explain(self, rows: pd.DataFrame, k: int = 1) -> Explanation:
        """An answer for each row that does not have the class wanted."""
        question = self._asked(rows, k)
        x, parts = question.x.double(), range(0, len(question), CHUNK)
        found = [self.search(x[s : s + CHUNK], question.y_target[s : s + CHUNK]) for s in parts]
        x_cf = torch.cat([x[:0], *(f.x_cf for f in found)])
        cost = torch.cat([x[:0, 0], *(f.cost for f in found)])
        raw = torch.cat([x[:0], *(self.equations_.rebuilt(f.u) for f in found)])
        reason = f"none of {self.steps:,} steps among causes and residuals came to a row with the class wanted"
        note = "CEILS gives one answer for each row" if k > 1 else ""
        return answered(question, one_for_each(question, x_cf, raw, cost, reason, note), "CEILS", self.surrogate_)

    def search(self, x: Tensor, y_target: Tensor) -> Interventions:
        """Proximal gradient steps from the U of each row, `n x d`: rows side by side do not touch each other."""
        start = self.equations_.residuals(x)
        low, high = torch.minimum(start, self.low_), torch.maximum(start, self.high_)
        may, u = self.columns_.mutable, start
        best = Interventions(x.clone(), start.clone(), torch.full_like(x[:, 0], torch.inf))
        weight = torch.ones_like(best.cost)
        with one_thread():
            for _ in range(self.steps):
                x_cf, slope, valid = self._look(u, x, y_target)
                self._keep(best, x_cf, u, start, valid)
                weight = (weight * torch.where(valid, 1 / GROWTH, GROWTH)).clamp(LIGHTEST, HEAVIEST)
                pull = 2 * (u - start) + weight[:, None] * slope
                away = nn.functional.softshrink(u - self.learning_rate * pull - start, self.learning_rate * self.beta)
                moved = ((start + away) * GRID).round() / GRID
                u = torch.where(may & (away != 0), torch.minimum(torch.maximum(moved, low), high), start)
        return best

    def _look(self, u: Tensor, x: Tensor, y_target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The legal rows of points, how the lag of the class wanted falls from there, and whether they have it."""
        at = u.detach().requires_grad_()
        soft = self.equations_.rebuilt(at)
        x_cf = self.columns_.legal(soft.detach(), x)
        logits = self.classifier_(soft + (x_cf - soft.detach()))
        wanted = logits.gather(1, y_target[:, None])
        other = logits.scatter(1, y_target[:, None], -torch.inf).amax(dim=1, keepdim=True)
        lag = (other - wanted + self.kappa).clamp(min=0)
        (slope,) = torch.autograd.grad(lag.sum(), at)
        # What one level gains the others lose: else a level could not pass the present one, which is 1 already.
        for start, stop in self.columns_.groups:
            slope[:, start:stop] -= slope[:, start:stop].mean(dim=1, keepdim=True)
        return x_cf, slope, logits.argmax(dim=1) == y_target

    def _keep(self, best: Interventions, x_cf: Tensor, u: Tensor, start: Tensor, valid: Tensor) -> None:
        away = u - start
        cost = self.beta * away.abs().sum(dim=1) + (away**2).sum(dim=1)
        better = valid & (cost < best.cost)
        best.x_cf[better], best.u[better], best.cost[better] = x_cf[better], u[better], cost[better]

    def _graph(self, task: Task) -> CausalGraph:
        given = task.graph if self.graph is None else self.graph
        if given is not None:
            return as_graph(given, task.schema.names)
        fixed = [n for n in task.schema.names if n in task.frozen]
        others = tuple(n for n in task.schema.names if n not in fixed)
        knowledge = Knowledge(tiers=(tuple(fixed), others)) if fixed else None
        return discover(task.train, task.schema, significance=self.significance, knowledge=knowledge)

    def _learn(self, x: Tensor, generator: torch.Generator) -> list[float]:
        """The mean squared residual of each epoch, summed over columns."""
        if not self.equations_.causes:
            return []
        return minimise(
            self.equations_,
            lambda x, _: (self.equations_.residuals(x)[:, self.equations_.caused] ** 2).sum(dim=1).mean(),
            [x],
            Schedule(self.epochs, self.batch, self.fit_rate, steps=STEPS),
            generator,
        )

    def _check(self) -> None:
        widths = self.hidden if isinstance(self.hidden, tuple | list) and self.hidden else (self.hidden,)
        self._refuse(
            between("significance", self.significance, 0, 1, open_low=True),
            *(whole("hidden", width, 1) for width in widths),
            *(whole(name, getattr(self, name), 1) for name in ("epochs", "steps")),
            whole("batch", self.batch, 2),
            *(between(name, getattr(self, name), 0) for name in ("beta", "kappa")),
            *(between(name, getattr(self, name), 0, open_low=True) for name in ("fit_rate", "learning_rate")),
        )


class Equations(nn.Module):
    """F and its inverse: a network for each feature that has causes, from the columns of these to its own.

    `causes` says for each of these features, by places and causes before effects, which those are.
    """

    caused: Tensor

    def __init__(
        self,
        causes: Mapping[int, Sequence[int]],
        columns: ColumnLayout,
        hidden: Sequence[int],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.causes, spans = dict(causes), columns.layout.spans
        self.widths = [stop - start for start, stop in spans]
        self.networks = nn.ModuleDict()
        for place, parents in causes.items():
            inputs = sum(self.widths[p] for p in parents)
            self.networks[str(place)] = mlp(inputs, self.widths[place], generator, torch.float32, hidden)
        caused = [column for place in causes for column in range(*spans[place])]
        self.register_buffer("caused", torch.tensor(caused, dtype=torch.long))

    def residuals(self, x: Tensor) -> Tensor:
        """U of rows, `n x d`: roots as they are, and of all else what its causes leave open."""
        parts = list(torch.split(x, self.widths, dim=1))
        left = [part - self._expected(i, parts) if i in self.causes else part for i, part in enumerate(parts)]
        return torch.cat(left, dim=1)

    def rebuilt(self, u: Tensor) -> Tensor:
        """Rows F(U), `n x d`, causes before effects."""
        parts = list(torch.split(u, self.widths, dim=1))
        for place in self.causes:
            parts[place] = parts[place] + self._expected(place, parts)
        return torch.cat(parts, dim=1)

    def _expected(self, place: int, parts: Sequence[Tensor]) -> Tensor:
        found: Tensor = self.networks[str(place)](torch.cat([parts[p] for p in self.causes[place]], dim=1))
        return found


def _causes(graph: CausalGraph, columns: ColumnLayout, names: Sequence[str]) -> dict[int, tuple[int, ...]]:
    """The causes of each feature that has any and may change, by places, in causal order."""
    dag, place = graph.dag(), {name: i for i, name in enumerate(names)}
    found = {place[name]: tuple(place[parent] for parent in dag.parents(name)) for name in dag.order()}
    return {i: parents for i, parents in found.items() if parents and columns.layout.mutable[i]}
