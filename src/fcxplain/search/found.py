"""What the search of one batch of rows came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
    spent: Codes
    """Candidates that the model was asked about, for each row."""
    cut_short: NDArray[np.bool_]
    """Whether each row would have asked more than its budget allows."""
    calls: int = 0
    """Rows that the model was shown in all."""
    failures: dict[int, str] = field(default_factory=dict)
    """What the model said instead of an answer, by row."""

    @classmethod
    def failed(cls, features: int, message: str) -> Found:
        """One row on which the model failed."""
        none = Pool.empty(features)
        status = np.full(1, Status.NOT_FOUND, dtype=object)
        return cls(none, status, none, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=bool), failures={0: message})

    def completed(self, part: Found, rows: Codes) -> Found:
        """With what was found for some of the rows afterwards."""
        status, spent, cut_short = self.status.copy(), self.spent.copy(), self.cut_short.copy()
        status[rows], cut_short[rows] = part.status, part.cut_short
        spent[rows] += part.spent
        pool, nearly = (replace(p, row=rows[p.row]) for p in (part.pool, part.nearly))
        failures = {row: message for row, message in self.failures.items() if row not in set(rows.tolist())}
        failures |= {int(rows[row]): message for row, message in part.failures.items()}
        pool, nearly = joined([self.pool, pool]), joined([self.nearly, nearly])
        return Found(pool, status, nearly, spent, cut_short, self.calls + part.calls, failures)

    def continued(self, part: Found, rows: Codes) -> Found:
        """With what some rows came to when they went on, but for their candidates, whose codes mean other values."""
        none = self.pool.take(slice(0))
        cut_short = self.cut_short[rows] | part.cut_short
        status = np.where(cut_short & (part.status == Status.NOT_FOUND), Status.TIMED_OUT, part.status)
        return self.completed(replace(part, pool=none, nearly=none, status=status, cut_short=cut_short), rows)


def one_after_the_other(parts: Sequence[Found], features: int) -> Found:
    """Batches as one, their rows counted on."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(p.status) for p in parts)]).tolist()
    none = Pool.empty(features)
    moved = list(zip(parts, starts, strict=False))
    return Found(
        joined([none, *(replace(p.pool, row=p.pool.row + s) for p, s in moved)]),
        np.concatenate([np.empty(0, dtype=object), *(p.status for p in parts)]),
        joined([none, *(replace(p.nearly, row=p.nearly.row + s) for p, s in moved)]),
        np.concatenate([np.zeros(0, dtype=np.int64), *(p.spent for p in parts)]),
        np.concatenate([np.zeros(0, dtype=bool), *(p.cut_short for p in parts)]),
        sum(p.calls for p in parts),
        {row + s: message for p, s in moved for row, message in p.failures.items()},
    )
