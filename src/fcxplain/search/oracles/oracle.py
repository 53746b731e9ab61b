"""What answers for the model in the search: how far candidates are from the class wanted, and whether they get it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from ...schema import Natural
from ..space import Bools, Codes, Floats, Rows
from ..spending import Spending

# Probabilities nearer to 0 than this are all the same to a margin.
CERTAIN = 1e-6
# Margins farther from 0 than this are not compared: probabilities near 0 and 1 lose digits.
FAR = 5.0


def lead(logits: Floats, wanted: Codes) -> Floats:
    """How far the class wanted is ahead of the best other."""
    if logits.shape[1] == 2:
        ahead = logits[:, 1] - logits[:, 0]
        return np.asarray(np.where(wanted == 1, ahead, -ahead))
    row = np.arange(len(logits))
    own = logits[row, wanted]
    others = logits.copy()
    others[row, wanted] = -np.inf
    return np.asarray(own - others.max(axis=1))


def margins(probabilities: Floats, wanted: Codes, threshold: float | None) -> Floats:
    """Log odds of the class wanted, counted from where it is answered."""
    return from_border(lead(np.log(np.clip(probabilities, CERTAIN, 1.0)), wanted), wanted, threshold)


def from_border(ahead: Floats, wanted: Codes, threshold: float | None) -> Floats:
    """How far a lead is from where the class wanted is answered."""
    if threshold is None:
        return ahead
    edge = min(max(threshold, CERTAIN), 1 - CERTAIN)
    shift = np.log(edge / (1 - edge))
    return np.asarray(ahead - np.where(wanted == 1, shift, -shift))


@dataclass(frozen=True, eq=False)
class Replies:
    """The model's answers to candidates: how far above 0 the wanted class is ahead, and whether it is answered.

    Candidates that the budget did not reach have a margin of minus infinity.
    """

    margin: Floats
    valid: Bools


class Oracle(Protocol):
    """Queries a model about candidates."""

    cheap: bool
    """Whether a query costs next to nothing."""
    is_own: bool
    """Whether it is the user's own network, which is queried freely, but counted."""
    additive: bool
    """Whether margins are known to be a sum over features."""

    def classes(self, rows: pd.DataFrame, natural: Natural) -> Codes:
        """Places of the classes that rows have as they are."""

    def query(self, present: Rows, row: Codes, codes: Codes, spending: Spending) -> Replies:
        """The model's answers to candidates; the earlier ones of each row come first where the budget ends."""
