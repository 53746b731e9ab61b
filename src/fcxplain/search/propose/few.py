"""Two changes before more: unless more changes bring an answer much nearer, candidates with two come first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..batch import Batch
from ..candidates import Candidates, Found, joined
from ..cost import MOST
from ..improve import improved
from ..space import Bools, Floats
from .combine import combined

FEW = 2
# The cost of a change while searching for few of them: more than numbers ever move.
COSTLY = 1000.0


def few_changes(batch: Batch, found: Found) -> Candidates:
    """Candidates with few changes."""
    part = replace(batch, weights=replace(batch.weights, change=COSTLY))
    pool = joined([found.pool, combined(part, found.singles)])
    pool = part.priced(pool.row, pool.codes, pool.how)
    pool = pool.take(_is_few(part, pool))
    pool = joined([pool, improved(part, pool)])
    return batch.priced(pool.row, pool.codes, pool.how)


def far_with_many(batch: Batch, found: Found) -> Bools:
    """Rows whose best candidate has many changes, and moves numbers so far that fewer changes may be preferred."""
    doubt = np.zeros(len(batch), dtype=bool)
    if batch.weights.times:
        best = found.pool.cheapest(1)
        # Below this distance, few changes would be cheaper anyway.
        far = _moved(batch, best) * (batch.weights.times - 1) * batch.weights.distance > batch.weights.change
        doubt[best.row] = far & ~_is_few(batch, best)
    return doubt


def few_first(batch: Batch, pool: Candidates) -> Candidates:
    """The same candidates; those with many changes come last in rows where they are not much nearer."""
    times = batch.weights.times
    if not times:
        return pool
    many, doubt = ~_is_few(batch, pool), np.zeros(len(batch), dtype=bool)
    doubt[pool.row[many]] = True
    distance = {is_many: np.full(len(batch), np.inf) for is_many in (False, True)}
    for is_many, shortest in distance.items():
        best = pool.take((many == is_many) & doubt[pool.row]).cheapest(1)
        shortest[best.row] = _moved(batch, best)
    behind = many & (distance[False] <= times * distance[True])[pool.row]
    return replace(pool, price=np.where(behind, pool.price + MOST, pool.price))


def _is_few(batch: Batch, pool: Candidates) -> Bools:
    return np.asarray(batch.changed(pool).sum(axis=1) <= FEW)


def _moved(batch: Batch, pool: Candidates) -> Floats:
    """The total distance that a candidate's numbers move, weighted by difficulty."""
    return np.asarray(batch.space.distance(batch.rows, pool.row, pool.codes) @ batch.space.difficulty)
