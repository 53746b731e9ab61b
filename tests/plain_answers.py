"""A finder of answers for the loans that is plain enough to be trusted: earn as much as it takes, or be older too."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fcxplain import Task
from fcxplain.explanation import Effort, Explanation, Status


def explain(task: Task, rows: pd.DataFrame, k: int = 1) -> Explanation:
    """At most two answers for each refused row; cooks from there are given up."""
    table, predicted = rows[list(task.schema.names)], task.predict(rows)
    wanted = task.wanted(predicted)
    given_up = ((table["job"] == "cook") & (table["born"] == "there")).to_numpy()
    status = np.where(predicted == wanted, Status.ALREADY, Status.NOT_FOUND)
    place = np.repeat(np.flatnonzero((predicted != wanted) & ~given_up), k)
    rank = np.tile(np.arange(k), len(place) // k)
    after = table.iloc[place].copy()
    after["age"] = np.minimum(after["age"] + rank, 80)
    degree = after["degree"].map({"none": 0, "school": 1, "college": 2}).to_numpy(dtype=float)
    needed = np.ceil((4.5 - after["age"].to_numpy() / 30 - degree) * 2000 + 1) / 2
    after["income"] = np.maximum(after["income"].to_numpy(), needed)
    return Explanation.of(
        task,
        table,
        after,
        place,
        method="plain",
        wanted=wanted,
        without=status,
        found_by="hand",
        calls=np.ones(len(table), dtype=np.int64),
        effort=Effort(0.5, 0.25, 1, len(table)),
        notes=("earn more, or be older",),
    )
