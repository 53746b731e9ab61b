"""Models that fail: where one fails on many rows together, it is asked about half of them, so that one bad row costs
no other its answer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import ClassifierError
from ..schema import Natural
from .found import Found, one_after_the_other
from .oracle import Oracle
from .space import Codes, Present

UNKNOWN = -1


def found_by_halves(find: Callable[[Present], Found], present: Present) -> Found:
    """What a search finds for rows; single rows on which the model fails are told as failures."""
    features = present.codes.shape[1]
    try:
        return find(present)
    except ClassifierError as error:
        if len(present) == 1:
            return Found.failed(features, str(error))
    half = len(present) // 2
    parts = [present.take(slice(None, half)), present.take(slice(half, None))]
    return one_after_the_other([found_by_halves(find, part) for part in parts], features)


def classes_by_halves(oracle: Oracle, rows: pd.DataFrame, natural: Natural) -> tuple[Codes, dict[int, str]]:
    """Places of the classes that rows have, `UNKNOWN` for those on which the model fails; and what it said of these.

    A model that fails on every row is an error.
    """
    classes, failures = np.full(len(rows), UNKNOWN), {}
    left = [np.arange(len(rows))]
    while left:
        which = left.pop()
        try:
            some = rows if len(which) == len(rows) else rows.iloc[which]
            classes[which] = oracle.classes(some, _taken(natural, which, len(rows)))
        except ClassifierError as error:
            if len(which) > 1:
                left += [which[: len(which) // 2], which[len(which) // 2 :]]
            else:
                failures[int(which[0])] = str(error)
    if failures and len(failures) == len(rows):
        raise ClassifierError(failures[0])
    return classes, failures


def _taken(natural: Natural, which: NDArray[np.int64], rows: int) -> Natural:
    return natural if len(which) == rows else {n: v[which] for n, v in natural.items()}
