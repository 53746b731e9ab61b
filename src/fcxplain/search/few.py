"""Two changes before more: where more changes bring an answer hardly nearer, two are looked for, and come first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .axes import Axes, Moves
from .bench import Bench
from .finish import finished
from .pool import Pool, joined
from .propose import combinations, ladders
from .rank import MOST, Weights
from .space import Bools, Floats

FEW = 2
# What a change costs while few of them are looked for: more than numbers ever move.
DEAR = 1000.0


def with_few(bench: Bench, axes: Axes, pool: Pool, moves: Moves) -> Pool:
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


def few_first(bench: Bench, weights: Weights, pool: Pool) -> Pool:
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


def _in_doubt(bench: Bench, pool: Pool) -> Bools:
    """Rows whose best candidate has many changes, and numbers that move so far that fewer might be put before it."""
    doubt = np.zeros(len(bench.present), dtype=bool)
    if bench.weights.times:
        best = pool.cheapest(1)
        # Nearer than this, few changes would not be dearer in the first place.
        far = _way(bench, best) * (bench.weights.times - 1) * bench.weights.distance > bench.weights.change
        doubt[best.row] = far & ~_is_few(bench, best)
    return doubt


def _few_of(bench: Bench, pool: Pool) -> Pool:
    return pool.take(_is_few(bench, pool))


def _is_few(bench: Bench, pool: Pool) -> Bools:
    return np.asarray(bench.space.changed(bench.present, pool.row, pool.codes).sum(axis=1) <= FEW)


def _way(bench: Bench, pool: Pool) -> Floats:
    """How far all numbers of a candidate move, difficult ones further."""
    return np.asarray(bench.space.distance(bench.present, pool.row, pool.codes) @ bench.space.difficulty)
