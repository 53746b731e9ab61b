"""Which counterfactuals a metric describes, so that all of them describe the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..explanation import Explanation
from ..schema import Natural

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


def taken(natural: Natural, which: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Some of the rows of natural columns."""
    return {name: values[which] for name, values in natural.items()}


def alike(natural: Natural) -> Places:
    """A number for each row, the same for rows that are equal; rows in rising order have rising numbers."""
    columns = pd.DataFrame(dict(enumerate(natural.values())))
    numbers = columns.groupby(list(columns), sort=True, dropna=False).ngroup()
    return np.asarray(numbers.to_numpy(), dtype=np.int64)


def sampled(which: Places, most: int, seed: int) -> Places:
    """At most so many of them, in their order, drawn with the seed."""
    if len(which) <= most:
        return which
    return which[np.sort(np.random.default_rng(seed).permutation(len(which))[:most])]
