"""Run jobs and write the result of each: figures, or the reason why there are none; or repeat some and compare.

As a program (`python -m fcxplain.benchmark.runner`) it reads one job as JSON from standard input and prints its result,
so that a job with a time limit can be stopped at any point.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import DataError
from ..progress import OnProgress, Progress, no_progress
from .measuring import measure
from .plan import Job
from .results import ROOT, Failure, Result, append, code_digest, environment, read_results

RUNNING = "running"


def run(
    jobs: Iterable[Job],
    folder: str | Path,
    on_progress: OnProgress = no_progress,
    *,
    time_limit: float | None = None,
    retry: bool = False,
) -> Iterator[Result]:
    """Run the jobs that have no result in the folder yet, and yield each result once it is written.

    A job that fails or takes more than `time_limit` seconds has that as its result. `retry` repeats failed jobs.
    Measurements made for another study are copied. `on_progress` gets the job as the stage and its state as the note:
    "running" before; "done", "failed" or "copied" after; or only "skipped".
    """
    jobs = list(jobs)
    # Keys contain the methods' parameters, so invalid settings are reported before any work.
    keys = [job.key for job in jobs]
    before_us = read_results(folder, {job.data for job in jobs})
    # Results of other code are due again: a report would refuse to mix them with new ones.
    known = {result.key: result for result in before_us if result.environment.get("code") == code_digest()}
    done = {result.work: result for result in known.values() if not (retry and result.failure)}
    for number, (job, key) in enumerate(zip(jobs, keys, strict=True), start=1):
        before = known.get(key)
        if before is not None and not (retry and before.failure):
            on_progress(Progress(str(job), number, len(jobs), "skipped"))
            continue
        on_progress(Progress(str(job), number - 1, len(jobs), RUNNING))
        same = done.get(job.work)
        result = replace(same, key=key, job=job, copied_from=same.key) if same else carry_out(job, time_limit)
        append(folder, result)
        known[key] = done[job.work] = result
        state = "copied" if result.copied_from else "failed" if result.failure else "done"
        on_progress(Progress(str(job), number, len(jobs), state))
        yield result


def carry_out(job: Job, time_limit: float | None = None) -> Result:
    """One job's result, whatever happens: from a separate process if its time is limited, else from this one."""
    if time_limit is not None:
        return _in_a_process(job, time_limit)
    try:
        return measure(job)
    except Exception as error:
        return _failed(job, Failure(type(error).__name__, str(error), _place(error)))


def _failed(job: Job, failure: Failure) -> Result:
    return Result(job.key, job.work, job, environment(), job.parameters, failure)


def _place(error: Exception) -> str:
    """The innermost line of our own code in the traceback, or else the innermost of all."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if Path(f.filename).resolve().is_relative_to(ROOT) and f.name != "carry_out"]
    frame = (ours or frames)[-1]
    path = Path(frame.filename).resolve()
    name = path.relative_to(ROOT.parent).as_posix() if path.is_relative_to(ROOT) else path.name
    return f"{name}, line {frame.lineno}, in {frame.name}"


# Repeating recorded runs. With the same code, settings and seeds, the remaining difference is rounding: torch and its
# matrix products choose their instructions by the machine, which changes the order of sums, and training amplifies the
# last digit. `fcxplain bench` makes them choose alike (`SAME_ROUNDING` in `cli/bench.py`).

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


# A separate process


def _in_a_process(job: Job, time_limit: float) -> Result:
    command = [sys.executable, "-m", f"{__package__}.runner"]
    # The process must find the modules that this one finds, including a user's own method.
    found = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    asked = json.dumps(job.to_dict())
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, timeout=time_limit, env=found, check=False
        )
    except subprocess.TimeoutExpired:
        return _failed(job, Failure("TimeLimit", f"not done within {time_limit:g} seconds, and stopped", ""))
    if done.returncode:
        return _failed(job, Failure("Crash", how_it_ended(done.returncode), _last_line(done.stderr)))
    return Result.from_dict(json.loads(_last_line(done.stdout)))


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    return f"the process was killed by {signal.Signals(-code).name}" if code < 0 else f"the process ended with {code}"


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def main() -> None:
    """Read a job from standard input and print its result."""
    job = Job.from_dict(json.load(sys.stdin))
    print(carry_out(job).to_line())


if __name__ == "__main__":
    main()
