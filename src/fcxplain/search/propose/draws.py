"""Draws: what a network proposes, or anybody else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..batch import Batch
from ..candidates import DRAW, Candidates, Found, joined
from ..space import Codes

Draws = Callable[[Codes, Codes, int], Codes]
"""From rows as codes, `rows x features`, and places of the classes wanted to proposals, `rows x n x features`."""


def draws(batch: Batch, found: Found) -> Candidates:
    """So many draws for each row as the settings say."""
    return drawn(batch, batch.context.settings.n_draws)


def drawn(batch: Batch, count: int) -> Candidates:
    """So many draws for each row, repaired and asked about."""
    propose = batch.context.settings.draws
    if propose is None or not count:
        return batch.nothing()
    proposals = np.asarray(propose(batch.rows.near, batch.rows.wanted.places, count), dtype=np.int64)
    # Two in a row are often the same.
    new = np.ones(proposals.shape[:2], dtype=bool)
    new[:, 1:] = (proposals[:, 1:] != proposals[:, :-1]).any(axis=2)
    row = np.nonzero(new)[0]
    return batch.tried(row, batch.rows.unmoved(row, proposals[new]), DRAW)


def first_good(batch: Batch, count: int) -> Candidates:
    """The first good one of so many draws for each row, which are asked about one after the other."""
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
