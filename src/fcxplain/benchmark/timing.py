"""A stopwatch: the CPU time of the process, best of several turns, ours and the bare work taking turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

OnJob = Callable[[str], None]
"""Told of each job when it begins."""


@dataclass(frozen=True)
class Timing:
    """CPU seconds for a job over some rows, and for the plain work it must contain, if that is defined."""

    job: str
    rows: int
    seconds: float
    floor: float | None = None

    @property
    def rows_per_second(self) -> float:
        """Rows done in a CPU second."""
        return self.rows / self.seconds

    @property
    def ratio(self) -> float | None:
        """Our time over the plain work's."""
        return None if self.floor is None else self.seconds / self.floor


def nobody(job: str) -> None:
    """Where nobody wants to know what is measured now."""


def cpu_seconds(work: Callable[[], Any]) -> float:
    """Processor time of one call, all threads together."""
    start = time.process_time()
    work()
    return time.process_time() - start


def best_of(ours: Callable[[], Any], plain: Callable[[], Any], repeat: int) -> tuple[float, float]:
    """The shortest time of each of two ways that take turns."""
    times = [(cpu_seconds(ours), cpu_seconds(plain)) for _ in range(repeat)]
    return min(t[0] for t in times), min(t[1] for t in times)
