"""Code that all methods share: which rows need an answer, and how raw outputs become a checked `Explanation`.

A method works on encoded columns or on tables, as its paper does. Its outputs are decoded to legal values, features
that may not change are restored, and every answer is checked with the user's own model before it gets a status.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Annotated, Any, Literal, Protocol, Self, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor

from ..classifier import Differentiable
from ..errors import DataError, Fault, NotFittedError, between, one_of, whole
from ..explanation import Effort, Explanation, Status, WhyNot
from ..generator import view
from ..generator.settings import Layout
from ..schema import Natural
from ..task import Task

# Types of settings, with the check of their values: settings are declared by them, and by `bool` and `Literal`.
Count = Annotated[int, partial(whole, low=1)]
BatchSize = Annotated[int, partial(whole, low=2)]
Weight = Annotated[float, partial(between, low=0)]
Positive = Annotated[float, partial(between, low=0, open_low=True)]
Share = Annotated[float, partial(between, low=0, high=1)]
UNCHANGED = "the method returned the row unchanged, which is not an answer"


class Method(Protocol):
    """Interface of a method: it learns from a task and explains rows. Parameters work as in scikit-learn.

    Examples
    --------
    >>> from fcxplain import METHODS
    >>> method = METHODS["face"](seed=0)
    >>> method.get_params()["seed"]
    0
    >>> method.fit(task).explain(rows, k=3).counts  # doctest: +SKIP
    """

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
        """Find counterfactuals for each row that does not have the target class.

        Parameters
        ----------
        rows : DataFrame
            The rows to explain.
        k : int, default=1
            The most counterfactuals per row.

        Returns
        -------
        Explanation
        """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of nested objects.

        Returns
        -------
        dict
        """

    def set_params(self, **params: Any) -> Any:
        """Set parameters.

        Parameters
        ----------
        **params
            New values by name.

        Returns
        -------
        Method
            Itself.
        """


@dataclass(kw_only=True, eq=False, repr=False)
class BaseMethod(BaseEstimator):  # type: ignore[misc]
    """Base of all methods: their settings as fields, which `fit` checks, and the rows to explain."""

    seed: Annotated[int, partial(whole, low=0)] = 0
    reads_rules = False
    """Whether the answers depend on the task's rules beyond the features that these freeze."""
    _learnt = "task_"
    """An attribute that only a finished `fit` sets."""

    def _check(self, *more: Fault) -> None:
        """Raise all faults of the settings at once."""
        if faults := [*setting_faults(self), *more]:
            raise DataError(f"these settings of {type(self).__name__} cannot be used", faults)

    def _asked(self, rows: pd.DataFrame, k: int) -> RowsAsked:
        """Check `k` and read the rows that need an answer."""
        self._check_state(self._learnt)
        self._check(*whole("k", k, 1))
        return asked(self.task_, rows)

    def _check_state(self, name: str) -> None:
        if not hasattr(self, name):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(task) first")


def setting_faults(settings: Any) -> Iterator[Fault]:
    """Faults of a dataclass's values by the types of its fields."""
    kinds = get_type_hints(type(settings), include_extras=True)
    for name, value in ((one.name, getattr(settings, one.name)) for one in fields(settings)):
        kind = kinds[name]
        if kind is bool or get_origin(kind) is Literal:
            yield from one_of(name, value, get_args(kind) or (False, True))
        elif get_origin(kind) is Annotated:
            yield from (fault for check in kind.__metadata__ for fault in check(name, value))


def width_faults(name: str, widths: object) -> list[Fault]:
    """Widths of layers that cannot be."""
    each = widths if isinstance(widths, tuple | list) and widths else (widths,)
    return [fault for width in each for fault in whole(name, width, 1)]


Widths = Annotated[tuple[int, ...], width_faults]


@dataclass(frozen=True, eq=False)
class RowsAsked:
    """The `n` rows of a table that need an answer, at the positions `place` of the table."""

    task: Task
    table: pd.DataFrame
    """All rows, features only."""
    wanted: NDArray[Any]
    """The target class of each of them."""
    place: NDArray[np.int64]
    x: Tensor
    """The rows that need an answer, encoded, `n x d`."""
    y: Tensor
    """The index of the class that each of them has, `n`."""
    y_target: Tensor
    """The index of the target class of each of them, `n`."""
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
    """Raw outputs of a method, before anything is checked.

    `x_cf`, `m x d`, are encoded rows. `row`, `m`, is the index of the row to explain that each belongs to; the best of
    each row comes first. `reasons` maps the index of a row without an output to the reason. `raw` is the output before
    decoding, which the paper's metrics use, where it differs from `x_cf`.
    """

    x_cf: Tensor
    row: NDArray[np.int64]
    reasons: Mapping[int, str] = field(default_factory=dict)
    raw: Tensor | None = None
    calls: int = 0
    notes: Sequence[str] = ()


def one_for_each(question: RowsAsked, x_cf: Tensor, raw: Tensor, cost: Tensor, reason: str, note: str) -> Outputs:
    """Outputs with one answer per row, `n x d`, and a reason where its cost is infinite."""
    there = cost.isfinite().numpy()
    reasons = dict.fromkeys(np.flatnonzero(~there).tolist(), reason)
    row, notes = np.flatnonzero(there), (note,) if note else ()
    return Outputs(x_cf[there].to(question.x.dtype), row, reasons, raw[there], notes=notes)


def in_parts(rows: int, size: int) -> list[slice]:
    """Consecutive parts of some rows; without rows, one empty part."""
    return [slice(start, start + size) for start in range(0, max(rows, 1), size)]


def asked(task: Task, rows: pd.DataFrame) -> RowsAsked:
    """Read rows, query the model, and select the rows that do not have their target class."""
    if not task.classes:
        raise DataError(f"{task.classifier.name} predicts numbers, but this method needs a model with classes")
    table, _ = task.read(rows)
    predicted, wanted, met = task.answered(table)
    place = np.flatnonzero(~met)
    x = task.encoder.encode(table.iloc[place])
    y, y_target = (view.class_indices(task, classes[place]) for classes in (predicted, wanted))
    return RowsAsked(task, table, wanted, place, x, y, y_target, view.layout(task))


def answered(
    question: RowsAsked, outputs: Outputs, method: str, surrogate: Differentiable | None = None
) -> Explanation:
    """Check the outputs and return the answers.

    Outputs that change nothing are dropped; rows without an answer get a reason. `surrogate` is the source of the
    gradients; a note says so if it is not the model itself.
    """
    task, row = question.task, np.asarray(outputs.row, dtype=np.int64)
    table = legal_table(question, outputs.x_cf, row)
    now, then = question.natural, task.schema.natural(table)
    moved = np.any([then[name] != now[name][row] for name in task.schema.names], axis=0)
    empty = {int(r): UNCHANGED for r in row[~moved]} | {int(r): reason for r, reason in outputs.reasons.items()}
    kept = np.flatnonzero(moved)
    kept = kept[np.argsort(row[kept], kind="stable")]
    answered_rows, labels = set(row[kept].tolist()), question.table.index[question.place]
    reasons = {
        int(question.place[r]): WhyNot(labels[r], str(Status.NOT_FOUND), (), None, words)
        for r, words in empty.items()
        if r not in answered_rows
    }
    status = np.full(len(question.table), Status.ALREADY, dtype=object)
    status[question.place] = Status.NOT_FOUND
    wall, cpu = question.begun
    return Explanation.of(
        task,
        question.table,
        table.iloc[kept],
        question.place[row[kept]],
        method=method,
        wanted=question.wanted,
        without=status,
        soft_valid=_soft_valid(question, outputs, surrogate, kept),
        raw=None if outputs.raw is None else outputs.raw.double().numpy()[kept],
        reasons=reasons,
        notes=(*outputs.notes, *_stand_in_notes(method, surrogate)),
        effort=Effort.since(wall, cpu, calls=len(question.table) + outputs.calls + len(kept)),
    )


def legal_table(question: RowsAsked, x_cf: Tensor, row: NDArray[np.int64]) -> pd.DataFrame:
    """Decode rows to a legal table in which features that may not change keep their present values."""
    task = question.task
    now = {name: values[row] for name, values in question.natural.items()}
    kept = {name: now[name] for name in task.frozen}
    natural = task.encoder.decode_natural(x_cf) | kept
    # Moving an off-grid present value to the nearest legal one would be an unintended change.
    for feature in task.schema:
        if feature.is_number:
            near = np.abs(natural[feature.name] - now[feature.name]) <= float(feature.step or 0) / 2
            natural[feature.name] = np.where(near, now[feature.name], natural[feature.name])
    return task.table(natural)


@torch.no_grad()
def _soft_valid(
    question: RowsAsked, outputs: Outputs, surrogate: Differentiable | None, kept: NDArray[np.int64]
) -> NDArray[np.bool_] | None:
    # A surrogate's prediction for raw outputs is not the model's, and the model cannot read them.
    if surrogate is None or surrogate.distilled or outputs.raw is None:
        return None
    answers = surrogate.module(outputs.raw.to(question.x.dtype)).argmax(dim=1) == question.y_target[outputs.row]
    return np.asarray(answers.numpy()[kept])


def _stand_in_notes(method: str, surrogate: Differentiable | None) -> tuple[str, ...]:
    """A note that the gradients come from a network that imitates the model, if they do."""
    if surrogate is None or not surrogate.distilled:
        return ()
    agrees = f"which agrees with it on {surrogate.agreement:.1%} of {surrogate.rows:,} held-out rows"
    return (
        f"{method}: the model has no gradients; they come from a network that imitates it, {agrees}. "
        "Every answer is judged by the model itself.",
    )
