"""What may be spent on each row, questions to the user's model and time, and what each row of a batch has spent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ..errors import DataError, Fault, between, did_you_mean, whole
from .candidates import within
from .space import Bools, Codes


@dataclass(frozen=True)
class Budget:
    """What one row may cost.

    calls: candidates that a model may be asked about which is no network; a network's own layers are asked freely.
    seconds: time; rows searched together share theirs. None: as long as it takes.
    """

    calls: int = 1_000
    seconds: float | None = None

    def __post_init__(self) -> None:
        limit = [] if self.seconds is None else between("seconds", self.seconds, 0, open_low=True)
        _refuse([*whole("calls", self.calls, 1), *limit])


def as_budget(given: Budget | Mapping[str, Any] | int | None) -> Budget:
    """A budget from one, from a number of calls, or from a mapping such as `{"calls": 500, "seconds": 0.1}`."""
    if given is None:
        return Budget()
    if isinstance(given, Budget):
        return given
    if isinstance(given, Mapping):
        known = [f.name for f in fields(Budget)]
        _refuse([_unknown(name, known) for name in given if name not in known])
        return Budget(**given)
    _refuse([] if _is_whole(given) else [_strange(given)])
    return Budget(calls=given)


def _is_whole(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _unknown(name: object, known: list[str]) -> Fault:
    return Fault(f"{name!r}", "is not known", did_you_mean(name, known) or f"There are {' and '.join(known)}.")


def _strange(given: object) -> Fault:
    remedy = "Give a whole number of calls, Budget(calls=..., seconds=...) or a mapping of these."
    return Fault(f"{given!r}", f"is a {type(given).__name__}", remedy)


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise DataError("this budget cannot be used", faults)


@dataclass
class Spending:
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

    def of(self, rows: Codes) -> Spending:
        """The ledger of some of the rows; what they spend is told by `settle`."""
        part = Spending(self.limit[rows], self.spent[rows], self.deadline)
        part.held = self.held[rows]
        return part

    def settle(self, part: Spending, rows: Codes) -> None:
        """Take over what some of the rows have spent."""
        self.spent[rows] = part.spent
        self.refused[rows] |= part.refused
        self.calls += part.calls
