"""Every row that the schema and the immutables leave, laid out so that each is asked about once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..schema import Feature, Natural, Schema
from ..task import Task
from .counterfactuals import Places

# Legal rows handled at a time: shown to the model, or held against the rules.
CHUNK = 65_536


@dataclass(frozen=True)
class Space:
    """All legal rows that share what cannot change: the product of each feature's legal values."""

    schema: Schema
    fixed: dict[str, Any]
    """Natural values that stay."""
    extra: dict[str, Any]
    """Present values off the grid, which are legal as they are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each feature has."""
        return tuple(
            1 if f.name in self.fixed else (f.top or 0) + 1 + (f.name in self.extra) for f in self.schema.features
        )

    @property
    def size(self) -> int:
        """How many rows there are."""
        return math.prod(self.shape)

    @cached_property
    def values(self) -> dict[str, NDArray[Any]]:
        """The natural values of each feature. Only for a space that is small: a grid may have billions."""
        return {f.name: self._values(f) for f in self.schema}

    def _values(self, feature: Feature) -> NDArray[Any]:
        if feature.name in self.fixed:
            return np.asarray([self.fixed[feature.name]])
        grid = feature.at(np.arange((feature.top or 0) + 1))
        return np.append(grid, self.extra[feature.name]) if feature.name in self.extra else grid

    def natural(self, places: Places) -> dict[str, NDArray[Any]]:
        """Natural columns of some of the rows."""
        codes = np.unravel_index(places, self.shape)
        return {n: v[c] for (n, v), c in zip(self.values.items(), codes, strict=True)}


def spaces_of(task: Task, before: Natural) -> list[tuple[Space, list[int]]]:
    """The legal rows, apart for each combination of values that stay, and the rows compared in each."""
    frozen = {*task.schema.immutable, *(r.freezes for r in task.rules if r.freezes)}
    found: dict[tuple[Any, ...], tuple[Space, list[int]]] = {}
    for row in range(len(before[task.schema.names[0]])):
        now = {name: values[row].item() for name, values in before.items()}
        fixed = {name: value for name, value in now.items() if name in frozen}
        extra = {f.name: now[f.name] for f in task.schema if f.name not in frozen and _is_extra(f, now[f.name])}
        key = (*fixed.values(), *extra.items())
        found.setdefault(key, (Space(task.schema, fixed, extra), []))[1].append(row)
    return list(found.values())


def _is_extra(feature: Feature, now: float) -> bool:
    """Whether a present value is legal without being on the grid."""
    if feature.is_category or feature.low is None or feature.high is None:
        return False
    return feature.low <= now <= feature.high and not feature.on_grid(np.asarray([now]))[0]


def classes_in(task: Task, space: Space) -> NDArray[np.int16]:
    """The model's answer to each row of a space, as the place of the class."""
    # A dtype learnt from the training rows need not hold a value off the grid.
    dtypes = {n: d for n, d in task.encoder.dtypes_.items() if task.schema[n].on_grid(space.values[n]).all()}
    found = np.empty(space.size, dtype=np.int16)
    for start in range(0, space.size, CHUNK):
        places = np.arange(start, min(start + CHUNK, space.size))
        table = task.schema.table(space.natural(places), dtypes=dtypes)
        found[places] = task.classifier.places(table)
    return found


def cheapest_part(left: Places, price: NDArray[np.float64]) -> tuple[Places, Places]:
    """The cheapest of the places left, as many as are handled at a time, and the others."""
    if len(left) <= CHUNK:
        return left, left[:0]
    order = np.argpartition(price[left], CHUNK)
    return left[order[:CHUNK]], left[order[CHUNK:]]
