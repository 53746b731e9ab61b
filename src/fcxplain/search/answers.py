"""From candidates to answers: each one is checked, and candidates that fail are never returned as verified.

A check queries the user's model once more, with code that shares nothing with the search. If the model fails or changes
its answer, the row loses that candidate, and its next one takes the place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import ClassifierError, some
from ..explanation import Explanation, Status, WhyNot
from ..explanation.certificate import labels
from ..explanation.checks import Checks, check
from ..schema import Natural
from ..schema.feature import plain
from ..task import Task
from .candidates import HOW, Candidates, SearchResult, joined, within
from .candidates import within as turn_of
from .space import Codes, Floats, Rows, SearchSpace


@dataclass(frozen=True, eq=False)
class Question:
    """Prepared rows that need an answer, and the target of each."""

    rows: Rows
    wanted: NDArray[Any]

    def take(self, which: NDArray[Any] | slice) -> Question:
        """Some of the rows."""
        if isinstance(which, slice) and which.start == 0 and which.stop >= len(self.rows):
            return self
        return Question(self.rows.take(which), self.wanted[which])


@dataclass(frozen=True, eq=False)
class Answers:
    """Checked answers, row by row in order of preference; `row` is the position of each one's row in the question."""

    row: Codes
    table: pd.DataFrame
    checks: Checks
    found_by: NDArray[np.str_]
    unsteady: Codes
    """Rows that lost a candidate because the model changed its answer in the check."""
    failures: dict[int, str]
    """The model's error messages in the check, by row."""
    calls: int
    shown: Codes
    """Candidates of each row that the model was queried about."""

    def completed(self, more: Answers, rows: Codes, count: int) -> Answers:
        """Add answers for some of the `count` rows, which had none."""
        moved = {int(rows[row]): message for row, message in more.failures.items()}
        parts = [self, replace(more, row=rows[more.row], unsteady=rows[more.unsteady], failures=moved)]
        row = np.concatenate([a.row for a in parts])
        order = np.argsort(row, kind="stable")
        has = np.bincount(row, minlength=count) > 0
        failures = {r: message for a in parts for r, message in a.failures.items() if not has[r]}
        shown = self.shown.copy()
        shown[rows] += more.shown
        return Answers(
            row[order],
            pd.concat([a.table for a in parts], ignore_index=True).iloc[order].reset_index(drop=True),
            together([a.checks for a in parts]).take(order),
            np.concatenate([a.found_by for a in parts])[order],
            np.unique(np.concatenate([a.unsteady for a in parts])),
            failures,
            sum(a.calls for a in parts),
            shown,
        )


def checked(space: SearchSpace, question: Question, found: SearchResult, k: int) -> Answers:
    """Return at most `k` answers per row that pass every check."""
    checker, pool = _Checker(space, question), found.pool
    need = np.full(len(question.rows), k)
    while len(pool):
        shown = turn_of(pool.row) < need[pool.row]
        passed = checker.keep(pool.take(shown), everything=False)
        pool = pool.take(~shown)
        need = need - np.bincount(passed, minlength=len(need))
        # A row that has its answers does not need its spare candidates.
        pool = pool.take(need[pool.row] > 0)
    return checker.answers()


def nearest(space: SearchSpace, question: Question, found: SearchResult, rows: Codes) -> Answers:
    """The nearest candidates of rows without an answer, checked all the same."""
    checker = _Checker(space, question.take(rows))
    checker.keep(found.nearly.of(rows), everything=True)
    return checker.answers()


class _Checker:
    """Checks candidates, and collects those that are kept."""

    def __init__(self, space: SearchSpace, question: Question) -> None:
        self.space, self.question = space, question
        self.kept: list[tuple[Candidates, pd.DataFrame, Checks]] = []
        self.unsteady: list[Codes] = []
        self.failures: dict[int, str] = {}
        self.calls, self.shown = 0, np.zeros(len(question.rows), dtype=np.int64)

    def keep(self, pool: Candidates, *, everything: bool) -> Codes:
        """Check candidates and keep those that pass, or `everything`; return the rows of those kept."""
        if not len(pool):
            return pool.row
        table = self.space.table(self.question.rows, pool.row, pool.codes)
        try:
            found = check(self.space.task, self._before(pool.row), table, self.question.wanted[pool.row])
        except ClassifierError as error:
            return self._halves(pool, str(error), everything=everything)
        self.calls += len(pool)
        self.shown += np.bincount(pool.row, minlength=len(self.shown))
        passed = np.ones(len(pool), dtype=bool) if everything else found.passed & found.firm
        if not passed.all():
            self.unsteady.append(pool.row[~passed])
            pool, table, found = pool.take(passed), table[passed], found.take(passed)
        self.kept.append((pool, table, found))
        return pool.row

    def _before(self, row: Codes) -> Natural:
        """The rows as they were read from the user's table."""
        return {name: values[row] for name, values in self.question.rows.natural.items()}

    def _halves(self, pool: Candidates, message: str, *, everything: bool) -> Codes:
        """Check both halves of candidates on which the model failed; a single one is given up."""
        if len(pool) == 1:
            self.failures[int(pool.row[0])] = message
            return pool.row[:0]
        half = len(pool) // 2
        parts = (pool.take(slice(None, half)), pool.take(slice(half, None)))
        return np.concatenate([self.keep(part, everything=everything) for part in parts])

    def answers(self) -> Answers:
        """The kept candidates, row by row."""
        if not self.kept:
            self.kept.append(self._nothing())
        pool = joined([p for p, _, _ in self.kept])
        table = self.kept[0][1] if len(self.kept) == 1 else pd.concat([t for _, t, _ in self.kept], ignore_index=True)
        found = together([c for _, _, c in self.kept])
        if not (pool.row[1:] >= pool.row[:-1]).all():
            order = np.argsort(pool.row, kind="stable")
            pool, table, found = pool.take(order), table.iloc[order], found.take(order)
        unsteady = np.unique(np.concatenate([pool.row[:0], *self.unsteady]))
        has = np.bincount(pool.row, minlength=len(self.question.rows)) > 0
        failures = {row: message for row, message in self.failures.items() if not has[row]}
        how = np.asarray(HOW)[pool.how]
        if not table.index.equals(pd.RangeIndex(len(table))):
            table = table.reset_index(drop=True)
        return Answers(pool.row, table, found, how, unsteady, failures, self.calls, self.shown)

    def _nothing(self) -> tuple[Candidates, pd.DataFrame, Checks]:
        none = Candidates.empty(len(self.space.names))
        table = self.space.table(self.question.rows, none.row, none.codes)
        return none, table, check(self.space.task, self._before(none.row), table, self.question.wanted[none.row])


def together(parts: Sequence[Checks]) -> Checks:
    """Concatenate the checks of several parts."""
    if len(parts) == 1:
        return parts[0]
    return Checks(**{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Checks)})


Part = tuple[SearchResult, Answers]
# Row labels listed in a note.
NAMED = 5


@dataclass(frozen=True, eq=False)
class Inquiry:
    """A table of rows, their targets, which need an answer, on which the model failed, and their present scores."""

    table: pd.DataFrame
    wanted: NDArray[Any]
    asked: Codes
    failures: dict[int, str]
    now: Floats


def reported(task: Task, inquiry: Inquiry, parts: Sequence[Part], *, draws: int) -> Explanation:
    """Combine the parts into one explanation."""
    starts = np.cumsum([0, *(len(found.status) for found, _ in parts)])[:-1].tolist()
    place = inquiry.asked[np.concatenate([a.row + start for (_, a), start in zip(parts, starts, strict=True)])]
    tables = [answers.table for _, answers in parts]
    checks = together([answers.checks for _, answers in parts])
    calls, cut_short = np.zeros(len(inquiry.table), dtype=np.int64), np.zeros(len(inquiry.table), dtype=bool)
    calls[inquiry.asked] = np.concatenate([found.spent for found, _ in parts])
    cut_short[inquiry.asked] = np.concatenate([found.cut_short for found, _ in parts])
    return Explanation(
        task=task,
        method="FCx",
        rows=inquiry.table,
        wanted=inquiry.wanted,
        known_now=inquiry.now,
        row_status=_status(inquiry, parts, place, checks.passed),
        answers=tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True),
        place=place,
        rank=within(place) + 1,
        checks=checks,
        found_by=np.concatenate([answers.found_by for _, answers in parts]),
        notes=tuple(_notes(inquiry, list(zip(parts, starts, strict=True)))),
        calls=calls,
        cut_short=cut_short,
        draws=draws,
        reasons={
            i: WhyNot.unreadable(labels(inquiry.table.index[[i]])[0], said)
            for i, said in sorted(inquiry.failures.items())
        },
    )


def _status(inquiry: Inquiry, parts: Sequence[Part], place: Codes, passed: NDArray[np.bool_]) -> NDArray[np.object_]:
    status = np.full(len(inquiry.table), Status.ALREADY, dtype=object)
    status[list(inquiry.failures)] = Status.UNREADABLE
    status[inquiry.asked] = np.concatenate([found.status for found, _ in parts])
    status[place] = Status.BEST_EFFORT
    status[place[passed]] = Status.VERIFIED
    return status


def _notes(inquiry: Inquiry, parts: Sequence[tuple[Part, int]]) -> list[str]:
    failures, unsteady = dict[int, str](), []
    for (found, answers), start in parts:
        messages = (found.failures | answers.failures).items()
        failures |= {int(inquiry.asked[row + start]): message for row, message in messages}
        unsteady += inquiry.asked[answers.unsteady + start].tolist()
    notes = []
    if failures:
        message = next(iter(failures.values()))
        rows = _named(inquiry.table, sorted(failures))
        notes.append(f"the model failed on {rows}, which have no answer. {message}")
    if unsteady:
        rows = _named(inquiry.table, unsteady)
        notes.append(f"the model changed its answer when queried again about {rows}; these candidates were dropped")
    return notes


def _named(table: pd.DataFrame, places: Sequence[int]) -> str:
    """The number of rows, and the labels of some."""
    labels = [tuple(map(plain, v)) if isinstance(v, tuple) else plain(v) for v in table.index[list(places)]]
    return f"{len(places):,} rows ({some(labels, NAMED)})"
