"""Check that this machine reproduces recorded figures: repeat a few runs and compare.

With the same code, settings and seeds, the remaining difference is rounding: torch and its matrix products choose their
instructions by the machine, which changes the order of sums, and training amplifies the last digit. So figures that
depend on a network trained in single precision may differ between machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..errors import DataError
from ..progress import OnProgress, Progress, no_progress
from .results import Result, code_digest
from .runner import carry_out

# Timings are not compared.
TIMES = ("rows_per_second",)
CHECKED = 3


@dataclass(frozen=True)
class Repeated:
    """A repeated run: the number of figures, the number that differ, and the one that differs most."""

    job: str
    figures: int
    differ: int
    worst: str = ""
    before: float = 0.0
    now: float = 0.0
    note: str = ""
    commit: str = ""
    """The commit of the earlier run, if its code was different."""

    @property
    def same(self) -> bool:
        """Whether every figure is equal to the last digit."""
        return not self.differ and not self.note

    @property
    def words(self) -> str:
        """The result in one line."""
        apart = f"{self.worst} most: {self.before:.6g} there, {self.now:.6g} here"
        differ = f"{self.differ} of {self.figures} figures differ, {apart}" if self.differ else ""
        same = f"the same {self.figures} figures" if self.same else ""
        older = f"compared with other code, commit {self.commit}" if self.commit else ""
        return "; ".join(filter(None, (same, differ, self.note, older)))


def check(results: Iterable[Result], most: int = CHECKED, on_progress: OnProgress = no_progress) -> Iterator[Repeated]:
    """Repeat the fastest runs, each of a different method, and compare; results of this code, if there are any."""
    chosen = _chosen(results, most)
    if not chosen:
        raise DataError("there is no result to check. Run `fcxplain bench run` first.")
    for done, result in enumerate(chosen):
        on_progress(Progress(str(result.job), done, len(chosen)))
        yield compared(result, carry_out(result.job))


def _chosen(results: Iterable[Result], most: int) -> list[Result]:
    measured = [r for r in results if not r.failure and not r.copied_from]
    own = [r for r in measured if _is_own(r)]
    cheapest: dict[str, Result] = {}
    for result in sorted(own or measured, key=_seconds, reverse=True):
        cheapest[result.job.method] = result
    return sorted(cheapest.values(), key=_seconds)[:most]


def _is_own(result: Result) -> bool:
    return result.environment.get("code") == code_digest()


def _seconds(result: Result) -> float:
    parts = (result.fitting, result.explaining)
    return sum(part.cpu_seconds for part in parts if part is not None)


def compared(before: Result, now: Result) -> Repeated:
    """Two runs of one job, figure by figure."""
    if now.failure:
        return Repeated(str(before.job), 0, 0, note=f"it failed here: {now.failure}")
    names = [name for name in before.figures if name in now.figures and name not in TIMES]
    apart = {name: abs(now.figures[name] - before.figures[name]) for name in names}
    differ = [name for name, size in apart.items() if size]
    missing = sorted(set(before.figures) ^ set(now.figures))
    note = f"only one of the two has {', '.join(missing)}" if missing else ""
    worst = max(differ, key=lambda name: apart[name] / max(abs(before.figures[name]), 1e-12), default="")
    both = (before.figures[worst], now.figures[worst]) if worst else (0.0, 0.0)
    commit = "" if _is_own(before) else str(before.environment.get("commit") or "unknown")
    return Repeated(str(before.job), len(names), len(differ), worst, *both, note, commit)
