"""Figure: what a metric gives. A float that can say why it is absent and how it was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ..explanation import Explanation
from ..task import Task

Metric = Callable[[Explanation, Task], float]
"""From answers, and the task under which to judge them, to one number."""


class Figure(float):
    """A metric's value. Where it is NaN, `reason` says why; `notes` say what a reader of the number must know."""

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
