"""Rows to explain as codes of the grid of legal values, the range that rules leave to each of their features, and the
predictions of the user's own model for candidates.

For methods that change tables rather than encoded columns. The code of a present value stands for exactly that value,
even if it lies off the grid. A range, as in DiCE's `permitted_range` and CEILS's bounds, describes one feature. From a
rule that links two counterfactual values, these methods get only what follows for each value alone: from "a higher
degree takes time, and age never falls without one" just that age never falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..classifier import differentiable
from ..hashing import distinct
from ..region.boxes import FAR, BatchBoxes, Box
from ..rules import holds
from ..rules.normal import grouped
from ..schema import Feature, Natural
from ..task import Task
from .base import RowsAsked

Codes = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PermittedRange:
    """The codes of one feature that rules leave to each row: from `low` to `high`, `n` each; for a category, `levels`.

    An empty range has `low` above `high`. `levels` is a mask, `n x levels`.
    """

    low: Codes
    high: Codes
    levels: Bools | None = None


def ranges(task: Task, natural: Natural) -> dict[str, PermittedRange]:
    """The smallest range of each feature that contains all rows that satisfy the rules, for rows as natural columns."""
    boxes = BatchBoxes(task.schema, natural)
    found: dict[str, PermittedRange] = {}
    for group in grouped(task.rules, task.frozen):
        ways = [boxes.of(way) for way in group.ways]
        found |= {name: _hull(task.schema[name], ways) for name in group.names}
    return found


def _hull(feature: Feature, ways: Sequence[Box]) -> PermittedRange:
    """The values of a feature in at least one of the boxes that satisfy the rules."""
    name = feature.name
    if feature.is_category:
        levels = np.any([way.levels[name] & way.open[:, None] for way in ways], axis=0)
        last = np.full(len(levels), levels.shape[1] - 1, dtype=np.int64)
        return PermittedRange(np.zeros_like(last), last, levels)
    low = np.min([np.where(way.open, way.intervals[name].low, FAR) for way in ways], axis=0)
    high = np.max([np.where(way.open, way.intervals[name].high, -FAR) for way in ways], axis=0)
    return PermittedRange(low, high)


def keeps(task: Task, before: Natural, after: Natural) -> Bools:
    """Whether the rows `after` satisfy every rule of a task, given the rows `before`."""
    return holds(task.rules, before, after) if task.rules else np.ones(len(after[task.schema.names[0]]), dtype=bool)


class CodeGrid:
    """The rows to explain as codes `now`, `n x features`. Candidates are lines of codes; `row` is the row of each.

    With `every_rule`, candidates that break a rule of the task are rejected. `calls` counts the queries.
    """

    def __init__(self, question: RowsAsked, *, every_rule: bool = False) -> None:
        self.question, self.present, self.every_rule, self.calls = question, question.natural, every_rule, 0
        features = tuple(question.task.schema)
        self.now: Codes = np.stack([f.codes(self.present[f.name]) for f in features], axis=1)
        on_grid = np.all([f.on_grid(self.present[f.name]) for f in features], axis=0)
        # The row's own number if a present value is off-grid, so that it shares no query with other rows.
        self.own: Codes = np.where(on_grid, -1, np.arange(len(self.now)))

    def __len__(self) -> int:
        return len(self.now)

    @property
    def names(self) -> tuple[str, ...]:
        """The features' names."""
        return self.question.task.schema.names

    def is_category(self, i: int) -> bool:
        """Whether a feature is a category."""
        return self.question.task.schema.features[i].is_category

    @cached_property
    def permitted(self) -> dict[str, PermittedRange]:
        """The ranges that the task's rules leave to single features of the rows to explain."""
        return ranges(self.question.task, self.present)

    def first(self, row: Codes, codes: Codes) -> Codes:
        """Indices of the distinct candidates of each row; of equal ones, the first."""
        return distinct(np.column_stack([row, codes]))[0]

    def natural(self, row: Codes, codes: Codes) -> dict[str, NDArray[Any]]:
        """Natural columns of candidates; the code of the present value stands for exactly that value."""
        found = self.question.task.encoder.natural_of_codes(codes)
        off = self.own[row] >= 0
        for i, name in enumerate(self.names):
            stays = off & (codes[:, i] == self.now[row, i])
            found[name] = np.where(stays, self.present[name][row], found[name])
        return found

    def flips(self, row: Codes, codes: Codes) -> Bools:
        """Whether the user's own model gives candidates the target class; each distinct one is queried once."""
        first, inverse = distinct(np.column_stack([self.own[row], codes]))
        task = self.question.task
        natural = self.natural(row[first], codes[first])
        # A column of integers cannot hold a fractional present value.
        decided = task.classifier.decide(task.table(natural)).take(inverse)
        self.calls += len(first)
        wanted = task.outcomes(self.question.wanted[self.question.place[row]])
        met = wanted.met(decided.probabilities, decided.choice)
        if not self.every_rule:
            return met
        before = {name: values[row] for name, values in self.present.items()}
        return met & keeps(task, before, self.natural(row, codes))


class Judge:
    """Decide which candidates have the target class.

    A network on encoded columns is queried directly. Any other model is queried on decoded tables, once for each
    distinct row. `calls` counts the rows queried.
    """

    def __init__(self, question: RowsAsked) -> None:
        task = question.task
        own = differentiable(task.classifier, task) if task.classifier.module is not None else None
        self.module = None if own is None or own.distilled else own.module
        self.question, self.grid, self._asked = question, CodeGrid(question), 0

    @property
    def calls(self) -> int:
        """The number of candidates queried."""
        return self._asked + self.grid.calls

    @torch.no_grad()
    def valid(self, x_cf: Tensor, row: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each legal candidate, `m x d`, has the target class; `row` is the row of each."""
        if self.module is None:
            natural = self.question.task.encoder.decode_natural(x_cf)
            codes = np.stack([f.codes(natural[f.name]) for f in self.question.task.schema], axis=1)
            return self.grid.flips(row, codes) if len(row) else np.zeros(0, dtype=bool)
        self._asked += len(row)
        y = self.module(x_cf.to(self.question.x.dtype)).argmax(dim=1)
        return np.asarray((y == self.question.y_target[row]).numpy())
