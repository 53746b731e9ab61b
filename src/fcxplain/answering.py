"""Answering: what a fitted generator and the search make of rows, with rules of single rows, and why there is nothing.

A search is kept from one call to the next, since it takes longer to make than to answer a single row.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pandas as pd

from .causal import CausalGraph
from .classifier import Differentiable
from .errors import DataError, Fault
from .explanation import Explanation, Status, joined
from .model.cvae import ConditionalVAE
from .overrides import Overrides
from .proposals import Proposer
from .search import Budget, Search, why_not
from .task import Task

# Statuses that deserve a reason.
WITHOUT = (Status.IMPOSSIBLE, Status.NOT_FOUND)
DRAWS = 16


@dataclass(frozen=True)
class Wishes:
    """How many answers, how they are chosen, and what may be spent on them; see `FCx.explain`."""

    k: int = 1
    prefer: str = "balanced"
    budget: Budget = field(default_factory=Budget)
    weights: Mapping[str, float] | None = None
    difficulty: Mapping[str, float] | None = None
    draws: int = DRAWS
    why_not: bool = False
    best_effort: bool = False

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for wishes that the same search serves."""
        given = (tuple(sorted((m or {}).items())) for m in (self.weights, self.difficulty))
        return (self.prefer, *given, self.budget, self.draws)


def refuse_wishes(wishes: Wishes, usual: Wishes, overrides: pd.DataFrame | None) -> None:
    """Refuse what only the search can do, all of it at once."""
    given = [f.name for f in fields(Wishes) if getattr(wishes, f.name) != getattr(usual, f.name)]
    given += [] if overrides is None else ["overrides"]
    remedy = "Leave it out, or set search=True."
    faults = [Fault(name, "needs the search, which is off (search=False)", remedy) for name in given]
    if faults:
        raise DataError("explain", faults)


class Answering:
    """Answers by a fitted generator for its task."""

    def __init__(
        self, model: ConditionalVAE, task: Task, stand_in: Differentiable, graph: CausalGraph, *, seed: int
    ) -> None:
        self.task, self.stand_in, self.graph, self.seed = task, stand_in, graph, seed
        self.proposer = Proposer(model, task, seed=seed)
        self._kept: tuple[tuple[Any, ...], Search] | None = None

    def answers(self, rows: pd.DataFrame, wishes: Wishes, overrides: pd.DataFrame | None = None) -> Explanation:
        """Verified answers, and why there are none."""
        search = self._search(wishes)
        if overrides is None:
            return _explained(search, rows, wishes)
        own = Overrides.read(overrides, rows, self.task)
        parts = []
        for place, rules, target, difficulty in own.groups():
            task = self.task.relaxed(rules=(*self.task.rules, *rules), target=target)
            here = replace(wishes, difficulty={**(wishes.difficulty or {}), **difficulty})
            parts.append((place, _explained(search.narrowed(task, here.difficulty), rows.iloc[place], here)))
        return joined(self.task, rows, parts, own) if parts else _explained(search, rows, wishes)

    def _search(self, wishes: Wishes) -> Search:
        """The search for these wishes: the last one, or a new one."""
        if self._kept is None or self._kept[0] != wishes.key:
            made = Search(
                self.task,
                prefer=wishes.prefer,
                weights=wishes.weights,
                difficulty=wishes.difficulty,
                budget=wishes.budget,
                draws=self.proposer.draws,
                n_draws=wishes.draws,
                seed=self.seed,
                stand_in=self.stand_in,
                graph=self.graph,
            )
            self._kept = (wishes.key, made)
        return self._kept[1]


def _explained(search: Search, rows: pd.DataFrame, wishes: Wishes) -> Explanation:
    found = search.explain(rows, wishes.k, best_effort=wishes.best_effort)
    return _with_reasons(found, search, wishes) if wishes.why_not else found


def _with_reasons(found: Explanation, search: Search, wishes: Wishes) -> Explanation:
    """The same answers, and for rows that were proved or seemed to have none, what stands in the way."""
    place = np.flatnonzero(np.isin(found.row_status, [str(s) for s in WITHOUT]))
    if not len(place):
        return found

    def find(task: Task, rows: pd.DataFrame) -> Explanation:
        return search.narrowed(task, wishes.difficulty).explain(rows)

    wall, cpu = time.perf_counter(), time.process_time()
    told = why_not(search.task, found.rows.iloc[place], found.wanted[place], find)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    spent = replace(found.effort, seconds=found.effort.seconds + wall, cpu_seconds=found.effort.cpu_seconds + cpu)
    status = found.row_status.copy()
    # The inquiry has more time for a proof than a row's budget leaves the search.
    status[place[[reason.status == Status.IMPOSSIBLE for reason in told]]] = Status.IMPOSSIBLE
    return replace(found, row_status=status, reasons=dict(zip(place.tolist(), told, strict=True)), effort=spent)
