"""An explanation as one table, and which line of it is meant: by number, or by the label of its row."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, Fault, did_you_mean
from ..schema import Schema
from ..text import counted, cut

if TYPE_CHECKING:
    from .explanation import Explanation

# Among more labels than these it would take too long to look for the nearest.
NEAR = 10_000
LABEL = 60
"""Letters of a label that are shown."""
SEE = "See .frame for all answers."
BARE = {
    "already": "has the class wanted already, so there is no answer for it",
    "impossible": "has no answer, and it is proved that there is none: it is impossible",
    "not_found": "has no answer: none was found (not_found)",
    "timed_out": "has no answer: its budget was spent before one was found (timed_out)",
}


class NoAnswerError(DataError, IndexError):
    """No answer of that number."""


def answer_number(explanation: Explanation, which: Hashable) -> int:
    """The number, from 0, of an answer: the whole number given, or the first answer of the row with this label.

    A whole number is never taken for a label, so that it means the same whatever the rows are called.
    """
    e, count = explanation, len(explanation.answers)
    if not isinstance(which, int | np.integer) or isinstance(which, bool):
        return _of_label(e, which)
    if not -count <= which < count:
        there = f"there are {count:,}, counted from 0" if count else "there is none"
        problem = f"does not exist: {there if count != 1 else 'there is one, number 0'}"
        raise NoAnswerError("", [Fault(f"answer {which}", problem, _same_label(e, which) or SEE)])
    return int(which) % count


def _of_label(e: Explanation, label: Hashable) -> int:
    rows, place = _rows(e, label), f"row {cut(label, LABEL)}"
    if not len(rows):
        near = did_you_mean(label, e.rows.index) if len(e) <= NEAR else ""
        raise DataError("", [Fault(place, "no row that was asked has this label", near or SEE)])
    if len(rows) > 1:
        problem = f"{counted(len(rows), 'row')} have this label"
        raise DataError("", [Fault(place, problem, "Give the number of the answer, counted from 0.")])
    answers = np.flatnonzero(e.place == rows[0])
    if not len(answers):
        raise DataError("", [Fault(place, BARE[str(e.row_status[rows[0]])], _why(e, int(rows[0])))])
    return int(answers[np.argmin(e.rank[answers])])


def _same_label(e: Explanation, number: int | np.integer) -> str:
    """For a number that is no answer's but the label of a row: what that row has."""
    rows = _rows(e, number)
    if len(rows) != 1:
        return ""
    answers = np.flatnonzero(e.place == rows[0])
    if not len(answers):
        return f"The row with the label {number} {BARE[str(e.row_status[rows[0]])]}."
    return f"The row with the label {number} has answer {answers[np.argmin(e.rank[answers])]}."


def _rows(e: Explanation, label: Hashable) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Positions of the rows with this label."""
    try:
        found = e.rows.index.get_indexer_for([label])
    except (TypeError, ValueError, KeyError):
        # What cannot stand in an index of this kind is nobody's label.
        return np.empty(0, dtype=np.int64)
    return np.asarray(found[found >= 0], dtype=np.int64)


def _why(e: Explanation, position: int) -> str:
    return e.reasons[position].words if position in e.reasons else "See .status for all rows."


# Features whose changes fit into one whole number beside the number of a group.
WORD = 30


def frame_of(explanation: Explanation) -> pd.DataFrame:
    """What was found and checked of each answer, then its features; see `Explanation.frame`."""
    lines = pd.concat([_about(explanation), explanation.answers], axis=1)
    if len(explanation.bare):
        lines = _with_bare(explanation, _nullable(lines))
    return lines.iloc[explanation.lines].reset_index(drop=True)


def column_name(about: str, schema: Schema) -> str:
    """What a column that is no feature is called: `fcx_...` where a feature has its name."""
    while about in schema:
        about = f"fcx_{about}"
    return about


def _about(e: Explanation) -> pd.DataFrame:
    c = e.checks
    values = {
        "row": e.rows.index[e.place].to_flat_index(),
        "rank": e.rank,
        "status": np.where(c.passed, "verified", "best_effort"),
        "wanted": c.wanted,
        "predicted": c.predicted,
        "probability": c.probability,
        "cost": c.cost,
        "changes": c.changes,
        "changed": changed_names(c.changed, e.task.schema.names),
    }
    if e.reasons:
        values["why_not"] = e.why_not.to_numpy()[e.place]
    return pd.DataFrame({e.column(k): v for k, v in values.items()})


def changed_names(changed: NDArray[np.bool_], names: tuple[str, ...]) -> NDArray[Any]:
    """The names of the features that differ, with commas between them, made once for each set of features."""
    group = np.zeros(len(changed), dtype=np.int64)
    for start in range(0, len(names), WORD):
        part = changed[:, start : start + WORD]
        group = pd.factorize((group << WORD) | (part @ (1 << np.arange(part.shape[1]))))[0]
    _, first = np.unique(group, return_index=True)
    words = np.empty(len(first), dtype=object)
    words[:] = [", ".join(name for name, yes in zip(names, changed[i], strict=True) if yes) for i in first]
    return words[group]


def _with_bare(e: Explanation, lines: pd.DataFrame) -> pd.DataFrame:
    """A line at the end for each row without an answer, with its label, status, class wanted and reason."""
    bare = e.bare
    told = {"row": e.rows.index[bare].to_flat_index(), "status": e.row_status[bare], "wanted": e.wanted[bare]}
    if e.reasons:
        told["why_not"] = e.why_not.to_numpy()[bare]
    longer = lines.reindex(range(len(lines) + len(bare)))
    for about, values in told.items():
        name = e.column(about)
        longer[name] = pd.concat([lines[name], pd.Series(values).astype(lines[name].dtype)], ignore_index=True)
    return longer


def _nullable(lines: pd.DataFrame) -> pd.DataFrame:
    """Whole numbers that may be missing stay whole numbers."""
    whole = {c: "Int64" for c in lines.columns if isinstance(lines[c].dtype, np.dtype) and lines[c].dtype.kind in "iu"}
    return lines.astype(whole)
