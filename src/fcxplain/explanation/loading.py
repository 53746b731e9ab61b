"""Reading saved answers: every one is checked again with the task at hand, since nothing is true for being written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from ..errors import FormatError
from ..task import Task
from .answer import Effort, Explanation, Status
from .parquet import NOW, read_frame


def read_answers(path: str | Path, task: Task) -> Explanation:
    """Read an explanation and check all its answers again, with this task's model and rules."""
    about, frame = read_frame(Path(path))
    names = list(task.schema.names)
    column = {name: f"fcx_{name}" if name in task.schema else name for name in ("row", "rank", "status", "wanted")}
    absent = [c for c in [*names, *(NOW + n for n in names), *column.values()] if c not in frame.columns]
    if absent:
        raise FormatError(f"{path} holds answers for another table: it has no column {absent[0]!r}")
    rank = frame[column["rank"]]
    is_first = (rank.isna() | (rank == 1)).to_numpy(dtype=bool)
    position, answered = is_first.cumsum() - 1, rank.notna().to_numpy()
    rows = frame.loc[is_first, [NOW + n for n in names]].set_axis(names, axis=1)
    rows.index = pd.Index(frame.loc[is_first, column["row"]].tolist())
    statuses = frame.loc[is_first, column["status"]].tolist()
    bare = {int(i): Status(statuses[i]) for i in position[~answered]}
    soft = frame["soft_valid"] if "soft_valid" in frame.columns else None
    return Explanation.of(
        task,
        _restored(rows, task),
        _restored(frame.loc[answered, names], task),
        position[answered].astype(np.int64),
        method=about["method"],
        wanted=np.asarray(frame.loc[is_first, column["wanted"]].tolist()),
        without=bare,
        found_by=np.asarray([json.loads(c)["found_by"] for c in frame.loc[answered, "certificate"]], dtype=str),
        soft_valid=None if soft is None else soft[answered].to_numpy(dtype=bool),
        effort=Effort(**about["effort"]),
        notes=tuple(about["notes"]),
    )


def _restored(table: pd.DataFrame, task: Task) -> pd.DataFrame:
    """Columns of the dtypes that the task's training rows had, so that the model is asked as before."""
    return table.astype({name: dtype for name, dtype in task.encoder.dtypes_.items() if name in table.columns})
