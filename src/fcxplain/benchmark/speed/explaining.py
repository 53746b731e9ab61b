"""Speed of explaining rows: in a batch, one at a time, with a single draw, file to file with more and more rows, and
with one process next to a local Dask cluster.

The fast mode is compared with the work that no generator can avoid: one draw of the network per row, decoded to a
table, and the classifier's prediction for it. Runs to compare with a cluster are command lines in separate processes,
so that CPU time and memory are those of all their processes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import DataError
from ...explainer import FCx
from ...generator.draws import Proposer
from ...generator.view import class_indices
from ...search import PREFERENCES
from ...streaming.run import CHUNK
from ..report.markdown import numbers
from .timing import Growth, Tell, Timing, cpu_seconds, fastest, on_one_thread, peak_memory

# The number of rows that are explained one at a time.
SINGLE = 100
SIZES = (10**3, 10**4, 10**5, 10**6)
# The measurements of explaining, in their order.
BATCHES, ROWS = (tuple(f"{prefer}, {rows}" for prefer in PREFERENCES) for rows in ("a batch", "one row"))
ONE_DRAW = "one draw, a batch"
JOBS = (*BATCHES, *ROWS, ONE_DRAW)


def explaining_speed(fcx: FCx, refused: pd.DataFrame, *, repeat: int, tell: Tell) -> list[Timing]:
    """CPU seconds for all rows by each preference, for one row, and with one draw compared with the minimal work."""
    found = list[Timing]()
    with on_one_thread():
        for prefer, job in zip(PREFERENCES, BATCHES, strict=True):
            tell(job)
            found.append(Timing(job, len(refused), fastest(partial(fcx.explain, refused, prefer=prefer), repeat)))
        for prefer, job in zip(PREFERENCES, ROWS, strict=True):
            tell(job)
            # The median over rows that are explained one at a time, without the very first.
            ways = [partial(fcx.explain, refused.iloc[[i]], prefer=prefer) for i in range(min(SINGLE, len(refused)))]
            ways[0]()
            found.append(Timing(job, 1, statistics.median(map(cpu_seconds, ways))))
        tell(ONE_DRAW)
        floor = fastest(bare_draw(fcx, refused), repeat)
        fast = fastest(partial(fcx.explain, refused, draws=1), repeat)
        found.append(Timing(ONE_DRAW, len(refused), fast, floor))
    return found


def explaining_growth(
    fcx: FCx, refused: pd.DataFrame, sizes: Sequence[int], *, seed: int = 0, tell: Tell
) -> list[Growth]:
    """Explain file to file with more and more rows, drawn from these with replacement.

    A small file goes first and is not counted: the cost of the first use is not a cost per row.
    """
    generator, found = np.random.default_rng(seed), list[Growth]()
    with tempfile.TemporaryDirectory() as folder, on_one_thread():
        source, target = Path(folder) / "rows.parquet", Path(folder) / "answers.parquet"
        work = partial(fcx.explain_file, source, target, prefer="sparse", overwrite=True)
        refused.iloc[:SINGLE].reset_index(drop=True).to_parquet(source)
        work()
        for size in sorted(sizes):
            tell(f"file to file, {size:,} rows")
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


# Dask workers, 0 for one process without Dask. Large runs take minutes, so that one worker is left out there.
WORKERS, FEWER = (0, 1, 2), (0, 2)
# The first run has a partition for each worker. It tells the fixed cost of a run, which grows with the processes that
# must start, from the cost of a row.
FEW = max(WORKERS) * CHUNK
# Rows of a run, and whether they are answered in one pass.
LARGE_SIZES = ((10**5, False), (10**6, False), (10**7, True))
# Rows per input file.
FILE = 100_000


@dataclass(frozen=True)
class LargeRun:
    """One run from files to a folder: CPU seconds of all processes, wall time, and peak memory of the largest."""

    rows: int
    quick: bool
    workers: int
    seconds: float
    few: float
    """CPU seconds of the same run with `FEW` rows."""
    clock: float
    peak: int

    @property
    def seconds_per_row(self) -> float:
        """CPU time per row, without the fixed cost of a run."""
        return (self.seconds - self.few) / (self.rows - FEW)

    @property
    def start(self) -> float:
        """CPU seconds of a run whatever its rows: processes that start, and the model that each loads."""
        return self.few - FEW * self.seconds_per_row


def large_runs(fcx: FCx, refused: pd.DataFrame, *, up_to: int, seed: int, tell: Tell) -> list[LargeRun]:
    """Explain more and more rows, drawn from these with replacement, with one process and with Dask workers."""
    found = list[LargeRun]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fcx.save(folder / "model")
        first = dict[tuple[bool, int], float]()
        for rows, quick in _sizes(up_to):
            if not any(done.quick == quick for done in found):
                _write_rows(refused, FEW, folder / "rows", seed)
                first |= {(quick, way): _run(folder, way, quick=quick)[0] for way in _workers(rows)}
            _write_rows(refused, rows, folder / "rows", seed)
            for way in _workers(rows):
                tell(f"{rows:,} rows, {_named(way)}")
                seconds, clock, peak = _run(folder, way, quick=quick)
                found.append(LargeRun(rows, quick, way, seconds, first[quick, way], clock, peak))
    return found


def large_jobs(up_to: int) -> int:
    """The number of large runs."""
    return sum(len(_workers(rows)) for rows, _ in _sizes(up_to))


def _workers(rows: int) -> tuple[int, ...]:
    return WORKERS if rows == LARGE_SIZES[0][0] else FEWER


def _sizes(up_to: int) -> list[tuple[int, bool]]:
    return [(rows, quick) for rows, quick in LARGE_SIZES if rows <= up_to]


def _write_rows(table: pd.DataFrame, rows: int, folder: Path, seed: int) -> None:
    """Write rows drawn from these to files of at most `FILE` rows."""
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    generator, plain = np.random.default_rng(seed), pa.Table.from_pandas(table, preserve_index=False)
    plain = plain.replace_schema_metadata(None)
    for number_of, start in enumerate(range(0, rows, FILE)):
        chosen = generator.integers(0, len(table), min(FILE, rows - start))
        pq.write_table(plain.take(pa.array(chosen)), folder / f"{number_of:04d}.parquet")


def _run(folder: Path, workers: int, *, quick: bool) -> tuple[float, float, int]:
    """CPU seconds of all processes, wall time in seconds, and the largest peak memory of one of them."""
    spread = ["--engine", "dask", "--workers", str(workers)] if workers else []
    asked = ["--prefer", "sparse", "--overwrite", "--quiet", *(["--quick"] if quick else []), *spread]
    command = [sys.executable, "-m", "fcxplain", "explain", "model", "rows", "--out", "answers", *asked]
    single = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
    begin = time.monotonic()
    with (folder / "said").open("w+b") as said:
        process = subprocess.Popen(command, cwd=folder, env=os.environ | single, stdout=said, stderr=said)
        # It includes the use of its own children, once they have ended.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise DataError(f"a run ended with code {process.returncode}: {(folder / 'said').read_text()}")
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return used.ru_utime + used.ru_stime, time.monotonic() - begin, peak


def _named(workers: int) -> str:
    return f"Dask, {workers} worker{'s' * (workers > 1)}" if workers else "one process"


def large_lines(runs: Sequence[LargeRun]) -> Iterator[tuple[str, ...]]:
    """A table with one line per run, after the header."""
    head = ("rows", "answers", "way", "CPU s", "of it fixed", "microseconds per row", "times one process")
    yield (*head, "times in all", "wall time, s", "peak MB of a process")
    alone = {(run.rows, run.quick): run for run in runs if not run.workers}
    for run in runs:
        base = alone[run.rows, run.quick]
        ratios = run.seconds_per_row / base.seconds_per_row, run.seconds / base.seconds
        values = (run.seconds, run.start, 1e6 * run.seconds_per_row, *ratios, run.clock, run.peak / 1e6)
        texts = numbers(values, (1, 1, 1, 2, 2, 0, 0))
        yield f"{run.rows:,}", "one pass" if run.quick else "search", _named(run.workers), *texts
