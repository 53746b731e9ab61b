"""An imitation of the model as a function of codes, and its error. It is searched instead of the model, or screens
candidates for a model that was read but is slow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...classifier.rows import legal_codes
from ..space import Codes, Floats, Rows, SearchSpace
from ..spending import Spending
from .code_models import CodeModel
from .codes import CodeOracle
from .oracle import FAR, Oracle

# Training rows on which the error of an imitation is measured, as they are and with some features changed; and the
# queries that each of them takes.
NEAR, QUERIES = 512, 3
# An imitation with an error above this part of the spread of margins across rows costs more in the quality of answers
# than it saves in queries.
WORST = 0.18
# The least error assumed of an imitation.
LEAST = 1e-3
# A slow model is not queried about candidates that an imitation puts this many standard deviations behind the border.
HOPELESS = 2.0


@dataclass(frozen=True, eq=False)
class Imitation:
    """An imitation of the model as a function of codes, and its error."""

    oracle: CodeOracle
    spread: float
    """The standard deviation of its error, apart from the part that a row's candidates share."""
    error: float
    """The root mean square of its error."""
    range: float
    """The standard deviation of the model's margins across rows."""

    @property
    def is_close(self) -> bool:
        """Whether it can be searched instead of the model."""
        return self.spread < WORST * self.range


def measured_imitation(space: SearchSpace, oracle: CodeOracle, model: Oracle) -> Imitation:
    """Measure the error of an imitation on training rows and rows near them."""
    task, generator = space.task, np.random.default_rng(0)
    usual = task.sample[generator.permutation(len(task.sample))[:NEAR]]
    rows, movable = np.arange(len(usual)), np.flatnonzero(space.movable)
    beside, others = usual.copy(), legal_codes(task.schema, len(usual), generator)
    for _ in range(2 if len(movable) else 0):
        feature = generator.choice(movable, len(usual))
        beside[rows, feature] = others[rows, feature]
    natural = task.encoder.natural_of_codes(usual)
    wanted = task.outcomes_to_try(task.classifier.probabilities(task.table(natural)))
    present = space.present(natural, wanted if not task.classes else wanted.all_of(len(task.classes) - 1))
    off, near, seen = np.zeros((2, len(usual))), np.ones(len(usual), dtype=bool), []
    for turn, codes in enumerate((usual, beside)):
        own = model.query(present, rows, codes, Spending.start(np.ones(len(usual), dtype=np.int64))).margin
        off[turn], near = oracle.margins(present, rows, codes) - own, near & (np.abs(own) < FAR)
        seen.append(np.clip(own, -FAR, FAR))
    apart = (off[1] - off[0])[near]
    spread = 1.4826 * float(np.median(np.abs(apart))) if len(apart) else np.inf
    error = float(np.sqrt(np.mean(off[:, near] ** 2))) if near.any() else np.inf
    return Imitation(oracle, max(spread, LEAST), max(error, LEAST), float(np.std(seen)))


class ScreenedOracle(CodeOracle):
    """A model that was read but is slow: it is not queried about candidates that an imitation finds hopeless."""

    def __init__(self, space: SearchSpace, model: CodeModel, imitation: Imitation, *, rounding: float) -> None:
        super().__init__(space, model, rounding=rounding)
        self.imitation = imitation

    def margins(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """How far candidates are beyond the border of the target outcome; for hopeless ones, an estimate."""
        margin = self.imitation.oracle.margins(present, row, codes)
        near = np.flatnonzero(margin > -HOPELESS * self.imitation.error)
        margin = np.minimum(margin, -self.rounding)
        margin[near] = super().margins(present, row[near], codes[near])
        return margin
