"""The interface of an oracle: how far candidates are from the target outcome, and whether they get it."""

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
    """The replies to candidates: how far they are beyond the border of the target outcome, and whether they get it.

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
    """Whether it is the user's own network, whose queries are counted, but not limited."""
    additive: bool
    """Whether margins are known to be a sum over features."""
    rows_at_once: int
    """Rows that are searched together: where a query costs little, more of them share the fixed cost of a step."""

    def decisions(self, rows: pd.DataFrame, natural: Natural) -> Predictions:
        """The model's decisions about rows as they are."""

    def query(self, present: Rows, row: Codes, codes: Codes, spending: Spending) -> Replies:
        """The replies to candidates; if the budget ends, the first candidates of each row are served."""
