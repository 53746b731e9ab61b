"""Equal lines of whole numbers, told by one key each: far quicker than sorting the lines themselves."""

from __future__ import annotations

import numpy as np

from .space import Codes

# The largest key that a whole number holds.
LARGEST = 2**62


def distinct(codes: Codes) -> tuple[Codes, Codes]:
    """The first place of each distinct line of codes, and for each line which of these it equals."""
    key, size = np.zeros(len(codes), dtype=np.int64), 1
    for column in codes.T:
        low = int(column.min(initial=0))
        part, values = column - low, int(column.max(initial=0)) - low + 1
        if size * values >= LARGEST:
            # Numbered anew, neither has more values than there are lines.
            (_, key), (_, part) = (np.unique(a, return_inverse=True) for a in (key, part))
            size = values = len(codes)
        key, size = key * values + part, size * values
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return np.asarray(first), np.asarray(inverse).reshape(-1)
