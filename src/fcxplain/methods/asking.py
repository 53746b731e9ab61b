"""The answer of the user's own model to encoded candidates, for methods that need no gradients."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..classifier import differentiable
from .base import Asked
from .grid import Grid


class Judge:
    """Says which candidates for the rows of a question have the class wanted.

    A network on encoded columns is asked directly. Any other model is asked about decoded tables, each distinct row
    once. `calls` counts what the model was asked about.
    """

    def __init__(self, question: Asked) -> None:
        task = question.task
        own = differentiable(task.classifier, task) if task.classifier.module is not None else None
        self.module = None if own is None or own.distilled else own.module
        self.question, self.grid, self._asked = question, Grid.of(question), 0

    @property
    def calls(self) -> int:
        """How many candidates the model was asked about."""
        return self._asked + self.grid.calls

    @torch.no_grad()
    def valid(self, x_cf: Tensor, row: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of the legal candidates, `m x d`, has the class wanted; `row` says which row it is for."""
        if self.module is None:
            natural = self.question.task.encoder.decode_natural(x_cf)
            codes = np.stack([f.codes(natural[f.name]) for f in self.question.task.schema], axis=1)
            return self.grid.flips(row, codes) if len(row) else np.zeros(0, dtype=bool)
        self._asked += len(row)
        y = self.module(x_cf.to(self.question.x.dtype)).argmax(dim=1)
        return np.asarray((y == self.question.y_target[row]).numpy())
