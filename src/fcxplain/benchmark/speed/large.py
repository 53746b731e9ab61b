"""Cost and memory per row with one process and on a local Dask cluster.

Each run is a command line in a separate process, so that CPU time and memory are those of all its processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import DataError
from ...explainer import FCx
from ...progress import OnProgress, Progress, no_progress
from ...streaming.run import CHUNK
from ..report.markdown import number
from .models import Lines

# Dask workers, 0 for one process without Dask. Large runs take minutes, so that one worker is left out there.
WORKERS, FEWER = (0, 1, 2), (0, 2)
# The first run has a partition for each worker. It tells the fixed cost of a run, which grows with the processes that
# must start, from the cost of a row.
FEW = max(WORKERS) * CHUNK
# Rows of a run, and whether they are answered in one pass.
SIZES = ((10**5, False), (10**6, False), (10**7, True))
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


def large_runs(
    fcx: FCx, refused: pd.DataFrame, *, up_to: int, seed: int = 0, on_progress: OnProgress = no_progress
) -> list[LargeRun]:
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
                on_progress(Progress(f"{rows:,} rows, {_named(way)}", len(found)))
                seconds, clock, peak = _run(folder, way, quick=quick)
                found.append(LargeRun(rows, quick, way, seconds, first[quick, way], clock, peak))
    return found


def jobs(up_to: int) -> int:
    """The number of runs."""
    return sum(len(_workers(rows)) for rows, _ in _sizes(up_to))


def _workers(rows: int) -> tuple[int, ...]:
    return WORKERS if rows == SIZES[0][0] else FEWER


def _sizes(up_to: int) -> list[tuple[int, bool]]:
    return [(rows, quick) for rows, quick in SIZES if rows <= up_to]


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


def large_lines(runs: Sequence[LargeRun]) -> Lines:
    """A table with one line per run, after the header."""
    head = ("rows", "answers", "way", "CPU s", "of it fixed", "microseconds per row", "times one process")
    return [(*head, "times in all", "wall time, s", "peak MB of a process"), *_lines(runs)]


def _lines(runs: Sequence[LargeRun]) -> Iterator[tuple[str, ...]]:
    alone = {(run.rows, run.quick): run for run in runs if not run.workers}
    for run in runs:
        base = alone[run.rows, run.quick]
        ratios = run.seconds_per_row / base.seconds_per_row, run.seconds / base.seconds
        values = (run.seconds, run.start, 1e6 * run.seconds_per_row, *ratios, run.clock, run.peak / 1e6)
        texts = (number(v, digits=n) for v, n in zip(values, (1, 1, 1, 2, 2, 0, 0), strict=True))
        yield f"{run.rows:,}", "one pass" if run.quick else "search", _named(run.workers), *texts
