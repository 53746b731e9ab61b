"""Rows on their way through the proofs: what each may become, the model as numbers, and what was found out so far."""

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
    """Why it is certain that a row has no counterfactual."""

    RULES = "rules"
    """The rules, bounds and immutables leave no row at all, whatever the model."""
    BOUND = "bound"
    """The model's score stays short of what is wanted all over what is allowed."""
    TRIED = "tried"
    """The model was asked about every legal row."""


@dataclass(frozen=True)
class ProofLimits:
    """What the proofs of one row may cost; see `prove`."""

    limit: int
    parts: int
    boxes: int
    asks: int
    until: float


class ProofBatch:
    """Some rows, what is wanted of them, and what is certain about them; `witness` is in natural columns."""

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
        """Of these, rows without a gap."""
        self.reason = np.full(len(wanted), "", dtype=object)
        self.possible = np.zeros(len(wanted), dtype=bool)
        self.witness: dict[str, NDArray[Any]] = {n: v.copy() for n, v in before.items()}
        self.asked, self.calls = np.zeros(len(wanted), dtype=np.int64), 0
        self.notes: list[str] = []

    @property
    def open(self) -> Bools:
        """Rows of which nothing is known yet."""
        return np.asarray((self.reason == "") & ~self.possible)

    def spend(self, rows: Places, asked: Places, calls: int) -> None:
        """Count what the model was asked about some rows, and what it was shown."""
        self.asked[rows] += asked
        self.calls += calls

    def settle(self, rows: Places, reason: Reason) -> None:
        """Take it for certain that rows have no counterfactual."""
        self.reason[rows[~self.uncertain[rows]]] = reason

    def confirm(self, rows: Places, found: Bools, natural: Natural) -> None:
        """Take those of some rows for possible whose witness passes every check, by the user's own model."""
        rows, natural = rows[found], {n: v[found] for n, v in natural.items()}
        if not len(rows):
            return
        checks = check(self.task, self.rows.iloc[rows], self.task.table(natural), self.wanted[rows])
        passed = checks.passed & checks.firm
        self.spend(rows, np.ones(len(rows), dtype=np.int64), len(rows))
        self.possible[rows[passed]] = True
        for name, values in natural.items():
            self.witness[name][rows[passed]] = values[passed]
