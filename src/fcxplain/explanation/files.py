"""Explanations in parquet files: the frame, the rows as they were, and a certificate beside each answer.

Reading a file checks every answer again with the task at hand; nothing is believed because it was written down.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import FormatError
from ..task import Task
from ..writing import replacing
from .answer import Effort, Explanation, Status

FORMAT = 1
KEY = b"fcxplain"
NOW = "now: "


def write_answers(answer: Explanation, path: str | Path) -> None:
    """Write an explanation to a parquet file: to a temporary name first, then renamed."""
    table = _table(answer)
    with replacing(path) as temporary:
        pq.write_table(table, temporary)


def _table(answer: Explanation) -> pa.Table:
    frame = answer.frame.copy()
    labels = frame[answer.column("row")]
    if labels.map(lambda label: isinstance(label, tuple)).any():
        frame[answer.column("row")] = labels.map(str)
    frame["certificate"] = _beside(answer, [json.dumps(c.to_dict(), default=str) for c in answer.certificates])
    if answer.soft_valid is not None:
        frame["soft_valid"] = pd.array(_beside(answer, answer.soft_valid.tolist()), dtype="boolean")
    now = answer.rows.iloc[np.concatenate([answer.place, answer.bare])[answer.lines]].reset_index(drop=True)
    table = pa.Table.from_pandas(pd.concat([frame, now.add_prefix(NOW)], axis=1), preserve_index=False)
    about = {"format": FORMAT, "method": answer.method, "notes": list(answer.notes), "effort": vars(answer.effort)}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), KEY: json.dumps(about).encode()})


def _beside(answer: Explanation, values: list[Any]) -> list[Any]:
    """A value for each answer on the lines of the frame, None where there is no answer."""
    return [values[i] if i < len(values) else None for i in answer.lines]


def read_answers(path: str | Path, task: Task) -> Explanation:
    """Read an explanation and check all its answers again, with this task's model and rules."""
    about, frame = _read(Path(path))
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


def _read(path: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    try:
        table = pq.read_table(path)
        about = json.loads((table.schema.metadata or {})[KEY])
        version = about["format"]
    except FileNotFoundError:
        raise FormatError(f"there is no file {path}") from None
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as error:
        problem = f"{path} does not hold answers written by fcxplain ({type(error).__name__}: {error})"
        raise FormatError(problem) from error
    if version != FORMAT:
        raise FormatError(f"{path} has format {version}, this fcxplain reads {FORMAT}. Upgrade, or explain again.")
    return about, table.to_pandas()


def _restored(table: pd.DataFrame, task: Task) -> pd.DataFrame:
    """Columns of the dtypes that the task's training rows had, so that the model is asked as before."""
    return table.astype({name: dtype for name, dtype in task.encoder.dtypes_.items() if name in table.columns})
