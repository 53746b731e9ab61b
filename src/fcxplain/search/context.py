"""What a search needs to know: of the table and the model, and of rules, target and difficulties.

What is expensive to make is made when it is first needed, and shared with narrower tasks.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from torch import nn

from ..causal import CausalGraph
from ..classifier import differentiable
from ..classifier.distillation import Differentiable
from ..explanation import ChangeCosts
from ..task import Task
from .batch import Legal
from .cost import CostWeights, effects_of
from .density import Density
from .oracles import NetworkOracle, Oracle, TableOracle, is_exact
from .propose.donors import ASKED, ASKED_IN_HASTE, Donors
from .propose.draws import Draws
from .space import Bools, Codes, Grids, Moves, SearchSpace, moves_of
from .spending import Budget

# Single changes asked about where queries are cheap; elsewhere half of the budget.
MOVES = 1_200


@dataclass(frozen=True, eq=False)
class Settings:
    """What the user chose; see `Search`."""

    weights: CostWeights
    budget: Budget
    draws: Draws | None
    n_draws: int
    seed: int
    surrogate: Differentiable | None
    graph: CausalGraph | None

    def is_quick(self, k: int) -> bool:
        """Whether each row has a single draw, and needs no search if that is good."""
        return self.draws is not None and self.n_draws == 1 and k == 1


class SharedContext:
    """What depends on the table and the model alone."""

    def __init__(self, space: SearchSpace, settings: Settings) -> None:
        self.space, self.settings, surrogate = space, settings, settings.surrogate
        if surrogate is None and space.task.classifier.module is not None:
            surrogate = differentiable(space.task.classifier, space.task)
        self._surrogate = surrogate
        # A module does not speak for a model that has a `predict` beside it.
        is_own = surrogate is not None and not surrogate.distilled and space.task.classifier.own is None
        by_codes = is_own and is_exact(space.task.classifier.module, space.task.classifier.threshold)
        self.oracle: Oracle = NetworkOracle(space, surrogate.module) if surrogate and by_codes else TableOracle(space)

    @cached_property
    def slope(self) -> nn.Module | None:
        """The model, or its surrogate, for gradients; in double precision, so that no batch shows after rounding."""
        return None if self._surrogate is None else copy.deepcopy(self._surrogate.module).double().eval()

    @cached_property
    def train(self) -> Codes:
        """The training rows as codes."""
        return self.space.task.sample

    @cached_property
    def grids(self) -> Grids:
        """Values of features that are tried."""
        return Grids(self.space, self.train)

    @cached_property
    def density(self) -> Density:
        """How lonely candidates are."""
        return Density(self.space, self.train, self.settings.seed)

    @cached_property
    def donors(self) -> Donors:
        """Training rows by the class that the model gives them."""
        in_haste = self.settings.budget.seconds is not None and not self.oracle.cheap
        return Donors(self.space, self.train, self.settings.seed, ASKED_IN_HASTE if in_haste else ASKED)


class Context:
    """Everything that the search for one task needs."""

    def __init__(
        self,
        task: Task,
        settings: Settings,
        difficulty: Mapping[str, float] | None,
        shared: SharedContext | None = None,
    ) -> None:
        self.task, self.settings = task, settings
        self.space = SearchSpace(task, difficulty)
        self.shared = SharedContext(self.space, settings) if shared is None else shared
        self.oracle = self.shared.oracle

    @cached_property
    def legal(self) -> Legal:
        """The task's rules."""
        return Legal(self.space)

    @cached_property
    def moves(self) -> Moves:
        """Single changes that are tried for every row."""
        most = MOVES if self.oracle.cheap else max(self.settings.budget.calls // 2, 1)
        return moves_of(self.space, self.shared.grids, most)

    @cached_property
    def effects(self) -> Bools:
        """Which feature is a cause of which one that may change."""
        graph = self.settings.graph
        known = self.task.graph if graph is None and isinstance(self.task.graph, CausalGraph) else graph
        return effects_of(self.space, known)

    @property
    def costs(self) -> ChangeCosts | None:
        """What answers are chosen by, unless training rows or the causal graph have a say."""
        w = self.settings.weights
        if w.looks_at_data or w.coherence:
            return None
        hard = {name: float(d) for name, d in zip(self.space.names, self.space.difficulty, strict=True) if d != 1}
        return ChangeCosts(w.several, w.change, w.category, w.distance, hard)

    def narrowed(self, task: Task, difficulty: Mapping[str, float] | None) -> Context:
        """The parts for another task; on the same table and model, what depends on these alone is shared."""
        return Context(task, self.settings, difficulty, self.shared if self._shares(task) else None)

    def _shares(self, task: Task) -> bool:
        own = self.shared.space.task
        return task.classifier is own.classifier and task.encoder is own.encoder and task.train is own.train
