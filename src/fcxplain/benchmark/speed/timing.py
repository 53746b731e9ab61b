"""Timing (CPU time of one thread, best of several turns), peak memory, and a description of the machine."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from threadpoolctl import threadpool_limits

from ...training_loop import one_thread

Tell = Callable[[str], None]
"""Called with the name of a measurement when it begins."""


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


@dataclass(frozen=True)
class Growth:
    """One epoch, or one file, of a number of rows."""

    rows: int
    seconds: float
    memory: int
    """Increase of the process's peak memory in bytes, including the rows; 0 if the peak was higher before."""

    @property
    def seconds_per_row(self) -> float:
        """CPU time per row; constant if the work is linear in the rows."""
        return self.seconds / self.rows


def cpu_seconds(work: Callable[[], object]) -> float:
    """Processor time of one call, all threads together."""
    start = time.process_time()
    work()
    return time.process_time() - start


def fastest(work: Callable[[], object], repeat: int) -> float:
    """The shortest time of several calls."""
    return min(cpu_seconds(work) for _ in range(repeat))


def in_turns(ways: Mapping[str, Callable[[], float]], repeat: int) -> dict[str, float]:
    """The shortest of the times that each function returns; they are called alternately."""
    turns = [{job: work() for job, work in ways.items()} for _ in range(repeat)]
    return {job: min(turn[job] for turn in turns) for job in ways}


@contextmanager
def on_one_thread() -> Iterator[None]:
    """One thread in torch and in the libraries below numpy."""
    with one_thread(), threadpool_limits(limits=1):
        yield


def peak_memory() -> int:
    """The peak memory of this process so far, in bytes."""
    import resource  # not available on Windows, where only this function fails

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


LIBRARIES = (
    *("fcxplain", "torch", "numpy", "pandas", "pyarrow", "scikit-learn"),
    *("xgboost", "xgboost-cpu", "lightgbm", "dice-ml"),
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
