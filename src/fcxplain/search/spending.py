"""The budget of each row, in queries of the user's model and in time, and what the rows of a batch have spent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..errors import DataError, Fault, between, did_you_mean, whole
from .candidates import within
from .space import Bools, Codes


@dataclass(frozen=True)
class Budget:
    """The budget of one row.

    Parameters
    ----------
    calls : int, default=1000
        Candidates that the model may be queried about. Networks are evaluated without this limit.
    seconds : float, optional
        Time limit; rows searched together share theirs. None means no limit.

    Raises
    ------
    DataError
        If a limit is not positive.

    Examples
    --------
    >>> from fcxplain import Budget
    >>> Budget(calls=200, seconds=0.5)
    Budget(calls=200, seconds=0.5)
    """

    calls: int = 1_000
    seconds: float | None = None

    def __post_init__(self) -> None:
        limit = [] if self.seconds is None else between("seconds", self.seconds, 0, open_low=True)
        _refuse([*whole("calls", self.calls, 1), *limit])


def as_budget(given: Budget | Mapping[str, Any] | int | None) -> Budget:
    """A `Budget` from a budget, a number of calls, or a mapping such as `{"calls": 500, "seconds": 0.1}`."""
    if given is None:
        return Budget()
    if isinstance(given, Budget):
        return given
    if isinstance(given, Mapping):
        known = [f.name for f in fields(Budget)]
        remedy = f"Choose from {' and '.join(known)}."
        _refuse([Fault(f"{n!r}", "is not known", did_you_mean(n, known) or remedy) for n in given if n not in known])
        return Budget(**given)
    if not isinstance(given, int) or isinstance(given, bool):
        remedy = "Give a whole number of calls, Budget(calls=..., seconds=...) or a mapping of these."
        _refuse([Fault(f"{given!r}", f"is a {type(given).__name__}", remedy)])
    return Budget(calls=given)


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise DataError("this budget cannot be used", faults)


@dataclass(eq=False)
class Account:
    """What all rows of a batch have spent; `Spending` is a view of it for some of the rows."""

    limit: Codes
    """The limit of calls for each row."""
    spent: Codes
    """Candidates that the model was queried about, for each row."""
    refused: Bools
    """Rows that needed more queries than their limit."""
    calls: int = 0
    """Rows that the model has really evaluated: a candidate shared by several rows is queried once."""
    stage: int = 0
    """The calls up to which the present stage of the search goes, whatever the limit of a row."""
    goes_on: Bools | None = None
    """Rows that have another stage before them."""


@dataclass(frozen=True, eq=False)
class Spending:
    """What some rows of a batch have spent, and what is left: calls for each row, time for all of them together."""

    account: Account
    rows: Codes
    """Positions of the rows in the account."""
    held: Codes
    """Calls that each row reserves for later steps."""
    deadline: float = np.inf

    @classmethod
    def start(cls, limit: Codes, deadline: float = np.inf) -> Spending:
        """Nothing spent yet by any row of a batch."""
        none = np.zeros(len(limit), dtype=np.int64)
        account = Account(limit, none.copy(), none > 0, stage=int(limit.max(initial=0)))
        return cls(account, np.arange(len(limit)), none, deadline)

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline < np.inf and time.monotonic() > self.deadline

    @property
    def is_last(self) -> Bools:
        """Rows for which this is the last stage of the search."""
        goes_on = self.account.goes_on
        return np.full(len(self.rows), True) if goes_on is None else ~goes_on[self.rows]

    @property
    def limit(self) -> Codes:
        """The calls that each row may have spent now, without those that it reserves."""
        # What is reserved depends on the stage alone, so that a larger limit serves the same candidates and more.
        return np.asarray(np.minimum(self.account.limit[self.rows], self.account.stage - self.held))

    @property
    def left(self) -> Codes:
        """Calls that each row has left."""
        return np.asarray(np.maximum(self.limit - self.account.spent[self.rows], 0))

    def admit(self, row: Codes) -> Bools:
        """Charge candidates as far as the limits allow, and return which ones may be queried."""
        spent = self.account.spent[self.rows]
        granted = (spent[row] + within(row) < self.limit[row]) & (not self.is_late)
        self.refuse(row[~granted])
        self.count(row[granted])
        return np.asarray(granted)

    def count(self, row: Codes) -> None:
        """Charge candidates whatever the limit."""
        self.charge(np.bincount(row, minlength=len(self.rows)))

    def charge(self, calls: Codes) -> None:
        """Charge a number of calls to each row."""
        self.account.spent[self.rows] += calls

    def show(self, calls: int) -> None:
        """Count rows that the model has evaluated."""
        self.account.calls += calls

    def refuse(self, row: Codes) -> None:
        """Note candidates that are not queried."""
        self.account.refused[self.rows[row]] = True

    def give_back(self, row: Codes) -> None:
        """Refund candidates that were admitted, but for which there was no time."""
        self.charge(-np.bincount(row, minlength=len(self.rows)))
        self.refuse(row)

    def of(self, rows: Codes) -> Spending:
        """The same account, for some of the rows."""
        return replace(self, rows=self.rows[rows], held=self.held[rows])

    def holding(self, calls: Codes) -> Spending:
        """The same account, with some calls of each row reserved."""
        return replace(self, held=calls)
