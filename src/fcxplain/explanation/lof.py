"""How isolated rows are among training rows: the local outlier factor (Breunig et al. 2000) in the encoder's columns.

Certificates and metrics read one reference per task, so that the LOFs of the answers average to `lof_to_data`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..schema import Natural
from ..task import Task

if TYPE_CHECKING:
    from sklearn.neighbors import NearestNeighbors

NEIGHBOURS = 20
# The cost of LOF grows with the square of the points; the densities of this many take about two seconds.
MOST_POINTS = 20_000
# Keeps the density of points without any distance finite, as scikit-learn does.
LEAST = 1e-10
# A score is a quotient of sums of distances, whose last digits depend on the other rows of the batch.
DECIMALS = 6

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Key = TypeVar("Key")
Value = TypeVar("Value")


def once_for_each(make: Callable[[Key], Value]) -> Callable[[Key], Value]:
    """Remember a function's result for each argument, which must not be part of it, as long as the argument lives."""
    known: WeakKeyDictionary[Key, Value] = WeakKeyDictionary()

    @wraps(make)
    def remembered(key: Key) -> Value:
        if key not in known:
            known[key] = make(key)
        return known[key]

    return remembered


class NoveltyLof:
    """LOF of new points against fixed ones, from the distances to their nearest fixed points and the places of these.

    Densities of fixed points are computed when they are first needed, since those of all take seconds. `neighbours`
    finds distances and places for fixed points, given by their places; a point is not its own neighbour.
    """

    def __init__(self, points: int, k: int, neighbours: Callable[[Places], tuple[Floats, Places]]) -> None:
        self._neighbours = neighbours
        # NaN where not computed yet.
        self._distance, self._density = np.full((points, k), np.nan), np.full(points, np.nan)
        self._place = np.zeros((points, k), dtype=np.int64)

    def scores(self, distance: Floats, place: Places) -> Floats:
        """The score of each new point: 1 is as dense as around its neighbours, more is sparser."""
        needed = _unknown(self._density, place)
        if len(needed):
            self._find(needed)
            self._density[needed] = 1.0 / self._reach(self._distance[needed], self._place[needed])
        return np.asarray(self._density[place].mean(axis=1) * self._reach(distance, place))

    def _reach(self, distance: Floats, place: Places) -> Floats:
        """The mean reachability distance of points from their neighbours."""
        self._find(place)
        return np.asarray(np.maximum(distance, self._distance[place, -1]).mean(axis=1) + LEAST)

    def _find(self, places: Places) -> None:
        """Find the neighbours of fixed points."""
        new = _unknown(self._distance[:, -1], places)
        if len(new):
            distance, self._place[new] = self._neighbours(new)
            # Last, since it tells other threads that both are known.
            self._distance[new] = distance


def _unknown(values: Floats, places: Places) -> Places:
    """The distinct places without a value."""
    found = np.unique(places)
    return found[np.isnan(values[found])]


class PointLof:
    """LOF of points against fixed ones with the same columns, by scikit-learn's neighbours."""

    def __init__(self, fixed: Floats, k: int) -> None:
        # scikit-learn takes a second to load, which only certificates should cost.
        from sklearn.neighbors import NearestNeighbors

        self._fixed, self._k = fixed, k
        self._tree: NearestNeighbors = NearestNeighbors(n_neighbors=k).fit(fixed)
        self._lof = NoveltyLof(len(fixed), k, self._neighbours)

    def scores(self, new: Floats) -> Floats:
        """The score of each point."""
        return self._lof.scores(*self._tree.kneighbors(new))

    def _neighbours(self, which: Places) -> tuple[Floats, Places]:
        distance, place = self._tree.kneighbors(self._fixed[which], self._k + 1)
        others = place != which[:, None]
        # Where rounding hides the point itself among others, one of them is left out instead.
        others[others.all(axis=1), -1] = False
        return distance[others].reshape(-1, self._k), place[others].reshape(-1, self._k)


@dataclass(frozen=True)
class Reference:
    """LOF against distinct training rows or a sample of them; None where all are alike."""

    lof: PointLof | None
    used: int
    there: int


@once_for_each
def reference(task: Task) -> Reference:
    """LOF against the task's training rows."""
    natural = task.encoder.natural_of_codes(task.sample)
    rows, _, chosen = points(alike(natural), task.seed)
    if len(rows) < 2:
        return Reference(None, len(chosen), len(rows))
    fixed = encoded(task, taken(natural, rows[chosen]))
    return Reference(PointLof(fixed, min(NEIGHBOURS, len(chosen) - 1)), len(chosen), len(rows))


def lof_to_data(task: Task, natural: Natural) -> Floats | None:
    """Novelty LOF (k = 20) of legal rows against training rows; None where these are all alike."""
    lof = reference(task).lof
    if lof is None:
        return None
    groups = alike(natural)
    if not len(groups):
        return np.empty(0)
    _, rows = np.unique(groups, return_index=True)
    scores = lof.scores(encoded(task, taken(natural, rows)))
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
