"""Refine: the last resort of rows without an answer. First up the slope of the model, then wide proposals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import nn

from .ascend import ascended
from .bench import Bench
from .pool import Pool, joined
from .space import Codes
from .wide import wide


def refined(bench: Bench, base: Codes, slope: nn.Module | None, train: Codes, seed: int) -> Pool:
    """Good candidates for some rows; `slope` is the model with gradients, if there is one."""
    pool = bench.nothing() if slope is None else ascended(bench, base, slope)
    rows = np.flatnonzero(~pool.has(len(base)))
    part = bench.of(rows)
    more = wide(part, base[rows], train, seed)
    bench.settle(part, rows)
    return joined([pool, replace(more, row=rows[more.row])])
