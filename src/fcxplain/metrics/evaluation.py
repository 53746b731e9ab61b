"""`evaluate`: every metric of one set of answers, with reasons for absent values and notes on the figures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..errors import DataError, also, unknown
from ..explanation import Explanation
from ..task import Task
from ..text import counted
from . import answers, authors, density, optimum
from .answers import Figure, Metric, handed_out

METRICS: dict[str, Metric] = {
    "validity": answers.validity,
    "validity_soft": answers.validity_soft,
    "feasibility": answers.feasibility,
    "success": answers.success,
    "success_possible": answers.success_possible,
    "continuous_proximity": answers.continuous_proximity,
    "categorical_proximity": answers.categorical_proximity,
    "sparsity": answers.sparsity,
    "lof": density.lof,
    "outliers": density.outliers,
    "lof_raw": density.lof_raw,
    "lof_to_data": density.lof_to_data,
    "outliers_to_data": density.outliers_to_data,
    "supported": density.supported,
    "diversity": answers.diversity,
    "diversity_pairs": answers.diversity_pairs,
    "optimality_gap": optimum.optimality_gap,
    "rows_per_second": answers.rows_per_second,
    "calls_per_row": answers.calls_per_row,
}
# Metrics that a convention measures differently under the same name.
CONVENTIONS: dict[str, dict[str, Metric]] = {
    "ours": {},
    "authors": {
        "validity": authors.validity,
        "feasibility": authors.feasibility,
        "continuous_proximity": authors.continuous_proximity,
        "categorical_proximity": authors.categorical_proximity,
        "sparsity": authors.sparsity,
        "lof": authors.lof,
        "outliers": authors.outliers,
    },
}


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Metrics of a set of answers: a value for each, or NaN and a reason why it is absent.

    Attributes
    ----------
    method, convention : str
        The method that gave the answers, and the convention of the metrics.
    rules : tuple of str
        The rules that the answers were evaluated under.
    values : dict
        The figures, by metric.
    reasons : dict
        Why figures are absent, by metric.
    notes : tuple of str
        Notes that a reader of the figures must know.
    asked, answers : int
        The number of rows that needed an answer, and of answers of every rank given to them.

    Examples
    --------
    >>> from fcxplain import evaluate
    >>> result = evaluate(fcx.explain(rows), metrics=["validity", "sparsity"])  # doctest: +SKIP
    >>> result.values["sparsity"]  # doctest: +SKIP
    >>> result.frame  # doctest: +SKIP
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
        """A table with one line per metric: its value, or the reason why it is absent."""
        absent = [self.reasons.get(name, "") for name in self.values]
        metrics = pd.Index(self.values, name="metric")
        return pd.DataFrame({"value": self.values.values(), "absent": absent}, index=metrics)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that can be written as JSON.

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
    """Evaluate answers under their own task, or under one with other rules or another model.

    Parameters
    ----------
    answer : Explanation
        The answers.
    task : Task, optional
        The task to evaluate them under; by default their own.
    metrics : str or iterable of str, optional
        Names from `METRICS`, all of them by default.
    convention : {"ours", "authors"}, default="ours"
        With "authors", the paper's metrics (validity, feasibility, both proximities, sparsity, LOF and outliers) are
        measured as in its reference code: on the raw outputs, before anything is rounded or decoded.

    Returns
    -------
    Evaluation
        A value, or a reason why it is absent, for each metric.

    Raises
    ------
    DataError
        If a name is unknown. The error is also a `KeyError`.

    Examples
    --------
    >>> evaluate(fcx.explain(rows), metrics=["validity", "sparsity"])  # doctest: +SKIP
    """
    names = checked(metrics, convention)
    task = answer.task if task is None else task
    again = answer.under(task)
    measures = METRICS | CONVENTIONS[convention]
    figures = {name: _figure(measures[name](again, task)) for name in names}
    notes = [note for figure in figures.values() for note in figure.notes]
    if answer.soft_valid is not None and answer.task.classifier is not task.classifier:
        notes.insert(0, "validity_soft: measured with the model that the answers were made for, not with the task's")
    if convention == "authors":
        notes.insert(0, "convention authors: the paper's metrics on raw outputs, feasibility among those valid there")
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
    """The names of the metrics; all unknown ones are reported at once."""
    given = METRICS if metrics is None else [metrics] if isinstance(metrics, str) else metrics
    names = list(dict.fromkeys(given))
    faults = unknown("metric", names, METRICS, 30) + unknown("convention", [convention], CONVENTIONS, 30)
    if faults:
        raise also(DataError, KeyError)("evaluate", faults)
    return names


def _figure(value: float) -> Figure:
    """A metric's figure, with a reason if it is NaN and has none."""
    figure = value if isinstance(value, Figure) else Figure(value)
    if math.isnan(figure) and not figure.reason:
        return Figure(figure, reason="the metric gave no reason", notes=figure.notes)
    return figure
