"""Any model, queried with decoded tables: each distinct row once, within the budget."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from ...classifier.protocol import Predictions
from ...hashing import distinct
from ...outcome import Outcomes
from ...schema import Natural
from ...task import Task
from ..candidates import within
from ..space import Bools, Codes, Rows, SearchSpace
from ..spending import Spending
from .oracle import Replies

# Rows per call of the model; with a deadline, the first calls have few.
CHUNK, FEW = 65_536, 64


class TableOracle:
    """Any model, queried with decoded tables."""

    cheap, additive, is_own, rows_at_once = False, False, False, 384

    def __init__(self, space: SearchSpace) -> None:
        self.space, self.task = space, space.task

    def decisions(self, rows: pd.DataFrame, natural: Natural) -> Predictions:
        """See `Oracle`."""
        return decisions_of(self.task, rows)

    def query(self, present: Rows, row: Codes, codes: Codes, spending: Spending) -> Replies:
        """See `Oracle`."""
        margin, valid = np.full(len(row), -np.inf), np.zeros(len(row), dtype=bool)
        granted = np.flatnonzero(spending.admit(row))
        if len(granted):
            known, reached = self._known(present, row[granted], codes[granted], spending)
            there = granted[reached]
            wanted = present.wanted[row[there]]
            margin[there] = wanted.margin(known.probabilities[reached])
            valid[there] = wanted.met(known.probabilities[reached], known.choice[reached]) & known.firm[reached]
        return Replies(margin, valid)

    def _known(self, present: Rows, row: Codes, codes: Codes, spending: Spending) -> tuple[Predictions, Bools]:
        """The decisions of the user's model, with each distinct row queried once; and which rows there was time for."""
        first, inverse = self._distinct(present, row, codes)
        known, reached = Predictions.none(len(first), max(1, len(self.task.classes))), np.zeros(len(first), dtype=bool)
        # The first candidates of all rows come before the second ones, so a deadline affects all rows alike.
        order = np.argsort(within(row)[first], kind="stable") if spending.deadline < np.inf else np.arange(len(first))
        for part in _parts(order, spending):
            table = self.space.table(present, row[first[part]], codes[first[part]])
            wanted = present.wanted[row[first[part]]]
            known.put(part, self.task.classifier.decide(table, wanted=partial(_these, wanted), final=False))
            reached[part] = True
            spending.show(len(part))
        spending.give_back(row[~reached[inverse]])
        return known.take(inverse), reached[inverse]

    def _distinct(self, present: Rows, row: Codes, codes: Codes) -> tuple[Codes, Codes]:
        own = np.asarray(present.off_grid.any(axis=1))
        # The code of an off-grid value means another value in each row, so these rows share no queries. Nor do rows
        # with different target outcomes.
        apart = [] if present.wanted.is_plain else [present.wanted.code[row]]
        apart += [np.where(own[row], row, -1)] if own.any() else []
        return distinct(np.column_stack([codes, *apart]) if apart else codes)


def decisions_of(task: Task, rows: pd.DataFrame) -> Predictions:
    """The decisions of the user's own model about rows."""
    found = Predictions.none(len(rows), max(1, len(task.classes)))
    for start in range(0, len(rows), CHUNK):
        part = slice(start, start + CHUNK)
        found.put(part, task.classifier.decide(rows.iloc[part], wanted=task.outcomes_of))
    return found


def _these(wanted: Outcomes, _: Predictions) -> Outcomes:
    return wanted


def _parts(order: Codes, spending: Spending) -> Iterator[Codes]:
    """Split rows into calls until the deadline; the speed of each call gives the size of the next."""
    start, size = 0, CHUNK if spending.deadline == np.inf else FEW
    while start < len(order) and not spending.is_late:
        began = time.monotonic()
        yield order[start : start + size]
        start, now = start + size, time.monotonic()
        if spending.deadline < np.inf:
            rate = size / max(now - began, 1e-9)
            size = int(np.clip(rate * (spending.deadline - now) / 2, FEW, min(4 * size, CHUNK)))
