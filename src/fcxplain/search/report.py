"""The report: what was found for the parts of a table, as one `Explanation`, with notes on what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import some
from ..explanation import Explanation, Status
from ..schema.feature import plain
from ..task import Task
from .answers import Answers, together
from .found import Found
from .pool import within
from .space import Codes

Part = tuple[Found, Answers]
# Labels of rows that a note names.
NAMED = 5


@dataclass(frozen=True, eq=False)
class Inquiry:
    """A table of rows, the class wanted for each, which of them need an answer, and on which the model failed."""

    table: pd.DataFrame
    wanted: NDArray[Any]
    asked: Codes
    failures: dict[int, str]


def reported(task: Task, inquiry: Inquiry, parts: Sequence[Part], *, draws: int) -> Explanation:
    """The parts, one after the other, as one explanation."""
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
    )


def _status(inquiry: Inquiry, parts: Sequence[Part], place: Codes, passed: NDArray[np.bool_]) -> NDArray[np.object_]:
    status = np.full(len(inquiry.table), Status.ALREADY, dtype=object)
    status[list(inquiry.failures)] = Status.NOT_FOUND
    status[inquiry.asked] = np.concatenate([found.status for found, _ in parts])
    status[place] = Status.BEST_EFFORT
    status[place[passed]] = Status.VERIFIED
    return status


def _notes(inquiry: Inquiry, parts: Sequence[tuple[Part, int]]) -> list[str]:
    failures, unsteady = dict(inquiry.failures), []
    for (found, answers), start in parts:
        told = (found.failures | answers.failures).items()
        failures |= {int(inquiry.asked[row + start]): message for row, message in told}
        unsteady += inquiry.asked[answers.unsteady + start].tolist()
    notes = []
    if failures:
        message = next(iter(failures.values()))
        rows = _named(inquiry.table, sorted(failures))
        notes.append(f"the model failed on {rows}, which have no answer. {message}")
    if unsteady:
        rows = _named(inquiry.table, unsteady)
        notes.append(f"the model answered otherwise when asked again about {rows}; those candidates were left out")
    return notes


def _named(table: pd.DataFrame, places: Sequence[int]) -> str:
    """So many rows, and the labels of some."""
    labels = [tuple(map(plain, v)) if isinstance(v, tuple) else plain(v) for v in table.index[list(places)]]
    return f"{len(places):,} rows ({some(labels, NAMED)})"
