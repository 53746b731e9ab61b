"""Speed of explaining rows: in a batch, one at a time, with a single draw, and file to file with more and more rows.

The fast mode is compared with the work that no generator can avoid: one draw of the network per row, decoded to a
table, and the classifier's prediction for it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ...explainer import FCx
from ...generator.draws import Proposer
from ...generator.view import class_indices
from ...progress import OnProgress, Progress, no_progress
from ...search import PREFERENCES
from ...training_loop import one_thread
from .timing import Timing, cpu_seconds
from .training import Growth, peak_memory

# The number of rows that are explained one at a time.
SINGLE = 100
SIZES = (10**3, 10**4, 10**5, 10**6)
# The measurements of explaining, in their order.
BATCHES, ROWS = (tuple(f"{prefer}, {rows}" for prefer in PREFERENCES) for rows in ("a batch", "one row"))
ONE_DRAW = "one draw, a batch"
JOBS = (*BATCHES, *ROWS, ONE_DRAW)


def explaining_speed(
    fcx: FCx, refused: pd.DataFrame, *, repeat: int = 5, on_progress: OnProgress = no_progress
) -> list[Timing]:
    """CPU seconds for all rows by each preference, for one row, and with one draw compared with the minimal work."""
    found = list[Timing]()
    with one_thread(), threadpool_limits(limits=1):
        for prefer, job in zip(PREFERENCES, BATCHES, strict=True):
            on_progress(Progress(job, len(found), len(JOBS)))
            found.append(Timing(job, len(refused), _best(partial(fcx.explain, refused, prefer=prefer), repeat)))
        for prefer, job in zip(PREFERENCES, ROWS, strict=True):
            on_progress(Progress(job, len(found), len(JOBS)))
            # The median over rows that are explained one at a time, without the very first.
            ways = [partial(fcx.explain, refused.iloc[[i]], prefer=prefer) for i in range(min(SINGLE, len(refused)))]
            ways[0]()
            found.append(Timing(job, 1, statistics.median(map(cpu_seconds, ways))))
        on_progress(Progress(ONE_DRAW, len(found), len(JOBS)))
        floor = _best(bare_draw(fcx, refused), repeat)
        fast = _best(partial(fcx.explain, refused, draws=1), repeat)
        found.append(Timing(ONE_DRAW, len(refused), fast, floor))
    return found


def explaining_growth(
    fcx: FCx,
    refused: pd.DataFrame,
    *,
    sizes: Sequence[int] = SIZES,
    prefer: str = "sparse",
    seed: int = 0,
    on_progress: OnProgress = no_progress,
) -> list[Growth]:
    """Explain file to file with more and more rows, drawn from these with replacement.

    A small file goes first and is not counted: the cost of the first use is not a cost per row.
    """
    generator, found = np.random.default_rng(seed), list[Growth]()
    with tempfile.TemporaryDirectory() as folder, one_thread(), threadpool_limits(limits=1):
        source, target = Path(folder) / "rows.parquet", Path(folder) / "answers.parquet"
        work = partial(fcx.explain_file, source, target, prefer=prefer, overwrite=True)
        refused.iloc[:SINGLE].reset_index(drop=True).to_parquet(source)
        work()
        for size in sorted(sizes):
            on_progress(Progress(f"file to file, {size:,} rows", len(found), len(sizes)))
            refused.iloc[generator.integers(0, len(refused), size)].reset_index(drop=True).to_parquet(source)
            before = peak_memory()
            seconds = cpu_seconds(work)
            found.append(Growth(size, seconds, peak_memory() - before))
    return found


def bare_draw(fcx: FCx, rows: pd.DataFrame) -> Callable[[], pd.DataFrame]:
    """The minimal work: one draw per row, decoded to a table, and the classifier's prediction for it."""
    task, model = fcx.task_, fcx.model_
    assert model is not None, "a draw needs a generator"
    proposer = Proposer(model, task, seed=fcx.seed)
    wanted = class_indices(task, task.wanted(task.predict(rows))).numpy()

    def work() -> pd.DataFrame:
        codes = proposer.draws(task.encoder.codes(rows), wanted, 1)[:, 0]
        table = task.encoder.from_codes(codes)
        task.predict(table)
        return table

    return work


def _best(work: Callable[[], object], repeat: int) -> float:
    return min(cpu_seconds(work) for _ in range(repeat))
