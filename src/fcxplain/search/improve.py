"""Improve candidates: undo changes that are not needed, and make the others as small as model and rules allow."""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np

from .batch import Batch
from .candidates import Candidates, Found, joined
from .space import Bools, Codes


def shrunk(batch: Batch, pool: Candidates, near: Codes | None = None) -> Candidates:
    """The same candidates with numbers moved less, the farthest first; queried like any others.

    `near`, `n x features`, holds codes known to fail, from which the bisection starts; by default the present ones.
    """
    codes = pool.codes.copy()
    lacking = batch.rows.start(pool.row, codes) if near is None else near
    distance = batch.space.distance(batch.rows, pool.row, codes)
    order = np.argsort(-np.round(distance, 9), axis=1, kind="stable")
    most = int((distance > 0).sum(axis=1).max(initial=0))
    for turn in range(most):
        feature = order[:, turn]
        moving = np.flatnonzero(distance[np.arange(len(pool)), feature] > 0)
        if len(moving):
            codes[moving] = _bisected(batch, pool.row[moving], codes[moving], feature[moving], lacking[moving])
    moved = (codes != pool.codes).any(axis=1)
    return batch.priced(pool.row[moved], codes[moved], pool.how[moved])


def _bisected(batch: Batch, row: Codes, codes: Codes, feature: Codes, lacking: Codes) -> Codes:
    """Candidates with one number as near as bisection can bring it."""
    line = np.arange(len(row))
    low, high = lacking[line, feature], codes[line, feature]
    while True:
        open_ = np.flatnonzero(np.abs(high - low) > 1)
        if not len(open_):
            break
        middle = (low[open_] + high[open_]) // 2
        trial = codes[open_]
        trial[np.arange(len(open_)), feature[open_]] = middle
        good: Bools = batch.good(row[open_], trial)
        high[open_] = np.where(good, middle, high[open_])
        low[open_] = np.where(good, low[open_], middle)
    codes = codes.copy()
    codes[line, feature] = high
    return codes


# Up to this many changes, all subsets are tried.
FEW = 8


def sparsified(batch: Batch, pool: Candidates, few: int = FEW, only: Bools | None = None) -> Candidates:
    """Good candidates with fewer changes than the given ones; repairing them may add changes.

    With `only`, `n x features`, subsets of few changes are tried only if they contain one of these features.
    """
    changed = batch.changed(pool)
    count = changed.sum(axis=1)
    only = changed if only is None else only
    sizes = {size: np.flatnonzero(count == size) for size in range(2, few + 1)}
    found = [_subsets(batch, pool.take(own), size, only[own]) for size, own in sizes.items() if len(own)]
    many = np.flatnonzero(count > few)
    if len(many):
        found.append(_eliminated(batch, pool.take(many), few))
    return joined(found) if found else batch.nothing()


def _subsets(batch: Batch, pool: Candidates, size: int, only: Bools) -> Candidates:
    masks = _masks(size)
    places = np.nonzero(batch.changed(pool))[1].reshape(-1, size)
    line, mask = np.nonzero(only[np.arange(len(pool))[:, None], places] @ masks.T)
    row, keep = pool.row[line], masks[mask]
    codes = batch.rows.codes[row]
    for part in range(size):
        feature, kept = places[line, part], keep[:, part]
        codes[kept, feature[kept]] = pool.codes[line[kept], feature[kept]]
    found = batch.tried(row, codes, 0)
    how = _origin(batch, pool, found.row)
    return Candidates(found.row, found.codes, found.price, how)


def _origin(batch: Batch, pool: Candidates, row: Codes) -> Codes:
    """The origin of each row's first candidate, which those derived from it inherit."""
    how = np.zeros(len(batch), dtype=np.int64)
    how[pool.row[::-1]] = pool.how[::-1]
    return how[row]


@lru_cache(maxsize=16)
def _masks(size: int) -> Bools:
    """Proper subsets, the smallest first."""
    masks = [m for m in itertools.product((False, True), repeat=size) if 0 < sum(m) < size]
    return np.array(sorted(masks, key=sum), dtype=bool)


def _eliminated(batch: Batch, pool: Candidates, few: int) -> Candidates:
    """Undo changes one after the other, the most costly first, as long as the candidate stays good."""
    codes, now = pool.codes.copy(), batch.rows.codes[pool.row]
    worth = batch.space.difficulty * (batch.weights.change + batch.space.distance(batch.rows, pool.row, codes))
    worth = np.where(codes != now, np.round(worth, 9), -np.inf)
    order = np.argsort(-worth, axis=1, kind="stable")
    for turn in range(int((codes != now).sum(axis=1).max(initial=0))):
        feature = order[:, turn]
        line = np.flatnonzero(codes[np.arange(len(pool)), feature] != now[np.arange(len(pool)), feature])
        trial = codes[line]
        trial[np.arange(len(line)), feature[line]] = now[line, feature[line]]
        good = batch.good(pool.row[line], trial)
        codes[line[good]] = trial[good]
    found = batch.priced(pool.row, codes, pool.how)
    short = batch.changed(found).sum(axis=1) <= few
    return joined([found, sparsified(batch, found.take(short), few)]) if short.any() else found


# Candidates per row to improve.
IMPROVED = 4


def improve(batch: Batch, found: Found) -> Candidates:
    """The best candidates of each row with fewer changes, and with smaller ones."""
    return improved(batch, found.pool)


def improved(batch: Batch, pool: Candidates) -> Candidates:
    """The best candidates, sparsified and shrunk."""
    best = pool.best(IMPROVED)
    fewer = sparsified(batch, best.take(_may_be_sparser(batch, best)))
    best = joined([best, fewer]).best(IMPROVED)
    return joined([fewer, shrunk(batch, best.take(_may_be_nearer(batch, best)))])


def _may_be_sparser(batch: Batch, pool: Candidates) -> Bools:
    """All candidates except those whose parts were all tried as single changes already."""
    changed = batch.changed(pool)
    return np.asarray((changed.sum(axis=1) > 2) | (changed & ~batch.moves.whole).any(axis=1))


def _may_be_nearer(batch: Batch, pool: Candidates) -> Bools:
    """Candidates with numbers, except single changes of features whose values were all tried."""
    changed = batch.changed(pool)
    numbers = (changed & batch.space.is_number).any(axis=1)
    return np.asarray(numbers & ((changed.sum(axis=1) > 1) | (changed & ~batch.moves.whole).any(axis=1)))
