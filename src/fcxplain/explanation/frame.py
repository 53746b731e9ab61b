"""An explanation as one table, and lookup of its lines by number or by the label of the row."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, Fault, also, did_you_mean
from ..outcome import Outcome
from ..task import Task
from ..text import counted, cut

if TYPE_CHECKING:
    from .explanation import Explanation

# Among more labels than this, searching for the nearest takes too long.
NEAR = 10_000
LABEL = 60
"""Letters of a label that are shown."""
SEE = "See .frame for all answers."
WITHOUT = {
    "already": "already has the target outcome, so there is no answer for it",
    "impossible": "has no answer, and it is proved that there is none (impossible)",
    "not_found": "has no answer: none was found (not_found)",
    "timed_out": "has no answer: its budget was spent before one was found (timed_out)",
    "unreadable": "has no answer, since it cannot be read (unreadable)",
}


def answer_number(explanation: Explanation, which: Hashable) -> int:
    """The number, from 0, of an answer: the number given, or the first answer of the row with this label.

    A whole number is never a label, so that its meaning does not depend on the labels of the rows.
    """
    e, count = explanation, len(explanation.answers)
    if isinstance(which, int | np.integer) and not isinstance(which, bool):
        if -count <= which < count:
            return int(which) % count
        there = f"there are {count:,}, counted from 0" if count else "there is none"
        problem = f"does not exist: {there if count != 1 else 'there is one, number 0'}"
        rows = _rows(e, which)
        remedy = f"The row with the label {which} {_has(e, rows[0])}." if len(rows) == 1 else SEE
        raise also(DataError, IndexError)("", [Fault(f"answer {which}", problem, remedy)])
    row = row_position(e, which, "Give the number of the answer, counted from 0.")
    first = _first_answer(e, row)
    if first is None:
        why = e.reasons[row].words if row in e.reasons else "See .status for all rows."
        raise DataError("", [Fault(f"row {cut(which, LABEL)}", _has(e, row), why)])
    return first


def row_position(e: Explanation, label: Hashable, remedy: str = "Give the rows labels that differ.") -> int:
    """The position of the one row with this label; `remedy` is for a label of several rows."""
    rows, place = _rows(e, label), f"row {cut(label, LABEL)}"
    if not len(rows):
        near = did_you_mean(label, e.rows.index) if len(e) <= NEAR else ""
        raise DataError("", [Fault(place, "no row has this label", near or SEE)])
    if len(rows) > 1:
        raise DataError("", [Fault(place, f"{counted(len(rows), 'row')} have this label", remedy)])
    return rows[0]


def _has(e: Explanation, row: int) -> str:
    """What a row has: its first answer, or none."""
    first = _first_answer(e, row)
    return WITHOUT[str(e.row_status[row])] if first is None else f"has answer {first}"


def _first_answer(e: Explanation, row: int) -> int | None:
    """The number of the row's best answer."""
    answers = np.flatnonzero(e.place == row)
    return int(answers[np.argmin(e.rank[answers])]) if len(answers) else None


def _rows(e: Explanation, label: Hashable) -> list[int]:
    """Positions of the rows with this label."""
    try:
        found = e.rows.index.get_indexer_for([label])
    except (TypeError, ValueError, KeyError):
        # A value that this index cannot hold is not a label.
        return []
    return [int(i) for i in found if i >= 0]


ABOUT = (
    "row", "rank", "status", "wanted", "predicted", "probability_now", "probability", "output_now", "output", "cost",
    "changes", "changed", "noted", "why_not",
)  # fmt: skip
"""The columns before the features."""
# Features whose changes fit into one integer together with the number of a group.
WORD = 30


def frame_of(explanation: Explanation) -> pd.DataFrame:
    """Results and checks of each line, then its features; see `Explanation.frame`."""
    e, task, (answer, row) = explanation, explanation.task, explanation.lines
    classes = pd.Series(list(task.classes), dtype=None if task.classes else str).dtype
    found, status = of_answers(e), e.row_status[row]
    status[answer >= 0] = found.pop("status")[answer[answer >= 0]]
    about = {
        "row": e.rows.index[row].to_flat_index(),
        "status": pd.Series(status, dtype=str),
        "wanted": _wanted(e.wanted[row], classes if e.all_wanted else _nullable(classes)),
        "probability_now" if task.classes else "output_now": pd.Series(e.score_now[row]),
    }
    if e.noted:
        said = ["; ".join(e.noted.get(i, ())) or None for i in range(len(e))]
        about["noted"] = pd.Series(np.array(said, dtype=object)[row], dtype=str)
    if e.reasons:
        about["why_not"] = pd.Series(e.why_not.to_numpy()[row], dtype=str)
    kinds = {"changed": str, "predicted": _nullable(classes)}
    about |= {name: _taken(pd.Series(values, dtype=kinds.get(name)), answer) for name, values in found.items()}
    features = {name: _taken(as_trained(e.answers[name], task), answer) for name in task.schema.names}
    return pd.DataFrame({**{column_named(name, task): about[name] for name in ABOUT if name in about}, **features})


def of_answers(explanation: Explanation) -> dict[str, NDArray[Any]]:
    """What files and `frame` say of each answer, apart from its features."""
    task, checks = explanation.task, explanation.checks
    return {
        "rank": explanation.rank,
        "status": np.where(checks.passed, "verified", "best_effort"),
        **({"predicted": checks.predicted} if task.classes else {}),
        "probability" if task.classes else "output": checks.score,
        "cost": checks.cost,
        "changes": checks.changes,
        "changed": changed_names(checks.changed, task.schema.names),
    }


def _wanted(wanted: NDArray[Any], classes: Any) -> pd.Series:
    """The targets of rows, in the dtype of the classes; as text if some have more than one class."""
    values = wanted.tolist()
    if any(isinstance(w, Outcome) for w in values):
        return pd.Series([None if w is None else str(w) for w in values], dtype=str)
    return pd.Series(wanted, dtype=classes)


def as_trained(column: pd.Series, task: Task) -> pd.Series:
    """A feature's column in the training rows' dtype; in its own, if a value would not survive that."""
    name, dtype = column.name, task.dtypes[column.name]
    if column.dtype == dtype:
        return column
    try:
        found = column.astype(dtype)
    except (TypeError, ValueError):
        return column
    before, after = (task.schema.natural(t.to_frame(name), [name])[name] for t in (column, found))
    same = np.array_equal(before, after, equal_nan=True) and (column.isna() == found.isna()).all()
    return found if same else column


def _taken(column: pd.Series, answer: NDArray[np.int64]) -> pd.api.extensions.ExtensionArray:
    """The values of a column on each line, in a nullable dtype, whether or not some are missing."""
    return column.astype(_nullable(column.dtype)).array.take(answer, allow_fill=True)


def _nullable(dtype: Any) -> Any:
    """The dtype that keeps integers and booleans if some are missing."""
    kind = dtype.kind if isinstance(dtype, np.dtype) else ""
    return {"i": pd.Int64Dtype(), "u": pd.Int64Dtype(), "b": pd.BooleanDtype()}.get(kind, dtype)


def column_named(about: str, task: Task) -> str:
    """The name of a column that is not a feature: `fcx_...` if a feature has its name."""
    while about in task.schema:
        about = f"fcx_{about}"
    return about


def changed_names(changed: NDArray[np.bool_], names: tuple[str, ...]) -> NDArray[Any]:
    """The names of the features that differ, comma-separated, computed once per set of features."""
    group = np.zeros(len(changed), dtype=np.int64)
    for start in range(0, len(names), WORD):
        part = changed[:, start : start + WORD]
        group = pd.factorize((group << WORD) | (part @ (1 << np.arange(part.shape[1]))))[0]
    _, first = np.unique(group, return_index=True)
    words = np.empty(len(first), dtype=object)
    words[:] = [", ".join(name for name, yes in zip(names, changed[i], strict=True) if yes) for i in first]
    return words[group]
