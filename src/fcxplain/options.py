"""The options of `explain`, and the search under them: with overrides for single rows, and with reasons."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .errors import DataError, Fault, SchemaError
from .explanation import Explanation, Status, WhyNot, joined
from .explanation.certificate import labels
from .overrides import Overrides
from .progress import EXPLAINING, OnProgress, Progress, RowCount
from .rules import in_words
from .rules.check import truth
from .search import Budget, CostWeights, Search, why_not
from .search.cost import weights_for
from .task import Task

# Statuses that deserve a reason.
WITHOUT = (Status.IMPOSSIBLE, Status.NOT_FOUND)
UNASKED = "No reason was sought: the row's budget was spent before."
DRAWS = 16


@dataclass(frozen=True)
class Options:
    """How many answers, how they are chosen, and the budget; see `FCx.explain`."""

    k: int = 1
    prefer: str = "balanced"
    budget: Budget = field(default_factory=Budget)
    cost: CostWeights | Mapping[str, float] | None = None
    difficulty: Mapping[str, float] | None = None
    draws: int = DRAWS
    quick: bool = False
    why_not: bool | Literal["all"] = False
    best_effort: bool = False
    target: Any = None
    target_probability: float | None = None

    def __post_init__(self) -> None:
        if self.why_not not in (False, True, "all"):
            remedy = 'Give True, or "all" to name immutable features too.'
            raise DataError("explain", [Fault("why_not", f"is {self.why_not!r}", remedy)])

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for options that can share a search."""
        difficulty = tuple(sorted((self.difficulty or {}).items()))
        wanted = (self.target, self.target_probability)
        return (weights_for(self.prefer, self.cost), difficulty, self.budget, self.draws, self.quick, wanted)

    def refuse_without_search(self, prefer: str, overrides: pd.DataFrame | None) -> None:
        """Refuse all options that only the search supports; `prefer` is the default preference."""
        usual = Options(self.k, prefer)
        given = [f.name for f in fields(Options) if getattr(self, f.name) != getattr(usual, f.name)]
        given += [] if overrides is None else ["overrides"]
        remedy = "Leave it out, or set search=True."
        faults = [Fault(name, "needs the search, which is off (search=False)", remedy) for name in given]
        if faults:
            raise DataError("explain", faults)


def with_unreadable(task: Task, rows: pd.DataFrame, answer: Callable[[pd.DataFrame], Explanation]) -> Explanation:
    """Answers for all rows that can be read; the others get the reasons why not."""
    # `answer` reads the rows itself; only if some cannot be read is the table read again.
    with suppress(SchemaError):
        return answer(rows)
    table, reasons = task.readable(rows)
    which = np.setdiff1d(np.arange(len(rows)), list(reasons))
    return answer(table.iloc[which]).among(table, which, reasons)


def answered(search: Search, rows: pd.DataFrame, options: Options, on_progress: OnProgress) -> Explanation:
    """Search for answers, with reasons if the options ask for them."""

    def answer(some: pd.DataFrame) -> Explanation:
        tell, why = RowCount(len(rows), on_progress, len(rows) - len(some)).tell, bool(options.why_not)
        found = search.explain(some, options.k, best_effort=options.best_effort, reasons=why, on_progress=tell)
        if why:
            found = _with_reasons(found, search, options, tell)
            tell(Progress(EXPLAINING, len(some), len(some)))
        return _with_undecided(found)

    return with_unreadable(search.task, rows, answer)


def answered_apart(
    search: Search, rows: pd.DataFrame, options: Options, overrides: pd.DataFrame, on_progress: OnProgress
) -> Explanation:
    """The same with overrides; rows with equal overrides are searched together."""
    task, parts, done = search.task, [], 0
    own = Overrides.read(overrides, rows, task)
    for place, rules, target, difficulty in own.groups():
        narrowed = task.relaxed(rules=(*task.rules, *rules), target=target)
        here = replace(options, difficulty={**(options.difficulty or {}), **difficulty})
        alike, tell = search.narrowed(narrowed, here.difficulty), RowCount(len(rows), on_progress, done).tell
        parts.append((place, answered(alike, rows.iloc[place], here, tell)))
        done += len(place)
    return joined(task, rows, parts, own) if parts else answered(search, rows, options, on_progress)


def _with_reasons(found: Explanation, search: Search, options: Options, on_progress: OnProgress) -> Explanation:
    """The same answers, with reasons for rows that are impossible or not found."""
    found = replace(found, reasons={**found.reasons, **_not_looked_into(found)})
    place = np.flatnonzero(np.isin(found.row_status, [str(s) for s in WITHOUT]))
    if not len(place):
        return found

    def find(task: Task, rows: pd.DataFrame, depth: int) -> Explanation:
        return search.narrowed(task, options.difficulty).explain(rows, depth=depth)

    def in_vain(task: Task, rows: pd.DataFrame) -> NDArray[np.bool_]:
        return search.narrowed(task, options.difficulty).out_of_reach(rows)

    wall, cpu = time.perf_counter(), time.process_time()
    rows, wanted, every = found.rows.iloc[place], found.wanted[place], options.why_not == "all"
    proved = found.row_status[place] == Status.IMPOSSIBLE
    reasons = why_not(
        search.task, rows, wanted, find, fixed=every, impossible=proved, in_vain=in_vain, on_progress=on_progress
    )
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    spent = replace(found.effort, seconds=found.effort.seconds + wall, cpu_seconds=found.effort.cpu_seconds + cpu)
    status = found.row_status.copy()
    # Finding reasons has more time for a proof than a row's budget leaves the search.
    status[place[[reason.status == Status.IMPOSSIBLE for reason in reasons]]] = Status.IMPOSSIBLE
    every_reason = {**found.reasons, **dict(zip(place.tolist(), reasons, strict=True))}
    return replace(found, row_status=status, reasons=dict(sorted(every_reason.items())), effort=spent)


def _with_undecided(found: Explanation) -> Explanation:
    """The same, and for rows without an answer, the rules that are undecided because a value is missing."""
    place = np.flatnonzero(np.isin(found.row_status, [str(s) for s in WITHOUT]))
    if not len(place) or not any(f.missing for f in found.task.schema):
        return found
    rows, reasons = found.rows.iloc[place], dict(found.reasons)
    now = found.task.schema.natural(rows)
    for rule in found.task.rules:
        unknown = ~(truth(rule.formula, now, now) | truth(rule.formula, now, now, wanted=False))
        for i in np.flatnonzero(np.broadcast_to(unknown, len(place))).tolist():
            gaps = [f.title for f in found.task.schema if f.name in rule.features and f.is_missing(now[f.name])[i]]
            if not gaps:
                continue
            said = f"The rule “{in_words(rule)}” cannot be decided because {' and '.join(gaps)} is missing."
            position, status = int(place[i]), str(found.row_status[place[i]])
            known = reasons.get(position) or WhyNot(labels(rows.index[[i]])[0], status, (), None, "")
            reasons[position] = replace(known, words=f"{known.words} {said}".strip())
    return replace(found, reasons=dict(sorted(reasons.items())))


def _not_looked_into(found: Explanation) -> dict[int, WhyNot]:
    """The reason given for rows whose budget was spent."""
    late = np.flatnonzero(found.row_status == Status.TIMED_OUT)
    names = labels(found.rows.index[late])
    return {int(i): WhyNot(name, str(Status.TIMED_OUT), (), None, UNASKED) for i, name in zip(late, names, strict=True)}
