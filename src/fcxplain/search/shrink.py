"""Shrink: bring each number that changed as near to its present value as model and rules allow, by bisection."""

from __future__ import annotations

import numpy as np

from .bench import Bench
from .pool import Pool
from .space import Bools, Codes


def shrunk(bench: Bench, pool: Pool, near: Codes | None = None) -> Pool:
    """The same candidates with their numbers nearer, farthest first; verified like any other.

    `near`, `n x features`, holds codes that are known not to do, from which the bisection starts; by default the
    present ones.
    """
    codes = pool.codes.copy()
    present = bench.present.codes[pool.row]
    lacking = present if near is None else near
    distance = bench.space.distance(bench.present, pool.row, codes)
    order = np.argsort(-np.round(distance, 9), axis=1, kind="stable")
    most = int((distance > 0).sum(axis=1).max(initial=0))
    for turn in range(most):
        feature = order[:, turn]
        moving = np.flatnonzero(distance[np.arange(len(pool)), feature] > 0)
        if len(moving):
            codes[moving] = _bisected(bench, pool.row[moving], codes[moving], feature[moving], lacking[moving])
    moved = (codes != pool.codes).any(axis=1)
    return bench.priced(pool.row[moved], codes[moved], pool.how[moved])


def _bisected(bench: Bench, row: Codes, codes: Codes, feature: Codes, lacking: Codes) -> Codes:
    """Candidates with one number as near as bisection finds it."""
    line = np.arange(len(row))
    low, high = lacking[line, feature], codes[line, feature]
    while True:
        open_ = np.flatnonzero(np.abs(high - low) > 1)
        if not len(open_):
            break
        middle = (low[open_] + high[open_]) // 2
        trial = codes[open_]
        trial[np.arange(len(open_)), feature[open_]] = middle
        good: Bools = bench.good(row[open_], trial)
        high[open_] = np.where(good, middle, high[open_])
        low[open_] = np.where(good, low[open_], middle)
    codes = codes.copy()
    codes[line, feature] = high
    return codes
