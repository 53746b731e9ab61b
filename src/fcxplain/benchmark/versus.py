"""Speed for what it is worth: CPU seconds per verified answer, of the bare work, of ours and of dice-ml, in one run.

All have the same model and the same rows, one thread, and are judged by the same checks under the task's rules.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ..classifier.networks import one_thread
from ..explainer import FCx
from ..explanation import Explanation
from ..metrics import evaluate
from ..task import Task
from .dice_package import REMEDY, DicePackage, Way, installed
from .explaining import bare_draw
from .timing import OnJob, cpu_seconds, nobody

ROWS = 30
FLOOR = "bare work, one draw"
FAST, DEFAULT, SPARSE = "fcxplain, one draw", "fcxplain, default", "fcxplain, sparse"
PACKAGES: dict[Way, str] = {way: f"dice-ml, {way}" for way in get_args(Way)}
NAMES = (FLOOR, FAST, DEFAULT, SPARSE, *PACKAGES.values())
SHARES = ("validity", "feasibility", "success")


@dataclass(frozen=True)
class Contender:
    """What one way of explaining took, and what came of it; shares are in percent, None where there is nothing."""

    name: str
    rows: int
    fitting: float | None = None
    """CPU seconds before the first row can be explained, once for a model and its rules."""
    seconds: float | None = None
    """CPU seconds for all the rows."""
    verified: int = 0
    """Rows with an answer that passes every check."""
    validity: float | None = None
    feasibility: float | None = None
    success: float | None = None
    changes: float | None = None
    note: str = ""

    @property
    def seconds_per_verified(self) -> float | None:
        """What a counterfactual that holds costs; None where there is none."""
        return None if self.seconds is None or not self.verified else self.seconds / self.verified


def compared(
    fcx: FCx,
    refused: pd.DataFrame,
    *,
    fitting: float,
    rows: int = ROWS,
    repeat: int = 5,
    seed: int = 0,
    on_job: OnJob = nobody,
) -> list[Contender]:
    """Explain the same rows in every way. Ours and the bare work count by their best turn; dice-ml has one turn.

    fitting: the CPU seconds that `fcx` took to be fitted.
    """
    some = refused.iloc[np.sort(np.random.default_rng(seed).permutation(len(refused))[:rows])]
    with one_thread(), threadpool_limits(limits=1):
        found = []
        for name, explain in _ours(fcx, some).items():
            on_job(name)
            found.append(_timed(name, fcx.task_, some, explain, fitting, repeat))
        return found + list(_packages(fcx.task_, some, seed, on_job))


def _ours(fcx: FCx, some: pd.DataFrame) -> dict[str, Callable[[], Any]]:
    return {
        FLOOR: bare_draw(fcx, some),
        FAST: partial(fcx.explain, some, draws=1),
        DEFAULT: partial(fcx.explain, some),
        SPARSE: partial(fcx.explain, some, prefer="sparse"),
    }


def _packages(task: Task, some: pd.DataFrame, seed: int, on_job: OnJob) -> Iterator[Contender]:
    for way, name in PACKAGES.items():
        on_job(name)
        if not installed():
            yield Contender(name, len(some), note=f"not installed: {REMEDY}")
            continue
        package = DicePackage(way, seed=seed)
        fitting = cpu_seconds(partial(package.fit, task))
        yield _timed(name, task, some, partial(package.explain, some), fitting, repeat=1)


def _timed(
    name: str, task: Task, some: pd.DataFrame, explain: Callable[[], Any], fitting: float, repeat: int
) -> Contender:
    """The shortest turn, and a judgement of the last turn's answers, which are those of every other."""
    kept: list[Any] = []
    seconds = min(cpu_seconds(lambda: kept.append(explain())) for _ in range(repeat))
    answer = kept[-1] if isinstance(kept[-1], Explanation) else _judged(name, task, some, kept[-1])
    marks = evaluate(answer, task, [*SHARES, "sparsity"]).values
    shares = {share: _known(marks[share]) for share in SHARES}
    verified = round(marks["success"] * int(answer.asked.sum()) / 100)
    told = Counter(reason.words for reason in answer.reasons.values()).most_common(1)
    note = "; ".join(f"{count} rows: {words}" for words, count in told)
    changes = _known(marks["sparsity"])
    return Contender(name, len(some), fitting, seconds, verified, **shares, changes=changes, note=note)


def _judged(name: str, task: Task, some: pd.DataFrame, table: pd.DataFrame) -> Explanation:
    """A table with a line for each row, checked as every answer is."""
    wanted = task.wanted(task.predict(some))
    return Explanation.of(task, some, table, np.arange(len(some)), method=name, wanted=wanted)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
