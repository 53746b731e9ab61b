"""Distinct lines of codes, so that nothing is asked or measured twice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .space import Codes


def distinct(codes: Codes, tops: Codes, own: NDArray[np.int64] | None = None) -> tuple[Codes, Codes]:
    """The first place of each distinct line of codes, and for each line which of these it equals."""
    columns = codes if own is None else np.concatenate([codes, own[:, None]], axis=1)
    sizes = (*(int(t) + 1 for t in tops), *(() if own is None else (int(own.max()) + 2,)))
    if float(np.prod([float(s) for s in sizes])) < 2.0**62:
        key = np.zeros(len(columns), dtype=np.int64)
        for i, size in enumerate(sizes):
            key = key * size + columns[:, i] + (1 if own is not None and i == len(tops) else 0)
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    else:
        _, first, inverse = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return np.asarray(first), np.asarray(inverse).reshape(-1)
