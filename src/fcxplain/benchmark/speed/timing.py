"""Timing (CPU time, best of several turns, alternating with the minimal work), and a description of the machine."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Timing:
    """CPU seconds of a job over some rows, and of the minimal work that it must contain, if that is defined."""

    job: str
    rows: int
    seconds: float
    floor: float | None = None

    @property
    def rows_per_second(self) -> float:
        """Rows per CPU second."""
        return self.rows / self.seconds

    @property
    def ratio(self) -> float | None:
        """Our time divided by that of the minimal work."""
        return None if self.floor is None else self.seconds / self.floor


def cpu_seconds(work: Callable[[], Any]) -> float:
    """Processor time of one call, all threads together."""
    start = time.process_time()
    work()
    return time.process_time() - start


def best_of(ours: Callable[[], Any], plain: Callable[[], Any], repeat: int) -> tuple[float, float]:
    """The shortest time of each of two functions, called alternately."""
    times = [(cpu_seconds(ours), cpu_seconds(plain)) for _ in range(repeat)]
    return min(t[0] for t in times), min(t[1] for t in times)


LIBRARIES = (
    "fcxplain",
    "torch",
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "xgboost",
    "xgboost-cpu",
    "lightgbm",
    "dice-ml",
)


@dataclass(frozen=True)
class Machine:
    """The machine at the time of a measurement."""

    cpu: str
    cores: int
    """The number of cores that this process may use."""
    load: float | None
    """The load average of the last minute, including this process; None if the system does not report it."""
    system: str
    versions: dict[str, str]

    def __str__(self) -> str:
        load = "" if self.load is None else f", load {self.load:.1f}"
        libraries = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return f"{self.cpu}, {self.cores} cores{load}; {self.system}; {libraries}"


def this_machine() -> Machine:
    """The machine that this runs on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return Machine(_cpu(), cores, load, f"{platform.system()} {platform.machine()}", _versions())


def _cpu(listing: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name as the system reports it; only Linux has it in a file."""
    text = listing.read_text(encoding="utf-8", errors="replace") if listing.exists() else ""
    found = re.search(r"^model name\s*:\s*(.+?)\s*$", text, re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    """The versions of the libraries that are installed."""
    found = {"Python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
