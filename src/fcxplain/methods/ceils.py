"""CEILS (Crupi et al., 2021): interventions on causes, whose effects propagate along the causal graph.

Every feature with causes is a function of its causes and a residual. The gradient search moves the roots and residuals,
U; the model sees x = F(U).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Self

import pandas as pd
import torch
from torch import Tensor, nn

from ..causal import CausalGraph, Knowledge, as_graph, discover
from ..classifier import differentiable
from ..classifier.networks import mlp
from ..errors import between
from ..explanation import Explanation
from ..rules.normal import grouped
from ..task import Task
from ..training_loop import Schedule, minimise, one_thread
from .base import BaseMethod, BatchSize, Count, Positive, RowsAsked, Weight, Widths, answered, in_parts, one_for_each
from .encoded import ColumnLayout
from .grid import keeps, ranges

# Rows searched in one batch.
CHUNK = 1024
# The most training rows used to learn the structural equations.
LEARNT_FROM = 50_000
# Small tables get more epochs until they reach this number of steps.
STEPS = 500
# Points lie on a grid this fine, so that rounding errors, which depend on the batch, do not add up over the steps.
GRID = 2.0**32
# The most training rows per class that are candidates for a row's prototype.
PROTOTYPES = 2_000
# The factor by which the weight of the target class falls at a step that has that class, and rises at any other step;
# and the bounds of that weight.
GROWTH, LIGHTEST, HEAVIEST = 1.1, 1e-3, 1e4


@dataclass(frozen=True, eq=False)
class Interventions:
    """The best legal row of each search, `n x d`, its point, and its cost, `n`; infinite where nothing was found."""

    x_cf: Tensor
    u: Tensor
    cost: Tensor


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds of U that the task's rules leave to each row, `n x d` each, and a check of legal rows by all rules."""

    low: Tensor
    high: Tensor
    keeps: Callable[[Tensor], Tensor] | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class CEILS(BaseMethod):
    """Find the cheapest point U' near a row's own U for which F(U') decodes to a row with the target class.

    Parameters
    ----------
    graph : CausalGraph, matrix, networkx graph or path, optional
        The causal graph; by default the task's own, else one discovered from the training rows. In a discovered graph,
        features that may not change are caused only by each other, and only they cause features bounded by rules, so
        that a bound of U is a bound of the feature. Undirected edges get a direction that closes no cycle
        (`CausalGraph.dag`). Features that may not change are treated as roots, since no intervention moves them.
    significance : float
        Significance level of the discovery.
    hidden, epochs, batch, fit_rate : tuple of int, int, int, float
        Settings of the networks that predict a feature's columns from those of its causes; a category's residual lies
        in its columns. The original uses a tenth of the rate for up to 200 epochs.
    beta, theta : float
        Weight of the L1 norm of the change of U, next to its squared L2 norm; and weight of the squared L2 distance to
        the prototype, the nearest training row with the target class.
    kappa : float
        Margin by which the logit of the target class should lead.
    steps, learning_rate : int, float
        Number and size of the proximal gradient steps.
    every_rule : bool
        Whether a point must also satisfy the rules that are not bounds of a single feature. The original has no such
        rules.
    seed : int
        Seed of all randomness.

    Notes
    -----
    | topic | the original (Crupi et al. 2021 and its public code) | here |
    |---|---|---|
    | constraints | `immutable`, `higher`, `lower`: bounds of U at the row's own U | rules on a single feature bound its U as they bound the feature; a level that they exclude may not rise |
    | graph | given by experts | the task's, or discovered; if discovered, only fixed or bounded features cause features bounded by rules |
    | other rules | none | none, unless `every_rule` |
    | prototype | the nearest training row of another class, found in U, `theta` = 100 | the nearest of 2,000 that have the target class; applied as an implicit step, which is stable for any `theta` |
    | search | left to a library, which bisects the weight of the target class; 500 steps at 0.001 | the weight falls at every step where a row has the class and rises where it has not; 300 steps at 0.02 |
    | box | the U of training rows | the same |
    | categories | one number each | one column per level; the gain of one level is the loss of the others |
    | an answer | soft, the cheapest that has the class | every point is judged by the legal row it decodes to, and the cheapest is the answer; gradients pass straight through the rounding |
    | structural equations | up to 200 epochs at 0.0001 | 30 epochs at 0.001, at least 500 steps |
    | answers | one per row | one per row, whatever `k` |
    """  # noqa: E501

    reads_rules = True

    graph: Any = None
    significance: Annotated[float, partial(between, low=0, high=1, open_low=True)] = 0.01
    hidden: Widths = (40, 40)
    epochs: Count = 30
    batch: BatchSize = 512
    fit_rate: Positive = 1e-3
    beta: Weight = 0.5
    theta: Weight = 100.0
    kappa: Weight = 0.2
    steps: Count = 300
    learning_rate: Positive = 0.02
    every_rule: bool = False

    def fit(self, task: Task) -> Self:
        """Find the graph, learn the structural equations, and record the range of U."""
        self._check()
        self.surrogate_ = differentiable(task.classifier, task, seed=self.seed)
        # In double precision, so that answers do not depend on the batch size.
        self.classifier_: nn.Module = copy.deepcopy(self.surrogate_.module).double()
        self.columns_ = ColumnLayout(task)
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
        self.prototypes_ = self._prototypes(x, torch.cat(seen), generator)
        self.task_ = task
        return self

    def explain(self, rows: pd.DataFrame, k: int = 1) -> Explanation:
        """Find an answer for each row that does not have the target class."""
        question = self._asked(rows, k)
        x, parts = question.x.double(), in_parts(len(question), CHUNK)
        found = [self.search(x[part], question.y_target[part], self._bounds(question, part)) for part in parts]
        x_cf, cost = (torch.cat([getattr(f, name) for f in found]) for name in ("x_cf", "cost"))
        raw = torch.cat([self.equations_.rebuilt(f.u) for f in found])
        reason = f"none of {self.steps:,} steps on causes and residuals reached a row with the target class"
        note = "CEILS gives one answer for each row" if k > 1 else ""
        return answered(question, one_for_each(question, x_cf, raw, cost, reason, note), "CEILS", self.surrogate_)

    def search(self, x: Tensor, y_target: Tensor, bounds: Bounds | None = None) -> Interventions:
        """Take proximal gradient steps from the U of each row, `n x d`; rows of a batch do not affect each other."""
        start, kept = self.equations_.residuals(x), None if bounds is None else bounds.keeps
        low, high = torch.minimum(start, self.low_), torch.maximum(start, self.high_)
        if bounds is not None:
            low, high = torch.maximum(low, bounds.low), torch.minimum(high, bounds.high)
        may, u, goal = self.columns_.mutable & (low <= high), start, self._goals(start, y_target)
        drawn = 2 * self.learning_rate * self.theta
        best = Interventions(x.clone(), start.clone(), torch.full_like(x[:, 0], torch.inf))
        weight = torch.ones_like(best.cost)
        with one_thread():
            for _ in range(self.steps):
                x_cf, slope, valid = self._look(u, x, y_target)
                self._keep(best, x_cf, u, start, valid if kept is None else valid & kept(x_cf))
                weight = (weight * torch.where(valid, 1 / GROWTH, GROWTH)).clamp(LIGHTEST, HEAVIEST)
                pull = 2 * (u - start) + weight[:, None] * slope
                there = (u - self.learning_rate * pull + drawn * goal) / (1 + drawn)
                away = nn.functional.softshrink(there - start, self.learning_rate * self.beta)
                moved = ((start + away) * GRID).round() / GRID
                u = torch.where(may & (away != 0), torch.minimum(torch.maximum(moved, low), high), start)
        return best

    @torch.no_grad()
    def _prototypes(self, x: Tensor, u: Tensor, generator: torch.Generator) -> list[Tensor]:
        """U of some training rows of each class as predicted by the model."""
        y = torch.cat([self.classifier_(part.double()).argmax(dim=1) for part in torch.split(x, LEARNT_FROM)])
        order = torch.randperm(len(x), generator=generator)
        return [u[order[y[order] == c][:PROTOTYPES]] for c in range(self.columns_.layout.classes)]

    def _goals(self, start: Tensor, y_target: Tensor) -> Tensor:
        """The prototype nearest to each row, `n x d`; the row itself where there is none."""
        goal = start.clone()
        for c, known in enumerate(self.prototypes_):
            here = torch.nonzero(y_target == c)[:, 0]
            if len(known) and len(here):
                # The rounding of a matrix product would depend on the batch size.
                apart = torch.cdist(start[here], known, compute_mode="donot_use_mm_for_euclid_dist")
                goal[here] = known[apart.argmin(dim=1)]
        return goal

    def _bounds(self, question: RowsAsked, part: slice) -> Bounds:
        """The bounds that the task's rules leave to some of the rows to explain."""
        task, x = self.task_, question.x[part].double()
        natural = {name: values[part] for name, values in question.natural.items()}
        low, high = torch.full_like(x, -torch.inf), torch.full_like(x, torch.inf)
        for name, allowed in ranges(task, natural).items():
            span, feature = task.encoder.spans_[name], task.schema[name]
            if allowed.levels is not None:
                high[:, span] = torch.where(torch.from_numpy(allowed.levels), torch.inf, 0.0)
            else:
                least, spread = task.encoder.scale_[name]
                ends = (torch.from_numpy((feature.at(codes) - least) / spread) for codes in (allowed.low, allowed.high))
                low[:, span.start], high[:, span.start] = (end - x[:, span.start] for end in ends)
        own = self.equations_.residuals(x)

        def kept(x_cf: Tensor) -> Tensor:
            return torch.from_numpy(keeps(task, natural, task.encoder.decode_natural(x_cf)))

        return Bounds(own + low, own + high, kept if self.every_rule else None)

    def _look(self, u: Tensor, x: Tensor, y_target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The legal rows of points, the gradient of the target class's deficit, and whether they have that class."""
        at = u.detach().requires_grad_()
        soft = self.equations_.rebuilt(at)
        x_cf = self.columns_.legal(soft.detach(), x)
        logits = self.classifier_(soft + (x_cf - soft.detach()))
        wanted = logits.gather(1, y_target[:, None])
        other = logits.scatter(1, y_target[:, None], -torch.inf).amax(dim=1, keepdim=True)
        lag = (other - wanted + self.kappa).clamp(min=0)
        (slope,) = torch.autograd.grad(lag.sum(), at)
        # The gain of one level is the loss of the others: otherwise no level could pass the present one, already at 1.
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
        bounded = {name for group in grouped(task.rules, task.frozen) for name in group.names}
        tier = {n: 0 if n in task.frozen else 1 if n in bounded else 2 for n in task.schema.names}
        tiers = [tuple(n for n, place in tier.items() if place == i) for i in range(3)]
        knowledge = Knowledge(tiers=tuple(filter(None, tiers)))
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


class Equations(nn.Module):
    """F and its inverse: for each feature with causes, a network from the columns of its causes to its own.

    `causes` maps the index of each of these features to those of its causes, in causal order.
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
        """U of rows, `n x d`: the values of roots, and the residuals of all other features."""
        parts = list(torch.split(x, self.widths, dim=1))
        left = [part - self._expected(i, parts) if i in self.causes else part for i, part in enumerate(parts)]
        return torch.cat(left, dim=1)

    def rebuilt(self, u: Tensor) -> Tensor:
        """Rows F(U), `n x d`, computed in causal order."""
        parts = list(torch.split(u, self.widths, dim=1))
        for place in self.causes:
            parts[place] = parts[place] + self._expected(place, parts)
        return torch.cat(parts, dim=1)

    def _expected(self, place: int, parts: Sequence[Tensor]) -> Tensor:
        found: Tensor = self.networks[str(place)](torch.cat([parts[p] for p in self.causes[place]], dim=1))
        return found


def _causes(graph: CausalGraph, columns: ColumnLayout, names: Sequence[str]) -> dict[int, tuple[int, ...]]:
    """Indices of the causes of each feature that has any and may change, in causal order."""
    dag, place = graph.dag(), {name: i for i, name in enumerate(names)}
    found = {place[name]: tuple(place[parent] for parent in dag.parents(name)) for name in dag.order()}
    return {i: parents for i, parents in found.items() if parents and columns.layout.mutable[i]}
