"""What every method shares: who needs an answer, and how what it came to becomes a checked `Explanation`.

A method works on encoded columns or on tables, as its paper does. Whatever it hands in is decoded to legal values,
what may not change is put back, and every answer is checked with the user's own model before it is called anything.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor

from ..classifier import Differentiable
from ..errors import DataError, Fault, NotFittedError, whole
from ..explanation import Effort, Explanation, Status, WhyNot
from ..generator import view
from ..generator.layout import Layout
from ..schema import Natural
from ..task import Task

UNCHANGED = "it came back to the row as it is, which is no answer"


class Method(Protocol):
    """Anything that learns from a task and explains rows. Parameters are read and set as in scikit-learn."""

    def fit(self, task: Task) -> Self:
        """Learn from the task.

        Parameters
        ----------
        task : Task
            The table, the model, the rules and the target.

        Returns
        -------
        Method
            Itself.
        """

    def explain(self, rows: pd.DataFrame, k: int = 1) -> Explanation:
        """Answers for each row that does not have the class wanted.

        Parameters
        ----------
        rows : DataFrame
            The rows.
        k : int, default=1
            At most so many a row.

        Returns
        -------
        Explanation
        """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters.

        Parameters
        ----------
        deep : bool, default=True
            Also those of parts.

        Returns
        -------
        dict
        """

    def set_params(self, **params: Any) -> Any:
        """Change parameters.

        Parameters
        ----------
        **params
            By name.

        Returns
        -------
        Method
            Itself.
        """


class BaseMethod(BaseEstimator):  # type: ignore[misc]
    """What methods have in common: how settings are refused, and how rows are read."""

    reads_rules = False
    """Whether the answers depend on more of the task's rules than what these freeze."""
    _learnt = "task_"
    """What only a finished `fit` has set."""

    def _refuse(self, *faults: list[Fault]) -> None:
        """Raise all faults of the settings together, with those of `seed`, which all methods have."""
        found = [fault for some in (*faults, whole("seed", self.seed, 0)) for fault in some]
        if found:
            raise DataError(f"these settings of {type(self).__name__} cannot be used", found)

    def _check_asked(self, k: int = 1, state: str = "") -> None:
        if not hasattr(self, state or self._learnt):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(task) first")
        self._refuse(whole("k", k, 1))

    def _asked(self, rows: pd.DataFrame, k: int) -> RowsAsked:
        """The rows that need an answer, at most `k` each."""
        self._check_asked(k)
        return asked(self.task_, rows)


@dataclass(frozen=True, eq=False)
class RowsAsked:
    """The rows of a table that need an answer: `n` of them, at the positions `place` of the table."""

    task: Task
    table: pd.DataFrame
    """All rows, features only."""
    wanted: NDArray[Any]
    """The class wanted for each of them."""
    place: NDArray[np.int64]
    x: Tensor
    """The rows that need an answer, encoded, `n x d`."""
    y: Tensor
    """The place of the class that each of them has, `n`."""
    y_target: Tensor
    """The place of the class wanted for each of them, `n`."""
    layout: Layout
    begun: tuple[float, float] = field(default_factory=lambda: (time.perf_counter(), time.process_time()))

    def __len__(self) -> int:
        return len(self.place)

    @property
    def rows(self) -> pd.DataFrame:
        """The rows that need an answer, as a table."""
        return self.table.iloc[self.place]

    @property
    def natural(self) -> Natural:
        """The rows that need an answer, as natural columns."""
        return self.task.schema.natural(self.rows)


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a method came to, before anything is checked.

    `x_cf`, `m x d`, are encoded rows, and `row`, `m`, says for which of the rows asked each is, the best of each row
    first. `reasons` says for rows asked, by their place among these, why there is nothing. `raw` is the output that
    the paper's way of counting looks at before decoding, where that is another.
    """

    x_cf: Tensor
    row: NDArray[np.int64]
    reasons: Mapping[int, str] = field(default_factory=dict)
    raw: Tensor | None = None
    calls: int = 0
    notes: Sequence[str] = ()


def one_for_each(question: RowsAsked, x_cf: Tensor, raw: Tensor, cost: Tensor, reason: str, note: str) -> Outputs:
    """One answer for each of the rows asked, `n x d`, and a reason where its cost is infinite."""
    there = cost.isfinite().numpy()
    reasons = dict.fromkeys(np.flatnonzero(~there).tolist(), reason)
    row, notes = np.flatnonzero(there), (note,) if note else ()
    return Outputs(x_cf[there].to(question.x.dtype), row, reasons, raw[there], notes=notes)


def asked(task: Task, rows: pd.DataFrame) -> RowsAsked:
    """Read rows, ask the model about them, and take those that have another class than the one wanted."""
    if not task.classes:
        raise DataError(f"{task.classifier.name} answers numbers, and this is for models with classes")
    table, _ = task.read(rows)
    predicted, wanted, met = task.answered(table)
    place = np.flatnonzero(~met)
    x = task.encoder.encode(table.iloc[place])
    y, y_target = (view.class_indices(task, classes[place]) for classes in (predicted, wanted))
    return RowsAsked(task, table, wanted, place, x, y, y_target, view.layout(task))


def answered(
    question: RowsAsked, outputs: Outputs, method: str, surrogate: Differentiable | None = None
) -> Explanation:
    """The checked answers. One that changes nothing is none; rows without an answer say why.

    `surrogate` is where the gradients came from; the answers say so where that is not the model itself.
    """
    task, row = question.task, np.asarray(outputs.row, dtype=np.int64)
    table = legal_table(question, outputs.x_cf, row)
    moved = _moved(task, question, table, row)
    empty = {int(r): UNCHANGED for r in row[~moved]} | {int(r): reason for r, reason in outputs.reasons.items()}
    kept = np.flatnonzero(moved)
    kept = kept[np.argsort(row[kept], kind="stable")]
    reasons = {r: words for r, words in empty.items() if r not in set(row[kept].tolist())}
    status = np.full(len(question.table), Status.ALREADY, dtype=object)
    status[question.place] = Status.NOT_FOUND
    wall, cpu = question.begun
    calls = len(question.table) + outputs.calls + len(kept)
    return Explanation.of(
        task,
        question.table,
        table.iloc[kept],
        question.place[row[kept]],
        method=method,
        wanted=question.wanted,
        without=status,
        soft_valid=_soft_valid(question, outputs, surrogate, row, kept),
        raw=None if outputs.raw is None else outputs.raw.double().numpy()[kept],
        reasons=_why_not(question, reasons),
        notes=(*outputs.notes, *stand_in_notes(method, surrogate)),
        effort=Effort.since(wall, cpu, calls),
    )


def legal_table(question: RowsAsked, x_cf: Tensor, row: NDArray[np.int64]) -> pd.DataFrame:
    """Encoded rows as legal tables, with what may not change as it is now."""
    task = question.task
    now = {name: values[row] for name, values in question.natural.items()}
    kept = {name: now[name] for name in task.frozen}
    natural = task.encoder.decode_natural(x_cf) | kept
    # Where a number's present value lies off the grid, the nearest legal one would be a change that nobody asked for.
    for feature in task.schema:
        if feature.is_number:
            near = np.abs(natural[feature.name] - now[feature.name]) <= float(feature.step or 0) / 2
            natural[feature.name] = np.where(near, now[feature.name], natural[feature.name])
    return task.table(natural)


def _moved(task: Task, question: RowsAsked, table: pd.DataFrame, row: NDArray[np.int64]) -> NDArray[np.bool_]:
    now, then = question.natural, task.schema.natural(table)
    differs = [then[f.name] != now[f.name][row] for f in task.schema]
    return np.asarray(np.any(differs, axis=0)) if len(row) else np.zeros(0, dtype=bool)


@torch.no_grad()
def _soft_valid(
    question: RowsAsked,
    outputs: Outputs,
    surrogate: Differentiable | None,
    row: NDArray[np.int64],
    kept: NDArray[np.int64],
) -> NDArray[np.bool_] | None:
    # What a stand-in says of raw outputs is not what the model says, which cannot read them.
    if surrogate is None or surrogate.distilled or outputs.raw is None:
        return None
    answers = surrogate.module(outputs.raw.to(question.x.dtype)).argmax(dim=1) == question.y_target[row]
    return np.asarray(answers.numpy()[kept])


def _why_not(question: RowsAsked, reasons: Mapping[int, str]) -> dict[int, WhyNot]:
    labels, place = question.table.index, question.place
    return {
        int(place[r]): WhyNot(labels[place[r]], str(Status.NOT_FOUND), (), None, words) for r, words in reasons.items()
    }


def stand_in_notes(method: str, surrogate: Differentiable | None) -> tuple[str, ...]:
    """That the gradients are those of a network which imitates the model, where they are."""
    if surrogate is None or not surrogate.distilled:
        return ()
    agrees = f"which agrees with it on {surrogate.agreement:.1%} of {surrogate.rows:,} held-out rows"
    return (
        f"{method}: the model has no gradients; they come from a network that imitates it, {agrees}. "
        "Every answer is judged by the model itself.",
    )
