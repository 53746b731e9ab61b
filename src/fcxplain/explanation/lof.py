"""How isolated rows are among training rows: the local outlier factor (Breunig et al. 2000) in the encoder's columns.

The reference is fitted once for each task, on first use. Certificates and metrics both read it, so that
those of the answers average to `lof_to_data`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..schema import Natural
from ..task import Task

if TYPE_CHECKING:
    from sklearn.neighbors import LocalOutlierFactor

NEIGHBOURS = 20
# The cost of LOF grows with the square of the points; this many take about two seconds.
MOST_POINTS = 20_000
# A score is a quotient of sums of distances, whose last digits depend on the other rows of the batch.
DECIMALS = 6

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Reference:
    """LOF fitted on distinct training rows or a sample of them; None where all are alike."""

    fitted: LocalOutlierFactor | None
    used: int
    there: int


# Keys are weak and no value holds its key, so nothing is kept alive.
_REFERENCES: WeakKeyDictionary[Task, Reference] = WeakKeyDictionary()


def reference(task: Task) -> Reference:
    """LOF fitted on the task's training rows, cached per task."""
    if task not in _REFERENCES:
        _REFERENCES[task] = _fitted(task)
    return _REFERENCES[task]


def lof_to_data(task: Task, natural: Natural) -> Floats | None:
    """Novelty LOF (k = 20) of legal rows against training rows; None where these are all alike."""
    fitted = reference(task).fitted
    if fitted is None:
        return None
    groups = alike(natural)
    if not len(groups):
        return np.empty(0)
    _, rows = np.unique(groups, return_index=True)
    scores = -fitted.score_samples(encoded(task, taken(natural, rows)))
    return np.asarray(np.round(scores, DECIMALS)[groups])


def encoded(task: Task, natural: Natural) -> Floats:
    """Rows as points, in double precision."""
    return task.encoder.encode_array(natural).astype(np.float64)


def points(groups: Places, seed: int) -> tuple[Places, Places, Places]:
    """A row for each distinct point in rising order, how many rows lie on it, and the points to use."""
    _, rows, weight = np.unique(groups, return_index=True, return_counts=True)
    return rows, weight, sampled(np.arange(len(rows)), MOST_POINTS, seed)


def taken(natural: Natural, which: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Some of the rows of natural columns."""
    return {name: values[which] for name, values in natural.items()}


def alike(natural: Natural) -> Places:
    """A number for each row, the same for rows that are equal; rows in rising order have rising numbers."""
    columns = pd.DataFrame(dict(enumerate(natural.values())))
    numbers = columns.groupby(list(columns), sort=True, dropna=False).ngroup()
    return np.asarray(numbers.to_numpy(), dtype=np.int64)


def sampled(which: Places, most: int, seed: int) -> Places:
    """A sample of limited size, in their order, drawn with the seed."""
    if len(which) <= most:
        return which
    return which[np.sort(np.random.default_rng(seed).permutation(len(which))[:most])]


def _fitted(task: Task) -> Reference:
    # scikit-learn takes a second to load, which only certificates should cost.
    from sklearn.neighbors import LocalOutlierFactor

    natural = task.encoder.natural_of_codes(task.sample)
    rows, _, chosen = points(alike(natural), task.seed)
    if len(rows) < 2:
        return Reference(None, len(chosen), len(rows))
    model = LocalOutlierFactor(n_neighbors=min(NEIGHBOURS, len(chosen) - 1), novelty=True)
    return Reference(model.fit(encoded(task, taken(natural, rows[chosen]))), len(chosen), len(rows))
