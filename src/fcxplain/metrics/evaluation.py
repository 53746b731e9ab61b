"""`evaluate`: every metric of one set of answers, with the reasons of what is absent and the notes to read.

Here also: how many rows got what they asked for, and what it took. Shares are in percent and of rows asked. A row that
has the class wanted already is not asked. A row counts by its answer of rank 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..errors import DataError, also, unknown
from ..explanation import Effort, Explanation, Status
from ..task import Task
from ..text import counted
from . import density, distance, optimum
from .figure import Bools, Figure, Metric, absent, first, handed_out, rows_with

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


def feasibility_soft(answer: Explanation, task: Task) -> float:
    """Of the counterfactuals whose raw output was valid, those that keep every rule once decoded.

    An answer with a value outside the domain keeps none.
    """
    answer = answer.under(task)
    if answer.soft_valid is None:
        return absent(NO_RAW_OUTPUT)
    chosen = first(answer)
    valid = chosen[answer.soft_valid[chosen]]
    kept = answer.checks.feasible & answer.checks.in_domain
    return _share(kept[valid], "no raw output is valid")


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


METRICS: dict[str, Metric] = {
    "validity": validity,
    "validity_soft": validity_soft,
    "feasibility": feasibility,
    "success": success,
    "success_possible": success_possible,
    "continuous_proximity": distance.continuous_proximity,
    "categorical_proximity": distance.categorical_proximity,
    "sparsity": distance.sparsity,
    "lof": density.lof,
    "outliers": density.outliers,
    "lof_raw": density.lof_raw,
    "lof_to_data": density.lof_to_data,
    "outliers_to_data": density.outliers_to_data,
    "supported": density.supported,
    "diversity": distance.diversity,
    "diversity_pairs": distance.diversity_pairs,
    "optimality_gap": optimum.optimality_gap,
    "rows_per_second": rows_per_second,
    "calls_per_row": calls_per_row,
}
# What a convention measures differently under the same name.
CONVENTIONS: dict[str, dict[str, Metric]] = {
    "ours": {},
    "authors": {"validity": validity_soft, "feasibility": feasibility_soft},
}


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What was measured: a value for each metric, NaN where it is absent, and then `reasons` says why.

    Attributes
    ----------
    method, convention : str
        Who answered, and how it was measured.
    rules : tuple of str
        Those that the answers were judged by.
    values : dict
        The figures, by metric.
    reasons : dict
        Why the absent ones are absent.
    notes : tuple of str
        What a reader of the figures must know.
    asked, answers : int
        The rows that needed an answer, and the answers that these were given, of every rank.
    """

    method: str
    convention: str
    rules: tuple[str, ...]
    values: dict[str, float]
    reasons: dict[str, str]
    notes: tuple[str, ...]
    asked: int
    answers: int

    @property
    def frame(self) -> pd.DataFrame:
        """A line for each metric: its value, or why it is absent."""
        absent = [self.reasons.get(name, "") for name in self.values]
        return pd.DataFrame(
            {"value": self.values.values(), "absent": absent}, index=pd.Index(self.values, name="metric")
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON can hold.

        Returns
        -------
        dict
        """
        return {
            "method": self.method,
            "convention": self.convention,
            "rules": list(self.rules),
            "asked": self.asked,
            "answers": self.answers,
            "values": {name: None if math.isnan(value) else value for name, value in self.values.items()},
            "absent": dict(self.reasons),
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        width = max(map(len, self.values), default=0)
        said = "" if self.convention == "ours" else f" (convention: {self.convention})"
        head = f"{self.method}: {counted(self.asked, 'row')} asked, {counted(self.answers, 'answer')}{said}"
        figures = {name: f"{value:12,.2f}" for name, value in self.values.items()}
        figures |= {name: f"absent: {reason}" for name, reason in self.reasons.items()}
        lines = [f"  {name:<{width}}  {words}" for name, words in figures.items()]
        return "\n".join([head, *lines, *(f"  note: {note}" for note in self.notes)])


def evaluate(
    answer: Explanation, task: Task | None = None, metrics: str | Iterable[str] | None = None, convention: str = "ours"
) -> Evaluation:
    """Measure answers under a task: their own, or one with other rules or another model.

    Parameters
    ----------
    answer : Explanation
        The answers.
    task : Task, optional
        By default their own.
    metrics : str or iterable of str, optional
        Names from `METRICS`, all of them by default.
    convention : {"ours", "authors"}, default="ours"
        As the paper's reference code does it, validity and feasibility are measured on the raw outputs, before
        decoding, and among the outputs that are valid there. The columns that this code skips in its Census
        table are not known to us, so no column is skipped here.

    Returns
    -------
    Evaluation
        A value, or a reason why there is none, for each metric.

    Raises
    ------
    DataError
        If a name is not known; a `KeyError` too.

    Examples
    --------
    >>> evaluate(fcx.explain(rows), metrics=["validity", "sparsity"])  # doctest: +SKIP
    """
    names = checked(metrics, convention)
    task = answer.task if task is None else task
    again = answer.under(task)
    measures = METRICS | CONVENTIONS[convention]
    figures = {name: _figure(measures[name](again, task)) for name in names}
    notes = [*_general_notes(answer, task, convention), *(note for f in figures.values() for note in f.notes)]
    return Evaluation(
        method=answer.method,
        convention=convention,
        rules=tuple(rule.text for rule in task.rules),
        values={name: float(figure) for name, figure in figures.items()},
        reasons={name: figure.reason for name, figure in figures.items() if math.isnan(figure)},
        notes=tuple(dict.fromkeys(notes)),
        asked=int(again.asked.sum()),
        answers=len(handed_out(again)),
    )


def checked(metrics: str | Iterable[str] | None, convention: str) -> list[str]:
    """The names of the metrics; whatever is unknown is told at once."""
    given = METRICS if metrics is None else [metrics] if isinstance(metrics, str) else metrics
    names = list(dict.fromkeys(given))
    faults = unknown("metric", names, METRICS, 30) + unknown("convention", [convention], CONVENTIONS, 30)
    if faults:
        raise also(DataError, KeyError)("evaluate", faults)
    return names


def _figure(value: float) -> Figure:
    """What a metric gave, with a reason if it is NaN and gave none."""
    figure = value if isinstance(value, Figure) else Figure(value)
    if math.isnan(figure) and not figure.reason:
        return Figure(figure, reason="the metric gave no reason", notes=figure.notes)
    return figure


def _general_notes(answer: Explanation, task: Task, convention: str) -> list[str]:
    notes = []
    if convention == "authors":
        notes.append("convention authors: validity on raw outputs, feasibility among those valid there")
    if answer.soft_valid is not None and answer.task.classifier is not task.classifier:
        notes.append("validity_soft: by the model that the answers were made for, not by the task's")
    return notes
