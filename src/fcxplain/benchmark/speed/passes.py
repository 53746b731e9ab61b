"""One pass compared with the full search: quality, variety and speed of answers, for a network and for boosting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ...classifier import train_classifier
from ...datasets import Dataset
from ...explainer import FCx
from ...explanation import Explanation
from ...progress import OnProgress, Progress, no_progress
from ...task import Task
from ...training_loop import one_thread
from ..report.markdown import number
from .models import BOOSTING, Lines, task_of, trained
from .timing import cpu_seconds

PAPER = "the paper's network"
JOBS = tuple(product((PAPER, BOOSTING), ("sparse", "balanced")))
# Rows answered in one pass, and how many of them are also answered by the search.
ROWS, SEARCHED = 4_000, 500


@dataclass(frozen=True)
class OnePass:
    """Answers to refused rows by one model and preference, in one pass (`quick`) or by the search."""

    data: str
    model: str
    prefer: str
    quick: bool
    rows: int
    fitting: float
    """CPU seconds of `FCx.fit`, with a generator that learns the same preference."""
    seconds: float
    verified: float
    """Per cent of the rows."""
    drawn: float
    """Percentage of the rows whose answer is a draw, or a part of one."""
    changes: float
    changes_here: float
    """The same over the rows that the search answered too."""
    distinct: float
    """Percentage of distinct answers among the answers to these rows."""
    queries: float
    """Queries of the user's model per row; for a network, candidates evaluated by its own layers count too."""

    @property
    def rows_per_second(self) -> float:
        """Rows per CPU second."""
        return self.rows / self.seconds


def one_pass(
    data: Dataset, *, rows: int = ROWS, repeat: int = 5, seed: int = 0, on_progress: OnProgress = no_progress
) -> list[OnePass]:
    """Explain refused rows in one pass, and some of them also by the search."""
    found = list[OnePass]()
    with one_thread(), threadpool_limits(limits=1):
        for turn, (name, prefer) in enumerate(JOBS):
            on_progress(Progress(f"one pass, {name}, {prefer}", turn, len(JOBS)))
            found += _measured(data, name, prefer, rows, repeat, seed)
    return found


def _measured(data: Dataset, name: str, prefer: str, rows: int, repeat: int, seed: int) -> Iterator[OnePass]:
    task = task_of(data, train_classifier(data, "paper", seed) if name == PAPER else trained(name, data, seed))
    fcx = FCx(prefer=prefer, seed=seed)
    fitting = cpu_seconds(partial(fcx.fit, task))
    some = _refused(data, task, rows, seed)
    for quick in (True, False):
        mine = some if quick else some.iloc[:SEARCHED]
        answer = fcx.explain(mine, quick=quick)
        seconds = min(cpu_seconds(partial(fcx.explain, mine, quick=quick)) for _ in range(repeat))
        yield OnePass(data.name, name, prefer, quick, len(mine), fitting, seconds, *_figures(answer))


def _figures(answer: Explanation) -> tuple[float, ...]:
    """Verified, drawn, changes, changes and distinct answers among the first rows, queries."""
    passed, asked = answer.checks.passed, max(1, int(answer.asked.sum()))
    here = passed & (answer.place < SEARCHED)
    distinct = len(answer.answers[here].drop_duplicates()) / max(1, int(here.sum()))
    shares = (int(which.sum()) / asked for which in (passed, passed & (answer.found_by == "draw")))
    changes = (float(answer.checks.changes[which].mean()) for which in (passed, here))
    return *(100 * share for share in shares), *changes, 100 * distinct, answer.effort.calls / asked


def _refused(data: Dataset, task: Task, most: int, seed: int) -> pd.DataFrame:
    """Refused rows that were not used in training, drawn by the seed."""
    table = pd.concat([data.test, data.validation], ignore_index=True)[list(data.schema.names)]
    refused = table[task.refused(table)]
    return refused.iloc[np.random.default_rng(seed).permutation(len(refused))[:most]].reset_index(drop=True)


def pass_lines(passes: Sequence[OnePass]) -> Lines:
    """A table with one line per result, after the header."""
    figures = ("rows", "verified, %", "by a draw, %", "changes", "changes, same rows", "distinct, %", "queries per row")
    lines: Lines = [("data", "black box", "prefer", "way", *figures, "rows per CPU s", "fit, CPU s")]
    for p in passes:
        values = (p.rows, p.verified, p.drawn, p.changes, p.changes_here, p.distinct, p.queries, p.rows_per_second)
        texts = (number(v, digits=n) for v, n in zip((*values, p.fitting), (0, 2, 2, 3, 3, 1, 1, 0, 1), strict=True))
        lines.append((p.data, p.model, p.prefer, "one pass" if p.quick else "search", *texts))
    return lines
