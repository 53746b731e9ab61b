"""Draws: proposals of a network, or of any other function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..batch import Batch
from ..candidates import DRAW, Candidates, Found, joined
from ..space import Codes

Draws = Callable[[Codes, Codes, int], Codes]
"""From rows as codes, `rows x features`, indices of target classes, and `n` to proposals, `rows x n x features`."""


def draws(batch: Batch, found: Found) -> Candidates:
    """The good ones of each row's draws."""
    return drawn(batch, batch.context.settings.n_draws)


def drawn(batch: Batch, count: int) -> Candidates:
    """Repair and query `count` draws per row, and return the good ones."""
    propose = batch.context.settings.draws
    if propose is None or not count:
        return batch.nothing()
    proposals = np.asarray(propose(batch.rows.near, batch.rows.wanted.places, count), dtype=np.int64)
    # Consecutive draws are often equal.
    new = np.ones(proposals.shape[:2], dtype=bool)
    new[:, 1:] = (proposals[:, 1:] != proposals[:, :-1]).any(axis=2)
    row = np.nonzero(new)[0]
    return batch.tried(row, batch.rows.unmoved(row, proposals[new]), DRAW)


def first_good(batch: Batch, count: int) -> Candidates:
    """Query up to `count` draws per row one after the other, and return the first good one."""
    propose, pools, rows = batch.context.settings.draws, [batch.nothing()], np.arange(len(batch))
    if propose is None or not count:
        return pools[0]
    proposals = np.asarray(propose(batch.rows.near, batch.rows.wanted.places, count), dtype=np.int64)
    for turn in range(proposals.shape[1]):
        part, every = batch.of(rows), np.arange(len(rows))
        pools.append(part.tried(every, part.rows.unmoved(every, proposals[rows, turn]), DRAW).at(rows))
        rows = np.flatnonzero(~joined(pools).has(len(batch)))
        if not len(rows):
            break
    return joined(pools)
