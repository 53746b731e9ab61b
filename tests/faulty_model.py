"""A model of scikit-learn by its import path, into which tests inject faults on the workers of a cluster.

A file in the folder FAULTS (kill, memory, full, slow) has the path of a folder of answers; the fault happens on a
worker once there are two parts in it. `kill` and `memory` happen once, `always` kills every time, `slow` waits until its
file is gone.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

FAULTS = Path(os.environ.get("FCXPLAIN_FAULTS", "/nonexistent"))


def table(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ages, incomes = rng.integers(18, 70, rows), rng.integers(0, 8000, rows) / 2
    return pd.DataFrame({"age": ages, "income": incomes, "debt": rng.integers(0, 50, rows)})


def is_on_worker() -> bool:
    dask = sys.modules.get("distributed.worker")
    try:
        return dask is not None and dask.get_worker() is not None
    except ValueError:
        return False


def is_time(fault: str, *, once: bool = False) -> bool:
    path = FAULTS / fault
    try:
        target = Path(path.read_text())
    except FileNotFoundError:
        return False
    if len(list(target.glob("part-*.parquet"))) < 2:
        return False
    if once:
        path.unlink()
    return True


class Faulty:
    """A linear model that answers as it should, if it answers."""

    def __init__(self) -> None:
        rows = table(300)
        good = (rows["income"] / 1000 + rows["age"] / 30 - rows["debt"] / 20) > 2.2
        model = LogisticRegression(max_iter=2000).fit(rows, good.astype(int))
        self.classes_, self.weights, self.bias = model.classes_, model.coef_[0], model.intercept_[0]

    def predict_proba(self, rows: pd.DataFrame) -> np.ndarray:
        if is_on_worker():
            self.misbehave()
        chance = 1 / (1 + np.exp(-rows.to_numpy(dtype=float) @ self.weights - self.bias))
        return np.column_stack([1 - chance, chance])

    def misbehave(self) -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (100 if is_time("full") else hard, hard))
        if is_time("kill", once=True) or is_time("always"):
            os.kill(os.getpid(), signal.SIGKILL)
        if is_time("memory", once=True):
            held = np.ones(10**8)
            time.sleep(20)
            del held
        # As long as the test looks on, but not for ever.
        for _ in range(600):
            if not is_time("slow"):
                break
            time.sleep(0.05)


model = Faulty()
