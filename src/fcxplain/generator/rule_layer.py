"""Rules as the rule layer applies them: for each row some boxes, one of which must contain the counterfactual.

A box allows an interval of each number and a set of levels of each category. A draw goes to the box nearest to it. The
boxes themselves are computed elsewhere, once per row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Boxes:
    """The boxes that a group of rules allows each of `n` rows: `k` boxes over `c` level columns and `m` numbers.

    `possible`, `n x k`, marks boxes that are not empty. A number may lie between `low` and `high`, or stay at its
    present value where `keeps`, `n x k x m`: off-grid values are legal if unchanged.
    """

    level_columns: Tensor
    number_columns: Tensor
    possible: Tensor
    levels: Tensor
    low: Tensor
    high: Tensor
    keeps: Tensor

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Boxes:
        """The boxes with a function applied to every tensor that has a line per row."""
        parts = ("possible", "levels", "low", "high", "keeps")
        return replace(self, **{name: change(getattr(self, name)) for name in parts})

    def to(self, device: torch.device) -> Boxes:
        """The same on a device."""
        columns = {name: getattr(self, name).to(device) for name in ("level_columns", "number_columns")}
        return replace(self.mapped(lambda t: t.to(device)), **columns)


@dataclass(frozen=True)
class Allowed:
    """The boxes of each group of rules; groups share no feature, so each is handled separately."""

    groups: tuple[Boxes, ...] = ()

    def take(self, places: Tensor) -> Allowed:
        """The boxes of some of the rows."""
        return Allowed(tuple(g.mapped(lambda t: t.index_select(0, places)) for g in self.groups))

    def to(self, device: torch.device) -> Allowed:
        """The same on a device."""
        return Allowed(tuple(g.to(device) for g in self.groups))


@dataclass(frozen=True)
class EncodedBox:
    """The one box of each row: levels `n x c`, and `low`, `high` and `keeps`, `n x m`."""

    levels: Tensor
    low: Tensor
    high: Tensor
    keeps: Tensor


@torch.no_grad()
def nearest_box(boxes: Boxes, x: Tensor, draft: Tensor) -> EncodedBox:
    """For each row, the possible box nearest to its draft; both are `n x d` encoded.

    A forbidden level counts 1, a number its distance in encoded units. A row without a possible box has no legal
    answer, and may change nothing.
    """
    cost = _level_cost(boxes, draft) + _number_cost(boxes, x, draft)
    best = cost.masked_fill(~boxes.possible, torch.inf).argmin(dim=1)
    rows = torch.arange(len(best), device=best.device)
    some = boxes.possible[rows, best][:, None]
    low, high = boxes.low[rows, best], boxes.high[rows, best]
    high = torch.where(some, high, low - 1)
    return EncodedBox(boxes.levels[rows, best] & some, low, high, boxes.keeps[rows, best] & some)


def hull(boxes: Boxes) -> EncodedBox:
    """For each row and feature, the values in any of its possible boxes."""
    possible = boxes.possible[:, :, None]
    some = possible & (boxes.low <= boxes.high)
    low = torch.where(some, boxes.low, torch.inf).amin(dim=1)
    high = torch.where(some, boxes.high, -torch.inf).amax(dim=1)
    none = low > high
    low, high = low.masked_fill(none, 1.0), high.masked_fill(none, 0.0)
    return EncodedBox((boxes.levels & possible).any(dim=1), low, high, (boxes.keeps & possible).any(dim=1))


def _level_cost(boxes: Boxes, draft: Tensor) -> Tensor:
    """The number of categories of the draft with a forbidden level, `n x k`."""
    drawn = draft.index_select(1, boxes.level_columns) > 0.5
    return (drawn[:, None, :] & ~boxes.levels).sum(dim=2)


def _number_cost(boxes: Boxes, x: Tensor, draft: Tensor) -> Tensor:
    """Distances of the draft's numbers from each box, `n x k`."""
    drawn = draft.index_select(1, boxes.number_columns)[:, None, :]
    present = x.index_select(1, boxes.number_columns)[:, None, :]
    outside = (boxes.low - drawn).relu() + (drawn - boxes.high).relu()
    outside = torch.where(boxes.low <= boxes.high, outside, torch.inf)
    staying = torch.where(boxes.keeps, (present - drawn).abs(), torch.inf)
    # An empty box may have neither, and infinities must not turn into NaN.
    return torch.minimum(outside, staying).sum(dim=2)
