"""Any model is asked about decoded tables, each distinct row once, and no longer than there is time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pandas as pd

from ..classifier.protocol import Predictions
from ..schema import Natural
from ..task import Task
from .distinct import distinct
from .ledger import Ledger
from .margins import margins
from .oracle import Asked
from .pool import within
from .space import Bools, Codes, Present, Space

# Rows of a table that a model is shown at a time; where time counts, it begins with few.
CHUNK, FEW = 65_536, 64


class TableOracle:
    """Any model, by decoded tables."""

    cheap, additive = False, False

    def __init__(self, space: Space) -> None:
        self.space, self.task = space, space.task

    def classes(self, rows: pd.DataFrame, natural: Natural) -> Codes:
        """See `Oracle`."""
        return classes_of(self.task, rows)

    def ask(self, present: Present, row: Codes, codes: Codes, ledger: Ledger) -> Asked:
        """See `Oracle`."""
        margin, valid = np.full(len(row), -np.inf), np.zeros(len(row), dtype=bool)
        granted = np.flatnonzero(ledger.admit(row))
        if len(granted):
            known, told = self._known(present, row[granted], codes[granted], ledger)
            there = granted[told]
            wanted = present.wanted[row[there]]
            margin[there] = margins(known.probabilities[told], wanted, self.task.classifier.guide)
            valid[there] = (known.choice[told] == wanted) & known.firm[told]
        return Asked(margin, valid)

    def _known(self, present: Present, row: Codes, codes: Codes, ledger: Ledger) -> tuple[Predictions, Bools]:
        """What the user's own model decides, about each distinct row once; and for which there was time."""
        first, inverse = self._distinct(present, row, codes)
        known, told = Predictions.none(len(first), len(self.task.classes)), np.zeros(len(first), dtype=bool)
        # The first candidates of all rows before the second ones: where time ends, it ends for all rows alike.
        order = np.argsort(within(row)[first], kind="stable") if ledger.deadline < np.inf else np.arange(len(first))
        for part in _parts(order, ledger):
            table = self.space.table(present, row[first[part]], codes[first[part]])
            known.put(part, self.task.classifier.decide(table, final=False))
            told[part] = True
            ledger.calls += len(part)
        ledger.give_back(row[~told[inverse]])
        return known.take(inverse), told[inverse]

    def _distinct(self, present: Present, row: Codes, codes: Codes) -> tuple[Codes, Codes]:
        strange = np.asarray(present.off_grid.any(axis=1))
        # A value off the grid is its row's own, so such rows share no question with others.
        return distinct(np.column_stack([codes, np.where(strange[row], row, -1)]) if strange.any() else codes)


def classes_of(task: Task, rows: pd.DataFrame) -> Codes:
    """Places of the classes that the user's own model gives rows."""
    parts = [task.classifier.decide(rows.iloc[s : s + CHUNK]).choice for s in range(0, len(rows), CHUNK)]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _parts(order: Codes, ledger: Ledger) -> Iterator[Codes]:
    """What is asked at a time, until the deadline: as much as the time left allows, going by the last part."""
    start, size = 0, CHUNK if ledger.deadline == np.inf else FEW
    while start < len(order) and not ledger.is_late:
        began = time.monotonic()
        yield order[start : start + size]
        start, now = start + size, time.monotonic()
        if ledger.deadline < np.inf:
            rate = size / max(now - began, 1e-9)
            size = int(np.clip(rate * (ledger.deadline - now) / 2, FEW, min(4 * size, CHUNK)))
