"""A standing attack on the promise: random problems, asked in many ways, and every claim judged.

    python tests/attack.py --minutes 60 --seed 7
    python tests/attack.py --seed 7 --number 1234

The second line tries one problem again and says what it is. Nothing depends on the machine but how many problems are
tried in the time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from threadpoolctl import threadpool_limits

from fcxplain import Explanation, FCx
from fcxplain.options import Options, answered
from fcxplain.progress import no_progress
from fcxplain.proof.proof import prove
from fcxplain.search import Search
from fcxplain.training_loop import Schedule
from judge import Finding, Judge
from random_problems import SHORT, Problem, plain, problem, table_of
from second_reading import read

PROCESSES, EVERY = 2, 30
# Rows of each problem that are asked alone.
ALONE = 2
# One problem in so many trains a network of proposals, is streamed, saved and loaded.
WHOLE = 12

Explain = Callable[[pd.DataFrame], Explanation]


@dataclass
class Tried:
    """What was tried, and what came of it."""

    problems: int = 0
    rows: int = 0
    asked: int = 0
    """Rows, each counted as often as it was asked about."""
    cpu: float = 0.0
    claims: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    misses: list[Finding] = field(default_factory=list)

    def add(self, other: Tried) -> None:
        for name in ("problems", "rows", "asked", "cpu", "claims", "kinds", "findings", "misses"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        claims = ", ".join(f"{self.claims[name]:,} {name}" for name in sorted(self.claims))
        return (
            f"{self.problems:,} problems, {self.rows:,} rows (asked about {self.asked:,} times, "
            f"{self.rows / max(self.cpu, 1e-9):,.0f} rows a CPU second): {claims}; {len(self.misses):,} missed, "
            f"{len(self.findings):,} wrong claims"
        )


def tried(seed: int, number: int, kind: str | None = None) -> Tried:
    """One problem, asked and judged."""
    began, done = time.process_time(), Tried(problems=1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _try(problem(seed, number, kind), done)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{type(error).__name__}: {str(error)[:300]} ({Path(where.filename).name}:{where.lineno})"
        done.findings.append(Finding(seed, number, "an error", -1, told))
    done.cpu = time.process_time() - began
    return done


def _try(own: Problem, done: Tried) -> None:
    done.kinds[own.kind] += 1
    judge = Judge(own)
    rows, before, train = own.rows, own.rows.copy(deep=True), own.train.copy(deep=True)
    with tempfile.TemporaryDirectory() as folder:
        whole = own.number % WHOLE == 0 and own.task.refused(own.task.train).sum() >= 8
        forms = _Whole(own, Path(folder)) if whole else _Alone(own)
        answer = forms.explain(rows)
        done.rows += len(rows)
        verdict = judge.judge(answer)
        # Where the search has answers, no proof is asked for: here it is, and without trying all legal rows.
        refused = judge.refused
        names = pd.Index(judge.wanted[refused].tolist(), tupleize_cols=False).to_numpy()
        judge.judge_proof(prove(own.task, rows.iloc[refused], names, limit=0), refused)
        done.claims += verdict.claims
        expected = _by_row(own, answer, judge)
        for name, which, found in forms.others(rows):
            done.asked += len(which)
            for i, said in zip(which, _by_row(own, found, judge), strict=True):
                if said != expected[i]:
                    judge.found(f"another answer {name}", int(i), f"{said}, not {expected[i]}")
    pd.testing.assert_frame_equal(rows, before)
    pd.testing.assert_frame_equal(own.train, train)
    done.asked += len(rows)
    done.findings += verdict.findings
    done.misses += verdict.misses


def _by_row(own: Problem, answer: Explanation, judge: Judge) -> list[tuple[Any, ...]]:
    """All that is said of each row: its status, and the values of its answers in their order."""
    columns = read(own.schema, answer.answers, judge.short)
    said: list[tuple[Any, ...]] = [(str(status),) for status in answer.row_status]
    for i in np.lexsort((answer.rank, answer.place)).tolist():
        said[answer.place[i]] += (tuple(int(values[i]) for values in columns.values()),)
    return said


Others = Iterator[tuple[str, np.ndarray, Explanation]]


class _Alone:
    """The search alone, which needs no training."""

    def __init__(self, own: Problem) -> None:
        self.own = own
        self.rng = np.random.default_rng([own.seed, abs(own.number), 1])

    def search(self) -> Explain:
        search = Search(self.own.task, prefer=self.own.prefer, seed=1)
        return lambda rows: answered(search, rows, Options(self.own.k), no_progress)

    def explain(self, rows: pd.DataFrame) -> Explanation:
        self.asked = self.search()
        return self.asked(rows)

    def others(self, rows: pd.DataFrame) -> Others:
        """The same rows, asked otherwise."""
        order = self.rng.permutation(len(rows))
        few, some = order[: self.rng.integers(2, 20)], order[: len(rows) // 3]
        yield "in another order and batch", some, self.asked(rows.iloc[some])
        # As tables of one row or of few have it: a column is no longer what the rows beside it made of it.
        for part in (few, *few[:ALONE, None]):
            yield "in a smaller batch", part, self.asked(self._as(self.own.dtypes, part))
        if self.own.number % 2 and not any(str(d) in SHORT for d in self.own.dtypes.values()):
            yield "in plain dtypes", few, self.asked(self._as(plain(self.own.schema), few))
        if self.own.number % 6 == 1:
            with _threads(2):
                yield "with two threads", some, self.search()(rows.iloc[some])

    def _as(self, dtypes: Any, which: np.ndarray) -> pd.DataFrame:
        now = {name: values[which] for name, values in self.own.now.items()}
        return table_of(self.own.schema, now, dtypes)


class _Whole(_Alone):
    """The explainer as users have it: fitted, streamed, saved and loaded."""

    def __init__(self, own: Problem, folder: Path) -> None:
        super().__init__(own)
        self.folder = folder
        self.fcx = FCx(schedule=Schedule(epochs=1, steps=5), seed=1, prefer=own.prefer).fit(own.task)

    def search(self) -> Explain:
        return lambda rows: self.fcx.explain(rows, self.own.k)

    def others(self, rows: pd.DataFrame) -> Others:
        yield from super().others(rows)
        source, out = self.folder / "rows.parquet", self.folder / "answers.parquet"
        rows.to_parquet(source)
        streamed = self.fcx.explain_file(source, out, self.own.k, chunk=37)
        yield "streamed", np.arange(len(rows)), streamed.explanation(self.own.task)
        self.fcx.save(self.folder / "saved")
        loaded = FCx.load(self.folder / "saved", self.own.model.given)
        yield "saved and loaded", np.arange(len(rows)), loaded.explain(rows, self.own.k)


class _threads:
    def __init__(self, count: int) -> None:
        self.count = count

    def __enter__(self) -> None:
        self.before, self.limits = torch.get_num_threads(), threadpool_limits(self.count)
        torch.set_num_threads(self.count)

    def __exit__(self, *_: object) -> None:
        self.limits.restore_original_limits()
        torch.set_num_threads(self.before)


# Running


def _work(seed: int, first: int, until: float, results: Any) -> None:
    torch.set_num_threads(1)
    threadpool_limits(1)
    for number in range(first, sys.maxsize, PROCESSES):
        if time.monotonic() >= until:
            break
        # Every other problem has a twist.
        results.put(tried(seed, -number if number // PROCESSES % 2 else number))
    results.put(None)


def run(seed: int, minutes: float) -> Tried:
    """Problems 0, 1, 2, ... of a seed for so long, in two processes."""
    context, began = multiprocessing.get_context("spawn"), time.monotonic()
    results = context.Queue()
    workers = [
        context.Process(target=_work, args=(seed, first, began + 60 * minutes, results)) for first in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    total, said, left = Tried(), began, PROCESSES
    while left:
        done = results.get()
        if done is None:
            left -= 1
            continue
        total.add(done)
        for finding in done.findings[:3]:
            print(f"WRONG  {finding}", flush=True)
        if len(done.findings) > 3:
            print(f"       and {len(done.findings) - 3} more of this problem", flush=True)
        if time.monotonic() >= said + EVERY:
            said = time.monotonic()
            print(f"{(said - began) / 60:.1f} min: {total}", flush=True)
    for worker in workers:
        worker.join()
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, help="by default a new one each time")
    parser.add_argument("--number", type=int, help="try this problem alone, and show it; below zero with a twist")
    chosen = parser.parse_args()
    seed = secrets.randbelow(2**31) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    if chosen.number is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            print(problem(seed, chosen.number), flush=True)
        total = tried(seed, chosen.number)
        for finding in total.findings + total.misses:
            print(finding)
    else:
        total = run(seed, chosen.minutes)
    by_claim = Counter(finding.claim for finding in total.findings)
    print(f"\n{total}\nmodels: {dict(total.kinds.most_common())}")
    for claim, times in by_claim.most_common():
        one = next(f for f in total.findings if f.claim == claim)
        again = f"python tests/attack.py --seed {one.seed} --number {one.number}"
        print(f"{times:,} x {claim}, e.g. {again}")
    return 1 if total.findings else 0


if __name__ == "__main__":
    # One thread for each process: they are as many as the machine is meant to give.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
