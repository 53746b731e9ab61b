"""A small model for the server to serve, which misbehaves for people of certain ages: they are in no training row."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fcxplain import FCx, Feature, Schema, Task

SLOW, HANGS, RAISES, NOT_A_NUMBER = 65, 66, 67, 68
JOBS = ("Clerk", "Driver", "Engineer")
RULES = "hours' <= 50\njob' == Engineer => hours' >= 30"


def schema() -> Schema:
    return Schema(
        (
            Feature("age", "integer", low=18, high=60, unit="years", mutable=False, guessed=("low", "high")),
            Feature("hours", "integer", low=10, high=60, unit="hours", label="hours per week"),
            Feature("job", "categorical", levels=JOBS, labels={"Engineer": "engineer & builder"}),
            Feature("gender", "categorical", levels=("F", "M"), mutable=False),
        ),
        classes={"no": "refused", "yes": "a loan"},
    )


class Model:
    """Long hours and engineers get the loan."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, rows: pd.DataFrame) -> np.ndarray:
        ages = set(rows["age"].astype(int))
        if SLOW in ages:
            time.sleep(0.3)
        if HANGS in ages:
            time.sleep(600)
        if RAISES in ages:
            raise RuntimeError("secret 4711")
        effect = rows["job"].astype(str).map({"Clerk": 0.0, "Driver": -0.5, "Engineer": 1.5}).to_numpy(dtype=float)
        yes = 1 / (1 + np.exp(-(0.12 * (rows["hours"].to_numpy(dtype=float) - 44) + effect)))
        if NOT_A_NUMBER in ages:
            yes[:] = np.nan
        return np.stack([1 - yes, yes], axis=1)


model = Model()


def people(count: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 61, count),
            "hours": rng.integers(10, 61, count),
            "job": rng.choice(JOBS, count),
            "gender": rng.choice(["F", "M"], count),
        },
        index=pd.Index([f"C{i:03}" for i in range(count)], name="customer"),
    )


def saved(folder: Path, rules: str = RULES) -> FCx:
    task = Task(people(300).reset_index(drop=True), model, schema=schema(), rules=rules, target="yes")
    fcx = FCx(generator=False, oracle="model").fit(task)
    fcx.save(folder, overwrite=True)
    return fcx


def somebody(**others: Any) -> dict[str, Any]:
    return {"age": 30, "hours": 30, "job": "Clerk", "gender": "F"} | others
