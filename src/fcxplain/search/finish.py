"""Finish: the cheapest candidates of each row with fewer changes, and with smaller ones."""

from __future__ import annotations

import numpy as np

from .axes import Moves
from .bench import Bench
from .pool import Pool, joined
from .shrink import shrunk
from .space import Bools
from .sparsify import sparsified

# Candidates of each row that are worth it.
FINISHED = 4


def finished(bench: Bench, pool: Pool, moves: Moves) -> Pool:
    """What sparsifying and shrinking make of the best candidates; `moves` are the single changes tried before."""
    best = pool.best(FINISHED)
    fewer = sparsified(bench, best.take(_may_be_sparser(bench, best, moves)))
    best = joined([best, fewer]).best(FINISHED)
    return joined([fewer, shrunk(bench, best.take(_may_be_nearer(bench, best, moves)))])


def _may_be_sparser(bench: Bench, pool: Pool, moves: Moves) -> Bools:
    """All but candidates whose every part was tried as a single change already."""
    changed = bench.space.changed(bench.present, pool.row, pool.codes)
    return np.asarray((changed.sum(axis=1) > 2) | (changed & ~moves.whole).any(axis=1))


def _may_be_nearer(bench: Bench, pool: Pool, moves: Moves) -> Bools:
    """All but single changes of which every value was tried."""
    changed = bench.space.changed(bench.present, pool.row, pool.codes)
    numbers = (changed & bench.space.is_number).any(axis=1)
    return np.asarray(numbers & ((changed.sum(axis=1) > 1) | (changed & ~moves.whole).any(axis=1)))
