"""Which counterfactuals a metric describes, so that all of them describe the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..explanation import Explanation
from ..explanation.density import alike, sampled, taken

__all__ = ["alike", "first", "handed_out", "natural_answers", "rows_with", "sampled", "taken"]

Bools = NDArray[np.bool_]
Places = NDArray[np.int64]


def handed_out(answer: Explanation) -> Places:
    """Places of all the answers, of every rank, for rows that were asked."""
    return np.flatnonzero(answer.asked[answer.place])


def first(answer: Explanation) -> Places:
    """Places of the answers of rank 1 for rows that were asked."""
    return np.flatnonzero(answer.asked[answer.place] & (answer.rank == 1))


def rows_with(answer: Explanation, good: Bools) -> Bools:
    """Which of the rows asked have an answer of rank 1 that is good; `good` is told for each answer."""
    chosen = first(answer)
    found = np.zeros(len(answer), dtype=bool)
    found[answer.place[chosen[good[chosen]]]] = True
    return found[answer.asked]


def natural_answers(answer: Explanation, which: Places) -> dict[str, NDArray[Any]]:
    """Natural columns of some of the answers."""
    return answer.task.schema.natural(answer.answers.iloc[which])
