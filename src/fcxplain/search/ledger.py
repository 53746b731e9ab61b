"""The ledger: what the rows of one batch have spent, and whether they may spend more."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from .pool import within
from .space import Bools, Codes


@dataclass
class Ledger:
    """Calls of the model by each row, and time by all rows together."""

    limit: Codes
    """Calls that may go into each row."""
    spent: Codes
    """Candidates that the model was asked about, for each row."""
    deadline: float = np.inf
    refused: Bools = field(init=False)
    """Rows that wanted to ask more than they were allowed."""
    held: Codes = field(init=False)
    """Calls that each row keeps back for what comes later."""
    calls: int = 0
    """Rows that the model was really shown: what several rows want to know is asked once."""

    def __post_init__(self) -> None:
        self.refused = np.zeros(len(self.spent), dtype=bool)
        self.held = np.zeros(len(self.spent), dtype=np.int64)

    @property
    def is_late(self) -> bool:
        """Whether the time is over."""
        return self.deadline < np.inf and time.monotonic() > self.deadline

    @property
    def left(self) -> Codes:
        """How many calls each row has left."""
        return np.asarray(np.maximum(self.limit - self.held - self.spent, 0))

    def admit(self, row: Codes) -> Bools:
        """Which of these candidates may still be asked about; they count from now on."""
        granted = ((self.spent + self.held)[row] + within(row) < self.limit[row]) & (not self.is_late)
        self.refused[row[~granted]] = True
        self.count(row[granted])
        return np.asarray(granted)

    def count(self, row: Codes) -> None:
        """Candidates that are asked about whatever the limit."""
        self.spent += np.bincount(row, minlength=len(self.spent))

    def give_back(self, row: Codes) -> None:
        """Candidates that were admitted, but for which there was no time."""
        self.spent -= np.bincount(row, minlength=len(self.spent))
        self.refused[row] = True

    def of(self, rows: Codes) -> Ledger:
        """The ledger of some of the rows; what they spend is told by `settle`."""
        part = Ledger(self.limit[rows], self.spent[rows], self.deadline)
        part.held = self.held[rows]
        return part

    def settle(self, part: Ledger, rows: Codes) -> None:
        """Take over what some of the rows have spent."""
        self.spent[rows] = part.spent
        self.refused[rows] |= part.refused
        self.calls += part.calls
