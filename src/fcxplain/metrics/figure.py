"""Figure, a metric's value with a reason if it is absent; and the choice of counterfactuals that metrics describe."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..explanation import Explanation
from ..task import Task

Metric = Callable[[Explanation, Task], float]
"""A function of answers, and of the task to evaluate them under, that returns one number."""


class Figure(float):
    """A metric's value: a float, with a reason if it is absent.

    Parameters
    ----------
    value : float
        The value; NaN if it is absent.
    reason : str
        Why it is absent.
    notes : iterable of str
        Notes that a reader of the number must know.

    Examples
    --------
    >>> from fcxplain import Figure
    >>> Figure(0.5) + 0.25
    0.75
    >>> Figure(float("nan"), reason="there are no answers").reason
    'there are no answers'
    """

    reason: str
    notes: tuple[str, ...]

    def __new__(cls, value: float, *, reason: str = "", notes: Iterable[str] = ()) -> Figure:
        """Create a float with a reason and notes."""
        figure = super().__new__(cls, value)
        figure.reason, figure.notes = reason, tuple(notes)
        return figure


def absent(reason: str, notes: Iterable[str] = ()) -> Figure:
    """The figure of a metric that does not exist for these answers, with the reason."""
    return Figure(math.nan, reason=reason, notes=notes)


Bools = NDArray[np.bool_]
Places = NDArray[np.int64]


def handed_out(answer: Explanation) -> Places:
    """Indices of the answers of every rank for rows to explain."""
    return np.flatnonzero(answer.asked[answer.place])


def first(answer: Explanation) -> Places:
    """Indices of the answers of rank 1 for rows to explain."""
    return np.flatnonzero(answer.asked[answer.place] & (answer.rank == 1))


def rows_with(answer: Explanation, good: Bools) -> Bools:
    """Which of the rows to explain have an answer of rank 1 that is good; `good` is a flag per answer."""
    chosen = first(answer)
    found = np.zeros(len(answer), dtype=bool)
    found[answer.place[chosen[good[chosen]]]] = True
    return found[answer.asked]


def natural_answers(answer: Explanation, which: Places) -> dict[str, NDArray[Any]]:
    """Natural columns of some of the answers."""
    return answer.task.schema.natural(answer.answers.iloc[which])
