"""What the model says of candidates: by codes where it is a network (`by_codes`), else by tables (`by_tables`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pandas as pd

from ..schema import Natural
from .ledger import Ledger
from .space import Bools, Codes, Floats, Present


@dataclass(frozen=True, eq=False)
class Asked:
    """The model's answers to candidates: how far above 0 the wanted class is ahead, and whether it is answered.

    Candidates that the budget did not reach have a margin of minus infinity.
    """

    margin: Floats
    valid: Bools


class Oracle(Protocol):
    """Asks a model about candidates."""

    cheap: bool
    """Whether a question costs next to nothing."""
    additive: bool
    """Whether margins are known to be a sum over features."""

    def classes(self, rows: pd.DataFrame, natural: Natural) -> Codes:
        """Places of the classes that rows have as they are."""

    def ask(self, present: Present, row: Codes, codes: Codes, ledger: Ledger) -> Asked:
        """The model's answers to candidates; the earlier ones of each row come first where the budget ends."""
