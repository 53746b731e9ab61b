"""An explanation at a glance: how the rows fared, how much has to change, and the first answers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ..markup import Glance, Grid, counted, remainder
from .statement import change_line, marked

if TYPE_CHECKING:
    from .answer import Explanation

FEW = 5
HEAD = ("row", "answer", "what changes", "probability")


def glance(explanation: Explanation, few: int = FEW) -> Glance:
    """Statuses and notes; with some answers to show, also how many changes they need, and the first few of them."""
    e = explanation
    statuses = ", ".join(f"{count:,} {marked(status)}" for status, count in sorted(e.counts.items()))
    headline = f"Explanation by {e.method}: {counted(len(e), 'row')} ({statuses or 'none'})"
    if not few or not len(e.answers):
        return Glance(headline, e.notes)
    return Glance(headline, e.notes, (("changes per answer", _changes(e)),), (_answers(e, few),))


def _changes(e: Explanation) -> str:
    counts = sorted(Counter(e.checks.changes.tolist()).items())
    return ", ".join(f"{changes} in {counted(answers, 'answer')}" for changes, answers in counts)


def _answers(e: Explanation, few: int) -> Grid:
    """The first answers, row by row and best first."""
    first = np.lexsort((e.rank, e.place))[:few].tolist()
    rest = remainder(len(e.answers) - few, "answer")
    return Grid(HEAD, tuple(_line(e, i) for i in first), f"{rest}; see .frame and .certificates" if rest else "")


def _line(e: Explanation, i: int) -> tuple[str, ...]:
    said = "; ".join(map(change_line, e.changes(i))) or "nothing"
    status = "" if e.checks.passed[i] else f" {marked('best_effort')}"
    chance = e.checks.probability[i]
    told = "not asked" if np.isnan(chance) else f"{e.checks.wanted[i]}: {chance:.3f}"
    return str(e.rows.index[e.place[i]]), f"{e.rank[i]}{status}", said, told
