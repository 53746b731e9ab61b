"""A small made-up table of loans, its model and its task, for tests that need a whole problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from fcxplain import Feature, Schema, Task
from fcxplain.encoding import TableEncoder

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
    degree = rows["degree"].to_numpy(dtype=object)
    degree = (degree == "school") + 2.0 * (degree == "college")
    score = rows["income"].to_numpy() / 1000 + rows["age"].to_numpy() / 30 + degree - 4.5
    return 1 / (1 + np.exp(-score))


def network(rows: pd.DataFrame) -> nn.Linear:
    """The same model with gradients, for encoded rows, so that nothing has to imitate it: most of a fit's time."""
    encoder = TableEncoder().fit(SCHEMA, rows)
    (age, years), (income, money) = encoder.scale_["age"], encoder.scale_["income"]
    # Not drawn at random: tests may watch the global random state.
    layer = nn.utils.skip_init(nn.Linear, encoder.width_, 2)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[1] = torch.tensor([years / 30, money / 1000, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        layer.bias.copy_(torch.tensor([0.0, age / 30 + income / 1000 - 4.5]))
    return layer.requires_grad_(False)


def task(rules: Any = RULES, rows: int = 300, *, gradients: bool = False, **more: Any) -> Task:
    """The problem: who is refused wants "yes"."""
    train = table(rows)
    model = network(train) if gradients else chance
    return Task(train, model, schema=SCHEMA, rules=rules, target="yes", classes=("no", "yes"), **more)
