"""A small made-up table of loans, its model and its task, for tests that need a whole problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fcxplain import Feature, Schema, Task

SCHEMA = Schema(
    (
        Feature("age", "integer", low=18, high=80),
        Feature("income", "continuous", low=0, high=9000, step=0.5),
        Feature("degree", "ordinal", levels=("none", "school", "college")),
        Feature("job", "categorical", levels=("clerk", "cook", "smith")),
        Feature("born", "categorical", levels=("here", "there"), mutable=False),
    )
)
RULES = "age' >= age\ndegree' > degree => age' > age\ndegree' >= degree"


def table(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """Loans without labels."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 70, rows),
            "income": rng.integers(0, 8000, rows) / 2,
            "degree": rng.choice(["none", "school", "college"], rows),
            "job": rng.choice(["clerk", "cook", "smith"], rows),
            "born": rng.choice(["here", "there"], rows),
        },
        index=[f"row {i}" for i in range(rows)],
    )


def chance(rows: pd.DataFrame) -> np.ndarray:
    """The model: a loan is likelier with income, age and a degree."""
    degree = rows["degree"].map({"none": 0, "school": 1, "college": 2}).to_numpy(dtype=float)
    score = rows["income"].to_numpy() / 1000 + rows["age"].to_numpy() / 30 + degree - 4.5
    return 1 / (1 + np.exp(-score))


def task(rules: Any = RULES, rows: int = 300, **more: Any) -> Task:
    """The problem: who is refused wants "yes"."""
    return Task(table(rows), chance, schema=SCHEMA, rules=rules, target="yes", classes=("no", "yes"), **more)
