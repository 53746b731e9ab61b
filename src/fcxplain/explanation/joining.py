"""Several explanations as one: parts of a table, each explained with rules of its own rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..overrides import Overrides
from ..task import Task
from .checks import Bools, Checks
from .explanation import Effort, Explanation

Part = tuple[NDArray[np.int64], Explanation]
"""Positions of rows in the whole table, and what was found for them."""


def joined(task: Task, rows: pd.DataFrame, parts: Sequence[Part], own: Overrides) -> Explanation:
    """The parts as one explanation of `task`. Nothing is checked anew; each row is in one part.

    Every part was explained under the task's rules followed by those of its rows, `own`.
    """
    rows = rows[list(task.schema.names)]
    place = np.concatenate([np.empty(0, dtype=np.int64), *(where[part.place] for where, part in parts)])
    order = np.argsort(place, kind="stable")
    status, wanted = np.empty(len(rows), dtype=object), np.empty(len(rows), dtype=object)
    calls, cut_short = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=bool)
    for where, part in parts:
        status[where], wanted[where] = part.row_status, part.wanted
        calls[where] = 0 if part.calls is None else part.calls
        cut_short[where] = False if part.cut_short is None else part.cut_short
    found = [part for _, part in parts]
    tables = [part.answers for part in found if len(part.answers)]
    answers = pd.concat(tables, ignore_index=True) if tables else found[0].answers
    return Explanation(
        task=task,
        method=found[0].method,
        rows=rows,
        wanted=wanted.astype(found[0].wanted.dtype),
        row_status=status,
        answers=answers.iloc[order].reset_index(drop=True),
        place=place[order],
        rank=np.concatenate([part.rank for part in found])[order],
        checks=_checks(task, parts, own).take(order),
        found_by=np.concatenate([part.found_by for part in found])[order],
        effort=Effort.together(part.effort for part in found),
        notes=tuple(dict.fromkeys(note for part in found for note in part.notes)),
        own=own,
        reasons={int(where[i]): reason for where, part in parts for i, reason in part.reasons.items()},
        calls=calls,
        cut_short=None if any(part.cut_short is None for part in found) else cut_short,
        draws=max(part.draws for part in found),
    )


def _checks(task: Task, parts: Sequence[Part], own: Overrides) -> Checks:
    """What was checked, with a column for each rule of the task and each of single rows."""
    kept = np.concatenate([_kept(task, where, part, own) for where, part in parts])
    names = [f.name for f in fields(Checks) if f.name != "kept"]
    return Checks(kept=kept, **{n: np.concatenate([getattr(part.checks, n) for _, part in parts]) for n in names})


def _kept(task: Task, where: NDArray[np.int64], part: Explanation, own: Overrides) -> Bools:
    common = len(task.rules)
    kept = np.ones((len(part.checks), common + len(own.rules)), dtype=bool)
    kept[:, :common] = part.checks.kept[:, :common]
    for column, rule in enumerate(own.of_row[where[0]]):
        kept[:, common + rule] = part.checks.kept[:, common + column]
    return kept
