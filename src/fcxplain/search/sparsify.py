"""Sparsify: put back whatever need not change. Every subset of the changes if they are few, else one by one."""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np

from .bench import Bench
from .pool import Pool, joined
from .space import Bools, Codes

# All subsets of so many changes are tried.
FEW = 8


def sparsified(bench: Bench, pool: Pool, few: int = FEW) -> Pool:
    """Good candidates with fewer changes than the given ones; their repair may cost changes of its own."""
    changed = bench.space.changed(bench.present, pool.row, pool.codes)
    count = changed.sum(axis=1)
    found = [_subsets(bench, pool.take(count == size), size) for size in range(2, few + 1) if (count == size).any()]
    many = np.flatnonzero(count > few)
    if len(many):
        found.append(_eliminated(bench, pool.take(many), few))
    return joined(found) if found else bench.nothing()


def _subsets(bench: Bench, pool: Pool, size: int) -> Pool:
    masks = _masks(size)
    changed = bench.space.changed(bench.present, pool.row, pool.codes)
    places = np.argsort(~changed, axis=1, kind="stable")[:, :size]
    row = np.repeat(pool.row, len(masks))
    codes = bench.present.codes[row]
    line = np.repeat(np.arange(len(pool)), len(masks))
    keep = np.tile(masks, (len(pool), 1))
    for part in range(size):
        feature, kept = places[line, part], keep[:, part]
        codes[kept, feature[kept]] = pool.codes[line[kept], feature[kept]]
    found = bench.tried(row, codes, 0)
    how = _origin(bench, pool, found.row)
    return Pool(found.row, found.codes, found.price, how)


def _origin(bench: Bench, pool: Pool, row: Codes) -> Codes:
    """How the first candidate of each row was found: what is made of it was found the same way."""
    how = np.zeros(len(bench.present), dtype=np.int64)
    how[pool.row[::-1]] = pool.how[::-1]
    return how[row]


@lru_cache(maxsize=16)
def _masks(size: int) -> Bools:
    """Proper subsets, the smallest first."""
    masks = [m for m in itertools.product((False, True), repeat=size) if 0 < sum(m) < size]
    return np.array(sorted(masks, key=sum), dtype=bool)


def _eliminated(bench: Bench, pool: Pool, few: int) -> Pool:
    """Changes taken back one after the other, the dearest first, as long as the candidate stays good."""
    codes, now = pool.codes.copy(), bench.present.codes[pool.row]
    worth = bench.space.difficulty * (bench.weights.change + bench.space.distance(bench.present, pool.row, codes))
    worth = np.where(codes != now, np.round(worth, 9), -np.inf)
    order = np.argsort(-worth, axis=1, kind="stable")
    for turn in range(int((codes != now).sum(axis=1).max(initial=0))):
        feature = order[:, turn]
        line = np.flatnonzero(codes[np.arange(len(pool)), feature] != now[np.arange(len(pool)), feature])
        trial = codes[line]
        trial[np.arange(len(line)), feature[line]] = now[line, feature[line]]
        good = bench.good(pool.row[line], trial)
        codes[line[good]] = trial[good]
    found = bench.priced(pool.row, codes, pool.how)
    short = bench.space.changed(bench.present, found.row, found.codes).sum(axis=1) <= few
    return joined([found, sparsified(bench, found.take(short), few)]) if short.any() else found
