"""How many rows got what they asked for, and what it took. Shares are in percent and of rows asked.

A row that has the class wanted already is not asked. A row counts by its answer of rank 1.
"""

from __future__ import annotations

from ..explanation import Effort, Explanation, Status
from ..task import Task
from .figure import Bools, Figure, absent, first, rows_with

NOBODY_ASKED = "no row was asked"
NO_RAW_OUTPUT = "the method has no raw outputs, only legal rows"


def validity(answer: Explanation, task: Task) -> float:
    """Rows whose counterfactual has the class wanted by the task's own model, of rows asked."""
    answer = answer.under(task)
    return _share(rows_with(answer, answer.checks.valid), NOBODY_ASKED)


def validity_soft(answer: Explanation, task: Task) -> float:
    """Rows whose raw output, before it was decoded to a legal row, had the class wanted, of rows asked.

    It was measured where the raw output was made, so with the model that the answers were made for.
    """
    answer = answer.under(task)
    if answer.soft_valid is None:
        return absent(NO_RAW_OUTPUT)
    return _share(rows_with(answer, answer.soft_valid), NOBODY_ASKED)


def feasibility(answer: Explanation, task: Task) -> float:
    """Of the valid counterfactuals, those that keep every rule of the task."""
    answer = answer.under(task)
    chosen = first(answer)
    valid = chosen[answer.checks.valid[chosen]]
    return _share(answer.checks.feasible[valid], "no answer is valid")


def success(answer: Explanation, task: Task) -> float:
    """Rows whose counterfactual is valid, feasible, in the domain and keeps the immutables, of rows asked."""
    answer = answer.under(task)
    return _share(rows_with(answer, answer.checks.passed), NOBODY_ASKED)


def success_possible(answer: Explanation, task: Task) -> float:
    """The same, of the rows asked for which nobody has proved that there is no counterfactual."""
    answer = answer.under(task)
    possible = answer.row_status[answer.asked] != Status.IMPOSSIBLE
    why = "every row asked is proved impossible" if answer.asked.any() else NOBODY_ASKED
    return _share(rows_with(answer, answer.checks.passed)[possible], why)


def rows_per_second(answer: Explanation, task: Task) -> float:
    """Rows asked for each second of wall time that `explain` took."""
    effort, asked = answer.effort, int(answer.asked.sum())
    if not effort.seconds:
        return absent("the time was not measured")
    if not asked:
        return absent(NOBODY_ASKED)
    threads = "1 thread" if effort.threads == 1 else f"{effort.threads} threads"
    return Figure(asked / effort.seconds, notes=[f"speed: measured with {threads}"])


def calls_per_row(answer: Explanation, task: Task) -> float:
    """Rows that the user's model was asked about in `explain`, for each row asked."""
    asked = int(answer.asked.sum())
    if answer.effort == Effort():
        return absent("the calls were not counted")
    return Figure(answer.effort.calls / asked) if asked else absent(NOBODY_ASKED)


def _share(good: Bools, why_absent: str) -> Figure:
    return Figure(100 * float(good.mean())) if len(good) else absent(why_absent)
