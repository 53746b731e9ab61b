"""Two changes before more: where more changes bring an answer hardly nearer, two are looked for, and come first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..batch import Batch
from ..candidates import Candidates, joined
from ..cost import MOST, CostWeights
from ..improve import finished
from ..space import Bools, Floats
from .combine import combinations, ladders
from .single import Axes, Moves

FEW = 2
# What a change costs while few of them are looked for: more than numbers ever move.
DEAR = 1000.0


def with_few(bench: Batch, axes: Axes, pool: Candidates, moves: Moves) -> Candidates:
    """Candidates of few changes for rows whose best has more, although numbers move far in it."""
    rows = np.flatnonzero(_in_doubt(bench, pool))
    if not len(rows):
        return bench.nothing()
    dear = replace(bench.weights, change=DEAR)
    part, own = replace(bench.of(rows), weights=dear), axes.of(rows)
    found = joined([pool.of(rows), combinations(part, own, ladders(part, own))])
    found = _few_of(part, part.priced(found.row, found.codes, found.how))
    found = joined([found, finished(part, found, moves)])
    bench.settle(part, rows)
    return bench.priced(rows[found.row], found.codes, found.how)


def few_first(bench: Batch, weights: CostWeights, pool: Candidates) -> Candidates:
    """The same candidates; in rows whose cheapest one of many changes is not far nearer, those come behind."""
    if not weights.times:
        return pool
    many = ~_is_few(bench, pool)
    way = {is_many: np.full(len(bench.present), np.inf) for is_many in (False, True)}
    for is_many, shortest in way.items():
        best = pool.take(many == is_many).cheapest(1)
        shortest[best.row] = _way(bench, best)
    behind = many & (way[False] <= weights.times * way[True])[pool.row]
    return replace(pool, price=np.where(behind, pool.price + MOST, pool.price))


def _in_doubt(bench: Batch, pool: Candidates) -> Bools:
    """Rows whose best candidate has many changes, and numbers that move so far that fewer might be put before it."""
    doubt = np.zeros(len(bench.present), dtype=bool)
    if bench.weights.times:
        best = pool.cheapest(1)
        # Nearer than this, few changes would not be dearer in the first place.
        far = _way(bench, best) * (bench.weights.times - 1) * bench.weights.distance > bench.weights.change
        doubt[best.row] = far & ~_is_few(bench, best)
    return doubt


def _few_of(bench: Batch, pool: Candidates) -> Candidates:
    return pool.take(_is_few(bench, pool))


def _is_few(bench: Batch, pool: Candidates) -> Bools:
    return np.asarray(bench.space.changed(bench.present, pool.row, pool.codes).sum(axis=1) <= FEW)


def _way(bench: Batch, pool: Candidates) -> Floats:
    """How far all numbers of a candidate move, difficult ones further."""
    return np.asarray(bench.space.distance(bench.present, pool.row, pool.codes) @ bench.space.difficulty)
