"""What the search of one batch of rows came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..explanation import Status
from .pool import Pool, joined
from .space import Codes


@dataclass(frozen=True, eq=False)
class Found:
    """Answers in order of choice, what to say of rows without one, and the nearest that these came to one."""

    pool: Pool
    status: NDArray[Any]
    nearly: Pool
    calls: Codes
    """Questions to the user's model, a number for each row, or for the batch as a whole in one."""
    failures: tuple[str, ...] = ()

    @classmethod
    def failed(cls, rows: int, features: int, message: str) -> Found:
        """Rows on which the model failed."""
        status = np.full(rows, Status.NOT_FOUND, dtype=object)
        none = Pool.empty(features)
        return cls(none, status, none, np.zeros(1, dtype=np.int64), (message,) * rows)


def one_after_the_other(parts: Sequence[Found], features: int) -> Found:
    """Batches as one, their rows counted on."""
    starts = np.cumsum([0, *(len(p.status) for p in parts)])
    none = Pool.empty(features)
    return Found(
        joined([none, *(replace(p.pool, row=p.pool.row + s) for p, s in zip(parts, starts, strict=False))]),
        np.concatenate([np.empty(0, dtype=object), *(p.status for p in parts)]),
        joined([none, *(replace(p.nearly, row=p.nearly.row + s) for p, s in zip(parts, starts, strict=False))]),
        np.concatenate([np.zeros(0, dtype=np.int64), *(p.calls for p in parts)]),
        tuple(message for p in parts for message in p.failures),
    )
