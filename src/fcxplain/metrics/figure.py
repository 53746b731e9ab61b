"""Figure: what a metric gives, a float that can say why it is absent; and which counterfactuals metrics describe."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..explanation import Explanation
from ..task import Task

Metric = Callable[[Explanation, Task], float]
"""From answers, and the task under which to judge them, to one number."""


class Figure(float):
    """A metric's value: a float that may say why it is absent.

    Parameters
    ----------
    value : float
        NaN where there is none.
    reason : str
        Why it is NaN.
    notes : iterable of str
        What a reader of the number must know.
    """

    reason: str
    notes: tuple[str, ...]

    def __new__(cls, value: float, *, reason: str = "", notes: Iterable[str] = ()) -> Figure:
        """A float with words."""
        figure = super().__new__(cls, value)
        figure.reason, figure.notes = reason, tuple(notes)
        return figure


def absent(reason: str, notes: Iterable[str] = ()) -> Figure:
    """The figure of a metric that does not exist for these answers, and why, in words."""
    return Figure(math.nan, reason=reason, notes=notes)


Bools = NDArray[np.bool_]
Places = NDArray[np.int64]


def handed_out(answer: Explanation) -> Places:
    """Places of all the answers, of every rank, for rows that were asked."""
    return np.flatnonzero(answer.asked[answer.place])


def first(answer: Explanation) -> Places:
    """Places of the answers of rank 1 for rows that were asked."""
    return np.flatnonzero(answer.asked[answer.place] & (answer.rank == 1))


def rows_with(answer: Explanation, good: Bools) -> Bools:
    """Which of the rows asked have an answer of rank 1 that is good; `good` is told for each answer."""
    chosen = first(answer)
    found = np.zeros(len(answer), dtype=bool)
    found[answer.place[chosen[good[chosen]]]] = True
    return found[answer.asked]


def natural_answers(answer: Explanation, which: Places) -> dict[str, NDArray[Any]]:
    """Natural columns of some of the answers."""
    return answer.task.schema.natural(answer.answers.iloc[which])
