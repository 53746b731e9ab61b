"""A batch of rows in the proofs: the region of each, the model as numbers, and the results so far."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..explanation import check
from ..region.region import Places
from ..rules.check import Bools
from ..schema import Natural
from ..schema.feature import MISSING
from ..task import Task
from .reading import ModelReading


class Reason(StrEnum):
    """How it was proved that a row has no counterfactual."""

    RULES = "rules"
    """The rules, bounds and immutables leave no legal row, whatever the model."""
    BOUND = "bound"
    """The model's score misses the target everywhere in the region."""
    TRIED = "tried"
    """The model was queried on every legal row."""


@dataclass(frozen=True)
class ProofLimits:
    """Limits on the effort for one row; see `prove`."""

    limit: int
    parts: int
    boxes: int
    asks: int
    until: float


class ProofBatch:
    """Rows, their targets, and what is proved about them; `witness` is in natural columns."""

    def __init__(
        self, task: Task, model: ModelReading, limits: ProofLimits, rows: pd.DataFrame, before: Natural, wanted: Any
    ) -> None:
        self.task, self.model, self.limits, self.rows, self.wanted = task, model, limits, rows, wanted
        self.outcomes = task.outcomes(wanted)
        self.region = task.region(before)
        self.uncertain = self.region.uncertain
        self.known = np.logical_and.reduce([f.is_number | (before[f.name] >= MISSING) for f in task.schema])
        """Rows without a level that is not in the schema."""
        self.whole = self.known & ~np.logical_or.reduce([f.is_missing(before[f.name]) for f in task.schema])
        """Of these, rows without missing values."""
        self.reason = np.full(len(wanted), "", dtype=object)
        self.possible, self.given_up = np.zeros((2, len(wanted)), dtype=bool)
        """Rows with a legal row that gets the class; and, where the model may not be asked, rows that may have one."""
        self.witness: dict[str, NDArray[Any]] = {n: v.copy() for n, v in before.items()}
        self.asked, self.calls = np.zeros(len(wanted), dtype=np.int64), 0
        self.notes: list[str] = []

    @property
    def open(self) -> Bools:
        """Rows about which nothing is known yet."""
        return np.asarray((self.reason == "") & ~self.possible & ~self.given_up)

    def spend(self, rows: Places, asked: Places, calls: int) -> None:
        """Count queries for some rows, and the rows that the model was shown."""
        self.asked[rows] += asked
        self.calls += calls

    def settle(self, rows: Places, reason: Reason) -> None:
        """Record that rows are proved to have no counterfactual."""
        self.reason[rows[~self.uncertain[rows]]] = reason

    def confirm(self, rows: Places, found: Bools, natural: Natural) -> None:
        """Record rows as possible if their witness passes every check, by the user's own model."""
        rows, natural = rows[found], {n: v[found] for n, v in natural.items()}
        if not self.limits.asks:
            self.given_up[rows] = True
            return
        if not len(rows):
            return
        checks = check(self.task, self.rows.iloc[rows], self.task.table(natural), self.wanted[rows])
        passed = checks.passed & checks.firm
        self.spend(rows, np.ones(len(rows), dtype=np.int64), len(rows))
        self.possible[rows[passed]] = True
        for name, values in natural.items():
            self.witness[name][rows[passed]] = values[passed]
