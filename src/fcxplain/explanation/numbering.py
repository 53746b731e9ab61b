"""Which answer is meant: by its number among all answers, or by the label of its row."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from ..errors import DataError, Fault, did_you_mean
from ..markup import counted, cut

if TYPE_CHECKING:
    from .answer import Explanation

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
