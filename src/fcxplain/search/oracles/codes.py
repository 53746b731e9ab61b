"""A model that was read as a function of codes, and its rounding error compared with the model itself."""

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

# Rounding error assumed for margins by codes: this multiple of the largest difference seen, and at least this. A larger
# difference than the last one, near the border of a class, means that the reading is wrong.
MUCH, LEAST, WRONG = 16.0, 1e-6, 1e-3
# Rounding error of a sum of shares.
TIE = 1e-9
# Legal rows, and as many training rows, on which a reading is compared with the model.
PROBES = 256


class CodeOracle:
    """A model as a function of codes. The user's own model still checks every answer."""

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
        self.rounding, self.built_in, self.rows_at_once = rounding, built_in, model.rows_at_once

    def least(self, wanted: Outcomes) -> Floats:
        """The margin above which each row's candidates count as good; the model itself decides in the check.

        Candidates on a border that belongs to the outcome are included: shares and scores of trees often lie there.
        Not so for a sum over features, which rounds differently in each batch.
        """
        on_border = min(TIE, self.rounding) if self.space.task.classes else self.rounding
        included = wanted.closed & (bool(self.space.task.classes) or not self.additive)
        return np.where(included, -on_border, self.rounding)

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
        """How far candidates are beyond the border of the target outcome."""
        margin = present.wanted[row].lead(self.logits(present, row, codes), self.built_in)
        return margin if present.border is None else margin - present.border[row]

    def logits(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """The logits of candidates, `n x classes`."""
        if not len(row):
            return np.empty((0, max(2, len(self.space.task.classes))))
        return self.model.logits(present, row, codes)


def seen_rounding(space: SearchSpace, model: CodeModel) -> float | None:
    """The rounding error of margins by codes against the user's model; None if the reading is wrong."""
    task, generator = space.task, np.random.default_rng(0)
    usual = task.sample[generator.permutation(len(task.sample))[:PROBES]]
    codes = np.concatenate([legal_codes(task.schema, PROBES, generator), usual])
    natural = task.encoder.natural_of_codes(codes)
    said = task.classifier.probabilities(task.table(natural))
    # For each row, the lead of one class or another.
    wanted = task.outcomes_to_try(said)
    found = wanted.lead(CodeOracle(space, model).logits(space.present(natural, wanted), np.arange(len(codes)), codes))
    own = wanted.margin(said)
    near = np.abs(own) < (FAR if task.classes else np.inf)
    seen = float(np.abs(found - own)[near].max(initial=0.0))
    return max(LEAST, MUCH * seen) if seen < WRONG else None
