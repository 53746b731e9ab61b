"""Encoded columns as the methods use them: mutable columns, legal values, soft rows, the best distinct candidates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..generator import view
from ..generator.settings import Layout
from ..task import Task


class ColumnLayout:
    """The encoded columns of a task.

    `mutable`, `d`, marks the columns of features that may change; `groups` are the column ranges of categories.
    """

    def __init__(self, task: Task) -> None:
        self.layout = view.layout(task)
        self.mutable = torch.zeros(self.layout.width, dtype=torch.bool)
        self.mutable[self.layout.mutable_columns] = True
        ranges = self.layout.ranges
        self.groups = [span for span, number in zip(self.layout.spans, ranges, strict=True) if number is None]
        numbers = [(span[0], number) for span, number in zip(self.layout.spans, ranges, strict=True) if number]
        self.numbers = torch.tensor([column for column, _ in numbers], dtype=torch.long)
        self.low, self.high, self.step = (
            torch.tensor([getattr(number, end) for _, number in numbers], dtype=torch.float64)
            for end in ("low", "high", "step")
        )

    def restored(self, x_cf: Tensor, x: Tensor) -> Tensor:
        """Counterfactuals with the immutable columns of `x`."""
        return torch.where(self.mutable, x_cf, x)

    def snapped(self, x: Tensor) -> Tensor:
        """The nearest legal rows: one level per category, numbers on their grid and inside the training range."""
        legal = torch.zeros_like(x)
        for start, stop in self.groups:
            legal.scatter_(1, x[:, start:stop].argmax(dim=1, keepdim=True) + start, 1.0)
        if len(self.numbers):
            low, high, step = (t.to(x.dtype) for t in (self.low, self.high, self.step))
            values = low + ((x[:, self.numbers] - low) / step).round() * step
            legal[:, self.numbers] = values.clamp(min=low, max=high)
        return legal

    def straight(self, x: Tensor) -> Tensor:
        """The nearest legal rows in the forward pass, the identity in the backward pass."""
        return x + (self.snapped(x) - x).detach()

    def legal(self, x_cf: Tensor, x: Tensor) -> Tensor:
        """Legal counterfactuals with immutable columns restored; numbers that move at most half a step stay exactly."""
        found = self.restored(self.snapped(x_cf), x)
        if len(self.numbers):
            now, then = x[:, self.numbers], found[:, self.numbers]
            # An unchanged number stays as it is even outside the training range.
            moved = torch.minimum((then - now).abs(), (x_cf[:, self.numbers] - now).abs())
            found[:, self.numbers] = torch.where(moved <= self.step.to(x.dtype) / 2, now, then)
        return found

    def distinct(self, draws: Sequence[Tensor], x: Tensor, row: NDArray[np.int64]) -> tuple[Tensor, NDArray[np.int64]]:
        """The draws that decode to distinct legal rows, and their rows; `row` numbers the rows `x`, `n x d`."""
        x_cf, rows = torch.cat([x[:0], *draws]), np.tile(row, len(draws))
        number = torch.arange(len(draws)).repeat_interleave(len(row))
        kept = best_of_each(rows, number, self.legal(x_cf, x.repeat(len(draws), 1)), len(draws))
        return x_cf[kept], rows[kept]


def soft_rows(scores: Tensor, layout: Layout, temperature: float = 1.0) -> Tensor:
    """Sigmoids of number columns, and softmax at `temperature` over each category's columns; `n x d`, as the scores."""
    parts = torch.split(scores, [stop - start for start, stop in layout.spans], dim=1)
    soft = [
        (part / temperature).softmax(dim=1) if number is None else part.sigmoid()
        for part, number in zip(parts, layout.ranges, strict=True)
    ]
    return torch.cat(soft, dim=1)


def best_of_each(row: NDArray[np.int64], cost: Tensor, x_cf: Tensor, k: int) -> NDArray[np.int64]:
    """Indices of the `k` cheapest distinct candidates of each row, row by row, the cheapest first.

    `row` and `cost`, `m`, belong to the candidates `x_cf`, `m x d`. Of equal candidates the first is kept; candidates
    of infinite cost are dropped.
    """
    costs = cost.detach().cpu().numpy()
    order = np.lexsort((np.arange(len(row)), costs, row))
    order = order[np.isfinite(costs[order])]
    known = np.concatenate([row[order, None].astype(np.float64), x_cf.detach().cpu().double().numpy()[order]], axis=1)
    _, first = np.unique(known, axis=0, return_index=True)
    order = order[np.sort(first)]
    begins = np.searchsorted(row[order], row[order], side="left")
    return np.asarray(order[np.arange(len(order)) - begins < k])
