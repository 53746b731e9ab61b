"""Rates of success, and the effort. Shares are in percent of the rows to explain.

Rows that already have the target class are not among these. A row counts by its answer of rank 1.
"""

from __future__ import annotations

from ..explanation import Effort, Explanation, Status
from ..task import Task
from .figure import Bools, Figure, absent, first, rows_with

NO_ROWS = "no row needed an answer"
NO_RAW_OUTPUT = "the method has no raw outputs, only legal rows"


def validity(answer: Explanation, task: Task) -> float:
    """Rows whose counterfactual has the target class by the task's own model, of rows to explain."""
    answer = answer.under(task)
    return _share(rows_with(answer, answer.checks.valid), NO_ROWS)


def validity_soft(answer: Explanation, task: Task) -> float:
    """Rows whose raw output, before it was decoded to a legal row, had the target class, of rows to explain.

    It was measured when the raw output was made, so with the model that the answers were made for.
    """
    answer = answer.under(task)
    if answer.soft_valid is None:
        return absent(NO_RAW_OUTPUT)
    return _share(rows_with(answer, answer.soft_valid), NO_ROWS)


def feasibility(answer: Explanation, task: Task) -> float:
    """Valid counterfactuals that satisfy every rule of the task, of the valid ones."""
    answer = answer.under(task)
    chosen = first(answer)
    valid = chosen[answer.checks.valid[chosen]]
    return _share(answer.checks.feasible[valid], "no answer is valid")


def success(answer: Explanation, task: Task) -> float:
    """Rows whose counterfactual is valid, feasible, inside the domain and keeps the immutables, of rows to explain."""
    answer = answer.under(task)
    return _share(rows_with(answer, answer.checks.passed), NO_ROWS)


def success_possible(answer: Explanation, task: Task) -> float:
    """The same, of the rows to explain that are not proved to be impossible."""
    answer = answer.under(task)
    possible = answer.row_status[answer.asked] != Status.IMPOSSIBLE
    why = "every row to explain is proved impossible" if answer.asked.any() else NO_ROWS
    return _share(rows_with(answer, answer.checks.passed)[possible], why)


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


def _share(good: Bools, why_absent: str) -> Figure:
    return Figure(100 * float(good.mean())) if len(good) else absent(why_absent)
