"""What answers for the model in the search: how far candidates are from the outcome wanted, and whether they get it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pandas as pd

from ...classifier.protocol import Predictions
from ...schema import Natural
from ..space import Bools, Codes, Floats, Rows, SearchSpace
from ..spending import Spending

# Margins farther from 0 than this are not compared: probabilities near 0 and 1 lose digits.
FAR = 5.0


@dataclass(frozen=True, eq=False)
class Replies:
    """The model's answers to candidates: how far they are beyond what is wanted, and whether they get it.

    Candidates that the budget did not reach have a margin of minus infinity.
    """

    margin: Floats
    valid: Bools


class Oracle(Protocol):
    """Queries a model about candidates."""

    space: SearchSpace
    cheap: bool
    """Whether a query costs next to nothing."""
    is_own: bool
    """Whether it is the user's own network, which is queried freely, but counted."""
    additive: bool
    """Whether margins are known to be a sum over features."""

    def decisions(self, rows: pd.DataFrame, natural: Natural) -> Predictions:
        """What the model decides about rows as they are."""

    def query(self, present: Rows, row: Codes, codes: Codes, spending: Spending) -> Replies:
        """The model's answers to candidates; the earlier ones of each row come first where the budget ends."""
