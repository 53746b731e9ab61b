"""A model that was read, queried by codes; and how far rounding carries what was read from the model itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...classifier.rows import legal_codes
from ...schema import Natural
from ..space import Codes, Floats, Rows, SearchSpace
from ..spending import Spending
from .code_models import CodeModel
from .oracle import FAR, Replies, from_border, lead, margins
from .tables import classes_of

# Margins by codes may differ from the model's own by so many times as much as they were seen to, and by no less than
# this; a model that was read otherwise than this, near the border of a class, was not read rightly.
MUCH, LEAST, WRONG = 16.0, 1e-6, 1e-3
# Legal rows, and as many training rows, on which a model that was read is held against itself.
PROBES = 256
# Numbers looked up at a time: they should stay in the processor's cache.
LOOKED_UP = 2**17


class CodeOracle:
    """A model that was read, by codes. It is the user's own model that has the last word on answers."""

    cheap = True

    def __init__(
        self,
        space: SearchSpace,
        model: CodeModel,
        *,
        rounding: float = 0.0,
        threshold: float | None = None,
        is_own: bool = False,
    ) -> None:
        self.space, self.model, self.additive, self.is_own = space, model, model.additive, is_own
        self.rounding, self.threshold = rounding, threshold

    def query(self, present: Rows, row: Codes, codes: Codes, spending: Spending) -> Replies:
        """See `Oracle`."""
        if spending.is_late:
            spending.refuse(row)
            return Replies(np.full(len(row), -np.inf), np.zeros(len(row), dtype=bool))
        if self.is_own:
            spending.count(row)
            spending.show(len(row))
        margin = self.margins(present, row, codes)
        if present.border is not None:
            margin = margin - present.border[row]
        return Replies(margin, margin > self.rounding)

    def classes(self, rows: pd.DataFrame, natural: Natural) -> Codes:
        """See `Oracle`."""
        return classes_of(self.space.task, rows)

    def margins(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """How far candidates are from where the class wanted is answered."""
        wanted = present.wanted[row]
        return from_border(lead(self.logits(present, row, codes), wanted), wanted, self.threshold)

    def logits(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """Of candidates, `n x classes`."""
        if not len(row):
            return np.empty((0, len(self.space.task.classes)))
        off_grid = [i for i, some in enumerate(present.off_grid_features) if some]
        for i in off_grid:
            self.model.learn(i, present.natural[self.space.names[i]][present.off_grid[:, i]])
        own = {i: self.model.of_values(i, present.natural[self.space.names[i]]) for i in off_grid}
        size = max(1, LOOKED_UP // len(self.model.start)) if self.model.start.dtype.kind == "i" else len(row)
        parts = (slice(start, start + size) for start in range(0, len(row), size))
        found = [self.model.logits(self._sums(present, row[part], codes[part], own)) for part in parts]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _sums(self, present: Rows, row: Codes, codes: Codes, own: dict[int, NDArray[Any]]) -> NDArray[Any]:
        sums = np.tile(self.model.start, (len(row), 1))
        for i in range(len(self.space.names)):
            sums += self._part(i, present, row, codes[:, i], own)
        return sums

    def _part(self, i: int, present: Rows, row: Codes, codes: Codes, own: dict[int, NDArray[Any]]) -> NDArray[Any]:
        """What one feature adds; `own` has what rows' values add where some are off the grid."""
        if i not in own:
            return self.model.of_codes(i, codes)
        part, stays = self.model.of_codes(i, np.minimum(codes, self.space.tops[i])), codes > self.space.tops[i]
        if stays.any():
            part = np.where(stays[:, None], own[i][row], part)
        return part


def seen_rounding(space: SearchSpace, model: CodeModel) -> float | None:
    """How far the user's model's margins may be from those by codes; None where these are not its own."""
    task, generator = space.task, np.random.default_rng(0)
    usual = task.sample[generator.permutation(len(task.sample))[:PROBES]]
    codes = np.concatenate([legal_codes(task.schema, PROBES, generator), usual])
    # Of each row, the lead of one class or another.
    wanted = np.arange(len(codes)) % len(task.classes)
    present = space.present(task.encoder.natural_of_codes(codes), wanted)
    found = lead(CodeOracle(space, model).logits(present, np.arange(len(codes)), codes), wanted)
    own = margins(task.classifier.probabilities(task.table(present.natural)), wanted, None)
    seen = float(np.abs(found - own)[np.abs(own) < FAR].max(initial=0.0))
    return max(LEAST, MUCH * seen) if seen < WRONG else None
