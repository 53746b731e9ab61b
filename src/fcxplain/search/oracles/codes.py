"""A model that was read, queried by codes; and how far rounding carries what was read from the model itself."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...classifier.protocol import Predictions
from ...classifier.rows import legal_codes
from ...outcome import Outcomes
from ...schema import Natural
from ..space import Codes, Floats, Rows, SearchSpace
from ..spending import Spending
from .code_models import CodeModel
from .oracle import FAR, Replies
from .tables import decisions_of

# Margins by codes may differ from the model's own by so many times as much as they were seen to, and by no less than
# this; a model that was read otherwise than this, near the border of a class, was not read rightly.
MUCH, LEAST, WRONG = 16.0, 1e-6, 1e-3
# What a sum of shares may be off by.
TIE = 1e-9
# Legal rows, and as many training rows, on which a model that was read is held against itself.
PROBES = 256


class CodeOracle:
    """A model that was read, by codes. It is the user's own model that has the last word on answers."""

    cheap = True

    def __init__(
        self,
        space: SearchSpace,
        model: CodeModel,
        *,
        rounding: float = 0.0,
        built_in: float = 0.0,
        is_own: bool = False,
    ) -> None:
        self.space, self.model, self.additive, self.is_own = space, model, model.additive, is_own
        self.rounding, self.built_in = rounding, built_in

    def least(self, wanted: Outcomes) -> Floats:
        """The margin that each row's candidates must be above to be shown to the model, which has the last word.

        What lies on a border that belongs to the outcome, as shares of trees often do, is shown to it.
        """
        on_border = min(TIE, self.rounding) if self.space.task.classes else self.rounding
        return np.where(wanted.closed, -on_border, self.rounding)

    def query(self, present: Rows, row: Codes, codes: Codes, spending: Spending) -> Replies:
        """See `Oracle`."""
        if spending.is_late:
            spending.refuse(row)
            return Replies(np.full(len(row), -np.inf), np.zeros(len(row), dtype=bool))
        if self.is_own:
            spending.count(row)
            spending.show(len(row))
        margin = self.margins(present, row, codes)
        return Replies(margin, margin > self.least(present.wanted)[row])

    def decisions(self, rows: pd.DataFrame, natural: Natural) -> Predictions:
        """See `Oracle`."""
        return decisions_of(self.space.task, rows)

    def margins(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """How far candidates are from the outcome wanted."""
        margin = present.wanted[row].lead(self.logits(present, row, codes), self.built_in)
        return margin if present.border is None else margin - present.border[row]

    def logits(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """Of candidates, `n x classes`."""
        if not len(row):
            return np.empty((0, max(2, len(self.space.task.classes))))
        return self.model.logits(present, row, codes)


def seen_rounding(space: SearchSpace, model: CodeModel) -> float | None:
    """How far the user's model's margins may be from those by codes; None where these are not its own."""
    task, generator = space.task, np.random.default_rng(0)
    usual = task.sample[generator.permutation(len(task.sample))[:PROBES]]
    codes = np.concatenate([legal_codes(task.schema, PROBES, generator), usual])
    natural = task.encoder.natural_of_codes(codes)
    said = task.classifier.probabilities(task.table(natural))
    # Of each row, the lead of one class or another.
    wanted = task.outcomes_to_try(said)
    found = wanted.lead(CodeOracle(space, model).logits(space.present(natural, wanted), np.arange(len(codes)), codes))
    own = wanted.margin(said)
    near = np.abs(own) < (FAR if task.classes else np.inf)
    seen = float(np.abs(found - own)[near].max(initial=0.0))
    return max(LEAST, MUCH * seen) if seen < WRONG else None
