"""Draws: what a network proposes, or anybody else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..batch import Batch
from ..candidates import DRAW, Candidates, Found
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
    proposals = np.asarray(propose(batch.rows.codes, batch.rows.wanted, count), dtype=np.int64)
    row = np.repeat(np.arange(len(batch)), proposals.shape[1])
    return batch.tried(row, proposals.reshape(len(row), -1), DRAW)
