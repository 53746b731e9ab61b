"""Rows to explain as codes of the grid of legal values, and the predictions of the user's own model for candidates.

For methods that change tables rather than encoded columns. The code of a present value stands for exactly that value,
even if it lies off the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..classifier import differentiable
from ..hashing import distinct
from ..schema import Natural
from .base import RowsAsked
from .permitted import PermittedRange, keeps, ranges

Codes = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(eq=False)
class CodeGrid:
    """The codes of the rows to explain, `n x features`. Candidates are lines of codes; `row` is the row of each."""

    question: RowsAsked
    present: Natural
    now: Codes
    own: Codes
    """The row's own number if a present value is off-grid, so that it shares no query with other rows; else -1."""
    every_rule: bool = False
    """Whether candidates that break a rule of the task are rejected."""
    calls: int = 0

    @classmethod
    def of(cls, question: RowsAsked, *, every_rule: bool = False) -> CodeGrid:
        """The grid of some rows to explain."""
        present, features = question.natural, tuple(question.task.schema)
        now = np.stack([f.codes(present[f.name]) for f in features], axis=1)
        on_grid = np.all([f.on_grid(present[f.name]) for f in features], axis=0)
        return cls(question, present, now, np.where(on_grid, -1, np.arange(len(now))), every_rule)

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
        return met & self._kept(row, codes) if self.every_rule else met

    def _kept(self, row: Codes, codes: Codes) -> Bools:
        before = {name: values[row] for name, values in self.present.items()}
        return keeps(self.question.task, before, self.natural(row, codes))


class Judge:
    """Decide which candidates have the target class.

    A network on encoded columns is queried directly. Any other model is queried on decoded tables, once for each
    distinct row. `calls` counts the rows queried.
    """

    def __init__(self, question: RowsAsked) -> None:
        task = question.task
        own = differentiable(task.classifier, task) if task.classifier.module is not None else None
        self.module = None if own is None or own.distilled else own.module
        self.question, self.grid, self._asked = question, CodeGrid.of(question), 0

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
