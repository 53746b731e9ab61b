"""Everything that a search derives from the table and the model, and from rules, target and difficulties.

Expensive parts are made when they are first needed, and shared with narrower tasks.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..causal import CausalGraph
from ..classifier.imitation import ImitatingTrees, imitating_trees
from ..errors import ClassifierError
from ..explanation import ChangeCosts
from ..task import Task
from .batch import Legal
from .cost import CostWeights, effects_of
from .density import Density
from .oracles.code_models import CodeModel, WalkedCodes, imitating_code_model, is_readable, read_code_model
from .oracles.codes import CodeOracle, seen_rounding
from .oracles.imitation import NEAR, QUERIES, Imitation, ScreenedOracle, measured_imitation
from .oracles.oracle import Oracle
from .oracles.tables import TableOracle
from .propose.donors import ASKED, ASKED_IN_HASTE, Donors
from .propose.draws import Draws
from .space import Bools, Codes, Grids, Moves, SearchSpace, moves_of
from .spending import Budget

if TYPE_CHECKING:
    from torch import nn

    from ..classifier.distillation import Differentiable

ORACLES = ("auto", "model")
# Single changes tried where queries are cheap.
MOVES = 1_200
# A model that is queried itself is searched in stages: up to how many queries per row a stage goes, and how many single
# changes it tries. Each further stage has this many times the queries of the one before it, and half as many single
# changes as queries. A larger budget goes through all stages of a smaller one, so it finds at least what that one does.
STAGES, LARGER = ((31, 16), (125, 32), (500, 125), (1_000, 500)), 8


@dataclass(frozen=True, eq=False)
class Settings:
    """The user's settings; see `Search`."""

    weights: CostWeights
    budget: Budget
    draws: Draws | None
    n_draws: int
    seed: int
    surrogate: Differentiable | None
    graph: CausalGraph | None
    oracle: str = "auto"
    imitation: ImitatingTrees | None = None
    quick: bool = False

    def is_quick(self, k: int) -> bool:
        """Whether a row needs no search if a draw is good."""
        return self.draws is not None and k == 1 and self.n_draws > 0 and (self.quick or self.n_draws == 1)

    def in_codes_of(self, there: SearchSpace, here: SearchSpace) -> Settings:
        """The same for a task with other bounds: codes are counted from the lower bound."""
        low = [
            f.codes(g.at(np.zeros(1, dtype=np.int64)))[0] for f, g in zip(there.features, here.features, strict=True)
        ]
        draws, imitation, shift = self.draws, self.imitation, np.asarray(low, dtype=np.int64)
        if (draws is None and imitation is None) or not shift.any():
            return self

        def inside(codes: Codes) -> Codes:
            return np.asarray(np.clip(codes - shift, 0, here.tops))

        return replace(
            self,
            draws=None if draws is None else lambda codes, wanted, n: draws(inside(codes), wanted, n) + shift,
            imitation=imitation and replace(imitation, columns=lambda codes: imitation.columns(inside(codes))),
        )


class SharedContext:
    """Everything that depends on the table and the model alone."""

    def __init__(self, space: SearchSpace, settings: Settings) -> None:
        self.space, self.settings = space, settings
        self._surrogate = settings.surrogate
        self.model = TableOracle(space)
        """The user's own model, queried with tables: it decides on every answer."""
        self.measuring = 0
        """Queries of the user's model to measure an imitation, counted in the explanation that caused them."""
        own = self._network() or self._read()
        self.imitation = _if_close(self._imitated(self.model)) if own is None else None
        """The imitation that is searched if the model cannot be read."""
        self.oracle: Oracle = own or (self.model if self.imitation is None else self.imitation.oracle)
        self.beside: list[SharedContext] = []
        """The shared contexts of tasks with other bounds."""

    def _network(self) -> Oracle | None:
        """The user's own network, if the model is one."""
        classifier = self.space.task.classifier
        if classifier.module is None and self._surrogate is None:
            return None
        from ..classifier import differentiable
        from .oracles.networks import is_exact, network_oracle

        if self._surrogate is None:
            self._surrogate = differentiable(classifier, self.space.task)
        # A model with its own `predict` may decide differently from its module.
        is_own = not self._surrogate.distilled and classifier.own is None
        exact = is_own and is_exact(classifier.module, classifier.threshold)
        return network_oracle(self.space, self._surrogate.module) if exact else None

    def _read(self) -> Oracle | None:
        """Any other model that can be read, if the reading agrees with it."""
        classifier = self.space.task.classifier
        if self.settings.oracle == "model" or classifier.parts:
            return None
        found = read_exactly(self.space)
        if found is None:
            return None
        exact = CodeOracle(self.space, found[0], rounding=found[1])
        quicker = self._imitated(exact) if isinstance(found[0], WalkedCodes) else None
        return exact if quicker is None else ScreenedOracle(self.space, found[0], quicker, rounding=found[1])

    def fits(self, task: Task) -> bool:
        """Whether a task is on the same table and model, within the same bounds."""
        own = self.space.task
        return task.classifier is own.classifier and task.encoder is own.encoder and task.train is own.train

    @cached_property
    def slope(self) -> nn.Module | None:
        """The model, or its surrogate, for gradients; in double precision, so that batch size does not show."""
        return None if self._surrogate is None else copy.deepcopy(self._surrogate.module).double().eval()

    @cached_property
    def train(self) -> Codes:
        """The training rows as codes."""
        return self.space.task.sample

    @cached_property
    def grids(self) -> Grids:
        """The values to try of each feature."""
        return Grids(self.space, self.train)

    @cached_property
    def density(self) -> Density:
        """LOF and support of candidates. Later searches reuse what was computed about the training rows."""
        task, key = self.space.task, (self.space.task.schema, self.settings.seed)
        known = task.readings.setdefault("density", {})
        if known.get(key, (None,))[0] is not task.train:
            known[key] = task.train, Density(self.space, self.train, self.settings.seed)
        density: Density = known[key][1]
        return density

    @cached_property
    def donors(self) -> Donors:
        """Training rows with the model's decisions."""
        in_haste = self.settings.budget.seconds is not None and not self.oracle.cheap
        return Donors(self.space, self.train, self.settings.seed, ASKED_IN_HASTE if in_haste else ASKED)

    def _imitated(self, model: Oracle) -> Imitation | None:
        """The imitation, with its error measured on the model."""
        found, classifier = self.settings.imitation, self.space.task.classifier
        if found is None or self.settings.oracle == "model" or classifier.parts:
            return None
        try:
            return self._measured(CodeOracle(self.space, imitating_code_model(self.space, found)), model)
        except ClassifierError:
            return None

    @cached_property
    def guess(self) -> Imitation | None:
        """The surrogate, with its error measured on the model, if each query counts and the surrogate is close."""
        if self._surrogate is None or self.oracle is not self.model:
            return None
        from .oracles.networks import NetworkCodes

        try:
            oracle = CodeOracle(self.space, NetworkCodes(self.space, self._surrogate.module))
            return _if_close(self._measured(oracle, self.model))
        except ClassifierError:
            return None

    def _measured(self, oracle: CodeOracle, model: Oracle) -> Imitation:
        if model is self.model:
            self.measuring += QUERIES * min(NEAR, len(self.train))
        return measured_imitation(self.space, oracle, model)


def _if_close(imitation: Imitation | None) -> Imitation | None:
    """The imitation, if it is close enough to be searched instead of the model."""
    return imitation if imitation is not None and imitation.is_close else None


def read_exactly(space: SearchSpace) -> tuple[CodeModel, float] | None:
    """The task's model as a function of codes, and the rounding error of its margins, if it can be read.

    The reading is kept for other searches of the same model, and compared with it each time.
    """
    # Codes are counted from a feature's lower bound.
    known, schema = space.task.readings.setdefault("codes", {}), space.task.schema
    for read in (lambda: known.get(schema), lambda: read_code_model(space)):
        model = read()
        rounding = None if model is None else seen_rounding(space, model)
        if model is not None and rounding is not None:
            known[schema] = model
            return model, rounding
    return None


def imitation_of(task: Task, *, seed: int = 0) -> ImitatingTrees | None:
    """Trees that imitate a task's model, if it cannot be read, or is slow once read.

    A model of a readable kind that is too large to read is too much for a few trees as well.
    """
    classifier = task.classifier
    if classifier.module is not None or classifier.parts:
        return None
    if is_readable(classifier):
        found = read_exactly(SearchSpace(task))
        if found is None or not isinstance(found[0], WalkedCodes):
            return None
    try:
        return imitating_trees(task, seed=seed)
    except ClassifierError:
        return None


def stages(calls: int) -> list[tuple[int, int]]:
    """The stages that a budget goes through: queries per row so far, and single changes that are tried."""
    found = list(STAGES)
    while found[-1][0] < calls:
        limit = LARGER * found[-1][0]
        found.append((limit, limit // 2))
    return [stage for last, stage in zip((0, *(limit for limit, _ in found)), found, strict=False) if last < calls]


class Context:
    """Everything that the search for one task needs."""

    def __init__(
        self,
        task: Task,
        settings: Settings,
        difficulty: Mapping[str, float] | None,
        shared: SharedContext | None = None,
        oracle: Oracle | None = None,
    ) -> None:
        self.task, self.settings = task, settings
        self.space = SearchSpace(task, difficulty)
        self.shared = SharedContext(self.space, settings) if shared is None else shared
        self.oracle = self.shared.oracle if oracle is None else oracle
        self._difficulty = difficulty

    @property
    def imitation(self) -> Imitation | None:
        """The imitation, if it is what is searched."""
        return None if self.oracle is self.shared.model else self.shared.imitation

    @property
    def is_read(self) -> bool:
        """Whether the search runs on a reading of the user's model, which itself only checks the results."""
        return not self.oracle.is_own and self.oracle is not self.shared.model and self.imitation is None

    def measuring(self) -> int:
        """Queries of the user's model to measure an imitation since the last call."""
        asked, self.shared.measuring = self.shared.measuring, 0
        return asked

    @cached_property
    def by_model(self) -> Context:
        """The same with the user's own model as the oracle: it is queried about every candidate."""
        return self.by(self.shared.model)

    def by(self, oracle: Oracle) -> Context:
        """The same with another oracle."""
        return Context(self.task, self.settings, self._difficulty, self.shared, oracle)

    @cached_property
    def legal(self) -> Legal:
        """The task's rules."""
        return Legal(self.space)

    @cached_property
    def moves(self) -> Moves:
        """Single changes that are tried for every row."""
        return self.moves_up_to(MOVES if self.oracle.cheap else stages(self.settings.budget.calls)[-1][1])

    def moves_up_to(self, most: int) -> Moves:
        """The same, at most so many."""
        return moves_of(self.space, self.shared.grids, most)

    @cached_property
    def effects(self) -> Bools:
        """Which feature is a cause of which mutable one."""
        graph = self.settings.graph
        known = self.task.graph if graph is None and isinstance(self.task.graph, CausalGraph) else graph
        return effects_of(self.space, known)

    @property
    def costs(self) -> ChangeCosts | None:
        """The cost of changes, unless it depends on training rows or the causal graph."""
        w = self.settings.weights
        if w.looks_at_data or w.coherence:
            return None
        hard = {name: float(d) for name, d in zip(self.space.names, self.space.difficulty, strict=True) if d != 1}
        return ChangeCosts(w.several, w.change, w.category, w.distance, hard)

    def narrowed(self, task: Task, difficulty: Mapping[str, float] | None) -> Context:
        """The context of another task; with the same table, bounds and model, the shared parts are reused."""
        known = [self.shared, *self.shared.beside]
        shared = next((one for one in known if one.fits(task)), None)
        if shared is None:
            there = SearchSpace(task)
            shared = SharedContext(there, self.shared.settings.in_codes_of(there, self.shared.space))
            self.shared.beside.append(shared)
        return Context(task, shared.settings, difficulty, shared)
