"""Figure, a metric's value with a reason if it is absent; and the metrics of answers one by one: rates of success,
distances, diversity and effort.

Shares are in percent of the rows to explain, which do not already have the target class. A row counts by its answer of
rank 1. Distances are means over all such answers, valid or not, as in the reference code of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..explanation import Effort, Explanation, Status
from ..explanation.lof import alike
from ..task import Task

Bools = NDArray[np.bool_]
Places = NDArray[np.int64]
NO_ROWS = "no row needed an answer"
NO_ANSWER = "no row to explain has an answer"
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


def share(good: Bools, why_absent: str) -> Figure:
    """How many are good, in percent."""
    return Figure(100 * float(good.mean())) if len(good) else absent(why_absent)


def mean(values: NDArray[Any], why_absent: str = NO_ANSWER, notes: Iterable[str] = ()) -> Figure:
    """The mean of values of answers."""
    # Adding 0 turns -0.0, for no change at all, into 0.0.
    return Figure(float(values.mean()) + 0.0, notes=notes) if len(values) else absent(why_absent, notes)


def validity(answer: Explanation, task: Task) -> float:
    """Rows whose counterfactual has the target class by the task's own model, of rows to explain."""
    answer = answer.under(task)
    return share(rows_with(answer, answer.checks.valid), NO_ROWS)


def validity_soft(answer: Explanation, task: Task) -> float:
    """Rows whose raw output, before it was decoded to a legal row, had the target class, of rows to explain.

    It was measured when the raw output was made, so with the model that the answers were made for.
    """
    answer = answer.under(task)
    if answer.soft_valid is None:
        return absent("the method has no raw outputs, only legal rows")
    return share(rows_with(answer, answer.soft_valid), NO_ROWS)


def feasibility(answer: Explanation, task: Task) -> float:
    """Valid counterfactuals that satisfy every rule of the task, of the valid ones."""
    answer = answer.under(task)
    chosen = first(answer)
    valid = chosen[answer.checks.valid[chosen]]
    return share(answer.checks.feasible[valid], "no answer is valid")


def success(answer: Explanation, task: Task) -> float:
    """Rows whose counterfactual is valid, feasible, inside the domain and keeps the immutables, of rows to explain."""
    answer = answer.under(task)
    return share(rows_with(answer, answer.checks.passed), NO_ROWS)


def success_possible(answer: Explanation, task: Task) -> float:
    """The same, of the rows to explain that are not proved to be impossible."""
    answer = answer.under(task)
    possible = answer.row_status[answer.asked] != Status.IMPOSSIBLE
    why = "every row to explain is proved impossible" if answer.asked.any() else NO_ROWS
    return share(rows_with(answer, answer.checks.passed)[possible], why)


def rows_per_second(answer: Explanation, task: Task) -> float:
    """Rows to explain per second of wall time of `explain`."""
    effort, asked = answer.effort, int(answer.asked.sum())
    if not effort.seconds:
        return absent("the time was not measured")
    if not asked:
        return absent(NO_ROWS)
    threads = "1 thread" if effort.threads == 1 else f"{effort.threads} threads"
    return Figure(asked / effort.seconds, notes=[f"speed: measured with {threads}"])


def calls_per_row(answer: Explanation, task: Task) -> float:
    """Queries of the user's model in `explain`, per row to explain."""
    asked = int(answer.asked.sum())
    if answer.effort == Effort():
        return absent("the calls were not counted")
    return Figure(answer.effort.calls / asked) if asked else absent(NO_ROWS)


def continuous_proximity(answer: Explanation, task: Task) -> float:
    """Minus the mean, over answers, of the sum over numbers of abs(change) / MAD of the training rows.

    A MAD of 0 falls back to the standard deviation, and a standard deviation of 0 to the step; notes name the features.
    An answer with a missing or infinite number has no distance and is left out.
    """
    answer = answer.under(task)
    if not task.schema.numbers:
        return absent("the table has no numbers")
    distance = answer.checks.continuous[first(answer)]
    measured = np.isfinite(distance)
    notes = list(unit_notes(task))
    if not measured.all():
        count = f"{(~measured).sum():,} of {len(measured):,} answers"
        notes.append(f"continuous_proximity: left out {count}, with a missing or infinite number")
    return mean(-distance[measured], NO_ANSWER if measured.all() else "no answer has a distance", notes)


def categorical_proximity(answer: Explanation, task: Task) -> float:
    """Minus the mean, over answers, of the number of categories changed."""
    answer = answer.under(task)
    if not task.schema.categories:
        return absent("the table has no categories")
    is_category = np.array([f.is_category for f in task.schema])
    return mean(-answer.checks.changed[first(answer)][:, is_category].sum(axis=1))


def sparsity(answer: Explanation, task: Task) -> float:
    """The mean, over answers, of the number of features changed: by more than half a step, or to another level."""
    answer = answer.under(task)
    return mean(answer.checks.changes[first(answer)])


def diversity(answer: Explanation, task: Task) -> float:
    """Distinct answers in percent of answers, over every rank and row to explain."""
    answer = answer.under(task)
    which = handed_out(answer)
    if not len(which):
        return absent(NO_ANSWER)
    groups = alike(natural_answers(answer, which))
    return Figure(100 * len(np.unique(groups)) / len(groups))


def diversity_pairs(answer: Explanation, task: Task) -> float:
    """The share of features in which two answers to one row differ, in percent.

    The mean over all pairs of a row's answers, then over the rows with at least two answers. Two values differ if they
    are more than half a step apart, or are different levels.
    """
    answer = answer.under(task)
    which = handed_out(answer)
    which = which[np.argsort(answer.place[which], kind="stable")]
    place, natural = answer.place[which], natural_answers(answer, which)
    total, pairs = np.zeros(len(answer)), np.zeros(len(answer))
    for apart in range(1, len(which)):
        one = np.flatnonzero(place[apart:] == place[:-apart])
        if not len(one):
            break
        other = one + apart
        differing = sum(f.changed(natural[f.name][one], natural[f.name][other]).astype(int) for f in task.schema)
        np.add.at(total, place[one], differing)
        np.add.at(pairs, place[one], 1)
    several = pairs > 0
    if not several.any():
        return absent("no row has two answers")
    return Figure(100 * float(np.mean(total[several] / pairs[several])) / len(task.schema))


def unit_notes(task: Task) -> Iterator[str]:
    """Notes on numbers that are not measured in units of their MAD, and the unit used instead."""
    for name, values in task.schema.natural(task.train, task.schema.numbers).items():
        if np.nanmedian(np.abs(values - np.nanmedian(values))) == 0:
            instead = "standard deviation" if np.nanstd(values) else "step"
            yield f"{name}: MAD is 0, {instead} used"
