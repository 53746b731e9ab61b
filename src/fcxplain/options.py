"""What `explain` was asked for, and what a search makes of rows by it: with rules of single rows, and with reasons."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from .errors import DataError, Fault
from .explanation import Explanation, Status, WhyNot, joined
from .explanation.certificate import labels
from .overrides import Overrides
from .progress import OnRows, OnWhy
from .search import Budget, CostWeights, Search, why_not
from .search.cost import weights_for
from .task import Task

# Statuses that deserve a reason.
WITHOUT = (Status.IMPOSSIBLE, Status.NOT_FOUND)
UNASKED = "What stands in the way was not looked into, since the budget of the row was spent before."
DRAWS = 16


@dataclass(frozen=True)
class Options:
    """How many answers, how they are chosen, and what may be spent on them; see `FCx.explain`."""

    k: int = 1
    prefer: str = "balanced"
    budget: Budget = field(default_factory=Budget)
    cost: CostWeights | Mapping[str, float] | None = None
    difficulty: Mapping[str, float] | None = None
    draws: int = DRAWS
    why_not: bool | Literal["all"] = False
    best_effort: bool = False

    def __post_init__(self) -> None:
        if self.why_not not in (False, True, "all"):
            remedy = 'Give True, or "all" for what is fixed as well.'
            raise DataError("explain", [Fault("why_not", f"is {self.why_not!r}", remedy)])

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for options that the same search serves."""
        difficulty = tuple(sorted((self.difficulty or {}).items()))
        return (weights_for(self.prefer, self.cost), difficulty, self.budget, self.draws)

    def refuse_without_search(self, prefer: str, overrides: pd.DataFrame | None) -> None:
        """Refuse what only the search can do, all of it at once; `prefer` is what nobody asked for."""
        usual = Options(self.k, prefer)
        given = [f.name for f in fields(Options) if getattr(self, f.name) != getattr(usual, f.name)]
        given += [] if overrides is None else ["overrides"]
        remedy = "Leave it out, or set search=True."
        faults = [Fault(name, "needs the search, which is off (search=False)", remedy) for name in given]
        if faults:
            raise DataError("explain", faults)


class RowCount:
    """Rows done, told to whoever wants to know; if reasons are asked for, a row without an answer waits for its own."""

    def __init__(self, total: int, on_rows: OnRows | None, on_why: OnWhy | None, *, reasons: bool) -> None:
        self.done, self.total, self.on_rows, self.on_why, self.reasons = 0, total, on_rows, on_why, reasons

    def searched(self, rows: int, without: int) -> None:
        """So many more were searched, some of them without an answer."""
        self.reach(self.done + rows - without * self.reasons)

    def reach(self, done: int) -> None:
        """So many are done; what was told before is never taken back."""
        if self.on_rows is not None and done > self.done:
            self.done = done
            self.on_rows(done, self.total)

    def looked(self, rows: int, share: float, end: int) -> None:
        """So much is done of finding out what stands in the way of the last rows before `end`."""
        if self.on_why is None:
            self.reach(end - rows + int(share * rows))
        else:
            self.on_why(rows, share)


def answered(search: Search, rows: pd.DataFrame, options: Options, count: RowCount) -> Explanation:
    """What the search finds for rows, with reasons where they were asked for."""
    end = count.done + len(rows)
    found = search.explain(rows, options.k, best_effort=options.best_effort, on_batch=count.searched)
    if options.why_not:
        found = _with_reasons(found, search, options, lambda rows, share: count.looked(rows, share, end))
    count.reach(end)
    return found


def answered_apart(
    search: Search, rows: pd.DataFrame, options: Options, overrides: pd.DataFrame, count: RowCount
) -> Explanation:
    """The same where single rows have rules, targets or difficulties of their own: those that share them together."""
    task, parts = search.task, []
    own = Overrides.read(overrides, rows, task)
    for place, rules, target, difficulty in own.groups():
        narrowed = task.relaxed(rules=(*task.rules, *rules), target=target)
        here = replace(options, difficulty={**(options.difficulty or {}), **difficulty})
        parts.append((place, answered(search.narrowed(narrowed, here.difficulty), rows.iloc[place], here, count)))
    return joined(task, rows, parts, own) if parts else answered(search, rows, options, count)


def _with_reasons(found: Explanation, search: Search, options: Options, on_why: OnWhy) -> Explanation:
    """The same answers, and for rows that were proved or seemed to have none, what stands in the way."""
    found = replace(found, reasons=_not_looked_into(found))
    place = np.flatnonzero(np.isin(found.row_status, [str(s) for s in WITHOUT]))
    if not len(place):
        return found

    def find(task: Task, rows: pd.DataFrame, depth: int) -> Explanation:
        return search.narrowed(task, options.difficulty).explain(rows, depth=depth)

    wall, cpu = time.perf_counter(), time.process_time()
    tell = partial(on_why, len(place))
    every = options.why_not == "all"
    reasons = why_not(search.task, found.rows.iloc[place], found.wanted[place], find, fixed=every, on_share=tell)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    spent = replace(found.effort, seconds=found.effort.seconds + wall, cpu_seconds=found.effort.cpu_seconds + cpu)
    status = found.row_status.copy()
    # The inquiry has more time for a proof than a row's budget leaves the search.
    status[place[[reason.status == Status.IMPOSSIBLE for reason in reasons]]] = Status.IMPOSSIBLE
    every_reason = {**found.reasons, **dict(zip(place.tolist(), reasons, strict=True))}
    return replace(found, row_status=status, reasons=dict(sorted(every_reason.items())), effort=spent)


def _not_looked_into(found: Explanation) -> dict[int, WhyNot]:
    """What is said of rows whose budget was spent."""
    late = np.flatnonzero(found.row_status == Status.TIMED_OUT)
    names = labels(found.rows.index[late])
    return {int(i): WhyNot(name, str(Status.TIMED_OUT), (), None, UNASKED) for i, name in zip(late, names, strict=True)}
