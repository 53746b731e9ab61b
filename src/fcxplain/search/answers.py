"""From what was found to an `Explanation`: every answer is checked, and what does not pass is never handed out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..explanation import Explanation
from .found import Found
from .pool import HOW, Pool, joined, within
from .space import Codes, Present, Space


@dataclass(frozen=True, eq=False)
class Question:
    """The table of rows asked, the class wanted for each, and which of them need an answer."""

    table: pd.DataFrame
    wanted: NDArray[Any]
    asked: Codes
    present: Present
    """Of the rows that need an answer."""


def explanation(
    space: Space, question: Question, found: Found, status: NDArray[Any], k: int, *, best_effort: bool
) -> Explanation:
    """At most `k` answers for each row; whatever does not pass the check gives way to the next one of its row."""
    pool, dropped = found.pool, 0
    while True:
        shown = pool.take(within(pool.row) < k)
        if best_effort:
            shown = _with(shown, found.nearly, len(question.present))
        made = _checked(space, question, shown, status, _notes(found, dropped))
        failed = np.flatnonzero(~made.checks.passed & (shown.price < np.inf))
        if not len(failed):
            return made
        dropped += len(failed)
        pool = pool.take(_others(pool, shown.take(failed)))


def _checked(
    space: Space, question: Question, shown: Pool, status: NDArray[Any], notes: tuple[str, ...]
) -> Explanation:
    return Explanation.of(
        space.task,
        question.table,
        space.table(question.present, shown.row, shown.codes),
        question.asked[shown.row],
        method="FCx",
        wanted=question.wanted,
        without=dict(enumerate(status.tolist())),
        found_by=np.asarray(HOW)[shown.how],
        notes=notes,
    )


def _with(shown: Pool, nearly: Pool, rows: int) -> Pool:
    """Rows without an answer get what came nearest."""
    every = joined([shown, nearly.take(~shown.has(rows)[nearly.row])])
    return every.take(np.argsort(every.row, kind="stable"))


def _others(pool: Pool, failed: Pool) -> NDArray[np.bool_]:
    """Which candidates are none of the failed ones."""
    lines = {(int(r), *map(int, c)) for r, c in zip(failed.row, failed.codes, strict=True)}
    own = ((int(r), *map(int, c)) for r, c in zip(pool.row, pool.codes, strict=True))
    return np.array([line not in lines for line in own], dtype=bool)


def _notes(found: Found, dropped: int) -> tuple[str, ...]:
    notes = []
    if found.failures:
        notes.append(f"the model failed on {len(found.failures):,} rows, which have no answer. {found.failures[0]}")
    if dropped:
        notes.append(f"left out {dropped:,} candidates, of which the model said something else when asked again")
    return tuple(notes)
