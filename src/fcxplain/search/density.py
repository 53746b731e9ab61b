"""How plausible a candidate is among the training rows: its local outlier factor, and how common its categories are.

Rows that differ in a category are at least the square root of two apart in encoded columns. So the neighbours of a
candidate are searched among rows with the same categories first, and farther away only if these are too few.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
from scipy.spatial import cKDTree

from ..explanation.lof import NoveltyLof
from ..hashing import distinct
from .space import Codes, Floats, SearchSpace

NEIGHBOURS = 20
# The most training rows to compare with. A combination of categories is usual if more training rows than this have it.
POINTS, USUAL = 20_000, 20
# Distance put between points of different categories in the tree, so that only equal categories are neighbours.
FAR = 1e3
# Squared distance between rows that differ in one category.
APART = 2.0
# Combinations whose neighbourhood is cached.
REMEMBERED = 2_000
# Among this few candidates, duplicates are not worth looking for.
FEW = 8
# Distances held at a time.
CELLS = 4_000_000


class Density:
    """LOF of candidates against distinct training rows (Breunig et al. 2000), and the support of their categories."""

    def __init__(self, space: SearchSpace, train: Codes, seed: int) -> None:
        self.space, self.seed = space, seed
        self.categories = np.flatnonzero(~space.is_number)
        self._train = train
        self._around = lru_cache(maxsize=REMEMBERED)(self._near)
        self._keys, self._counts = np.unique(self._key(train), return_counts=True)

    def _key(self, codes: Codes) -> Codes:
        """A number for each combination of categories."""
        key = np.zeros(len(codes), dtype=np.int64)
        for i in self.categories:
            # Past 64 bits this wraps around to a hash, which is as good.
            key = key * np.int64(self.space.tops[i] + 1) + codes[:, i]
        return key

    def count(self, codes: Codes) -> Codes:
        """The number of training rows with the categories of each candidate."""
        key = self._key(codes)
        place = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        return np.where(self._keys[place] == key, self._counts[place], 0)

    @cached_property
    def usual(self) -> Codes:
        """One training row for each usual combination, the most common first."""
        key = self._key(self._train)
        _, first = np.unique(key, return_index=True)
        often = self._counts > USUAL
        order = np.argsort(-self._counts[often], kind="stable")
        return self._train[first[often][order]]

    def lof(self, codes: Codes) -> Floats:
        """The local outlier factor of each candidate; 1 is as dense as its neighbours."""
        if len(self.points) < 2 or not len(codes):
            return np.ones(len(codes))
        if len(codes) <= FEW:
            return self._lof(codes)
        first, inverse = distinct(codes)
        return self._lof(codes[first])[inverse]

    def _lof(self, codes: Codes) -> Floats:
        return np.asarray(np.round(self._novelty.scores(*self._neighbours(codes, own=False)), 9))

    @cached_property
    def points(self) -> Codes:
        """Distinct training rows, or a sample of them that only depends on the seed."""
        first, _ = distinct(self._train)
        if len(first) > POINTS:
            first = first[np.sort(np.random.default_rng(self.seed).permutation(len(first))[:POINTS])]
        points = self._train[first]
        return points[np.argsort(self._key(points), kind="stable")]

    @cached_property
    def _novelty(self) -> NoveltyLof:
        k = min(NEIGHBOURS, len(self.points) - 1)
        return NoveltyLof(len(self.points), k, lambda which: self._neighbours(self.points[which], own=True))

    @cached_property
    def _buckets(self) -> tuple[Codes, Codes, Codes]:
        """The points' combinations of categories, `buckets x categories`, and where each starts and ends."""
        _, starts, counts = np.unique(self._key(self.points), return_index=True, return_counts=True)
        return self.points[starts][:, self.categories], starts, starts + counts

    @cached_property
    def _columns(self) -> Floats:
        return self._numbers(self.points)

    def _numbers(self, codes: Codes) -> Floats:
        """Numbers scaled as by the encoder, `n x numbers`."""
        numbers = np.flatnonzero(self.space.is_number)
        columns = np.empty((len(codes), len(numbers)))
        for j, i in enumerate(numbers):
            low, spread = self.space.task.encoder.scale_[self.space.names[i]]
            columns[:, j] = (self.space.features[i].at(codes[:, i]) - low) / spread
        return columns

    def _neighbours(self, codes: Codes, *, own: bool) -> tuple[Floats, Codes]:
        """Distances to the nearest points and their positions, `n x k`; `own`: a point is not its own neighbour."""
        k = min(NEIGHBOURS, len(self.points) - 1)
        key, numbers = self._key(codes), self._numbers(codes)
        squared, place = self._alike(key, numbers, k, own)
        left = np.flatnonzero(~(squared[:, -1] <= APART))
        order = left[np.argsort(key[left], kind="stable")]
        for which in np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(order) else ():
            squared[which], place[which] = self._of_bucket(codes[which[0]], numbers[which], k, own)
        return np.sqrt(squared), place

    def _alike(self, key: Codes, numbers: Floats, k: int, own: bool) -> tuple[Floats, Codes]:
        """Squared distances to the nearest points with the same categories, and their positions; inf if too few."""
        keys, tree = self._tree
        bucket = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        known = np.flatnonzero(keys[bucket] == key)
        squared, place = np.full((len(key), k), np.inf), np.zeros((len(key), k), dtype=np.int64)
        if len(known):
            queries = np.column_stack([numbers[known], bucket[known] * FAR])
            # Points are distinct, so the first neighbour of a point is itself.
            distance, found = tree.query(queries, np.arange(1, k + 1) + own)
            squared[known], place[known] = distance**2, found
        return squared, place

    @cached_property
    def _tree(self) -> tuple[Codes, cKDTree]:
        """Combinations of categories, and a tree of the points' numbers, far apart where categories differ."""
        keys, bucket = np.unique(self._key(self.points), return_inverse=True)
        return keys, cKDTree(np.column_stack([self._columns, bucket * FAR]))

    def _of_bucket(self, combination: Codes, numbers: Floats, k: int, own: bool) -> tuple[Floats, Codes]:
        """Nearest points of candidates with one combination of categories, if too few points have the same one."""
        squared, place = np.full((len(numbers), k), np.inf), np.zeros((len(numbers), k), dtype=np.int64)
        left = np.arange(len(numbers))
        alike = tuple(combination[self.categories].tolist())
        for most in range(self._first(alike, k + own), len(self.categories) + 1):
            points, offset = self._around(alike, most)
            squared[left], found = _nearest(numbers[left], self._columns[points], offset, k, own)
            place[left] = points[found]
            # Rows that differ in more categories are at least this far away.
            left = left[squared[left, -1] > APART * (most + 1)]
            if not len(left):
                break
        return squared, place

    def _first(self, combination: tuple[int, ...], count: int) -> int:
        """The number of categories in which points must be allowed to differ to find `count` of them; at least 1."""
        kinds, starts, ends = self._buckets
        apart = (kinds != np.array(combination, dtype=np.int64)).sum(axis=1)
        enough = np.bincount(apart, weights=ends - starts).cumsum() >= count
        return max(min(1, len(self.categories)), int(enough.argmax()))

    def _near(self, combination: tuple[int, ...], most: int) -> tuple[Codes, Floats]:
        """Points that differ from a combination in at most `most` categories, and what this adds to their distance."""
        kinds, starts, ends = self._buckets
        apart = (kinds != np.array(combination, dtype=np.int64)).sum(axis=1)
        near = np.flatnonzero(apart <= most)
        points = np.concatenate([np.empty(0, dtype=np.int64), *(np.arange(starts[b], ends[b]) for b in near)])
        return points, APART * np.repeat(apart[near], ends[near] - starts[near])


def _nearest(queries: Floats, points: Floats, offset: Floats, k: int, own: bool) -> tuple[Floats, Codes]:
    """Squared distances to the k nearest points, and their positions, in order; each point has its own `offset`."""
    size = max(1, CELLS // max(1, len(points)))
    parts = [_nearest_part(queries[s : s + size], points, offset, k, own) for s in range(0, len(queries), size)]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _nearest_part(queries: Floats, points: Floats, offset: Floats, k: int, own: bool) -> tuple[Floats, Codes]:
    # Column by column: unlike a matrix product, this rounds the same way in batches of any size.
    squared = np.tile(offset, (len(queries), 1))
    for a, b in zip(queries.T, points.T, strict=True):
        squared += (a[:, None] - b) ** 2
    if own:
        # Points are distinct, so only the point itself is at distance 0.
        squared[squared == 0.0] = np.inf
    if k < len(points):
        near = np.argpartition(squared, k - 1, axis=1)[:, :k]
        # Which of several points at the same distance comes first must not depend on the processor.
        last = np.take_along_axis(squared, near[:, -1:], axis=1)
        tied = np.flatnonzero((squared <= last).sum(axis=1) > k)
        near[tied] = np.argsort(squared[tied], axis=1, kind="stable")[:, :k]
    else:
        near = np.tile(np.arange(len(points)), (len(queries), 1))
    held = np.take_along_axis(squared, near, axis=1)
    order = np.lexsort((near, held), axis=1)
    return np.take_along_axis(held, order, axis=1), np.take_along_axis(near, order, axis=1)
