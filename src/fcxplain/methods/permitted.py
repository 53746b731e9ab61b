"""The range that rules leave to each feature of each row, in the form of DiCE's `permitted_range` and CEILS's bounds.

A range describes one feature. So these methods get, from a rule that links two counterfactual values, only what follows
for each value alone: from "a higher degree takes time, and age never falls without one" just that age never falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..region.boxes import FAR, BatchBoxes, Box
from ..rules import holds
from ..rules.normal import grouped
from ..schema import Feature, Natural
from ..task import Task


@dataclass(frozen=True, eq=False)
class PermittedRange:
    """The codes of one feature that rules leave to each row: from `low` to `high`, `n` each; for a category, `levels`.

    An empty range has `low` above `high`. `levels` is a mask, `n x levels`.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    levels: NDArray[np.bool_] | None = None


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


def keeps(task: Task, before: Natural, after: Natural) -> NDArray[np.bool_]:
    """Whether the rows `after` satisfy every rule of a task, given the rows `before`."""
    return holds(task.rules, before, after) if task.rules else np.ones(len(after[task.schema.names[0]]), dtype=bool)
