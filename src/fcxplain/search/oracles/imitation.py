"""Something that answers nearly as the model does, by codes, and how far it is off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...classifier.rows import legal_codes
from ..space import SearchSpace
from ..spending import Spending
from .codes import CodeOracle
from .oracle import FAR
from .tables import TableOracle

# Training rows, and the same with some features changed, that say how far an imitation is off; and how many queries
# each of them takes.
NEAR, QUERIES = 512, 3
# An imitation that is off by more than this part of how far margins differ from row to row costs more in the quality of
# answers than it saves in queries.
WORST = 0.18


@dataclass(frozen=True, eq=False)
class Imitation:
    """Something that answers nearly as the model does, by codes, and how far it is off."""

    oracle: CodeOracle
    spread: float
    """The standard deviation of its margins from the model's own, beside what a row's candidates have in common."""


def measured_imitation(space: SearchSpace, oracle: CodeOracle, model: TableOracle) -> Imitation | None:
    """An imitation held against the model on training rows and rows near them; None if it is no help."""
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
    return Imitation(oracle, max(spread, 1e-3)) if spread < WORST * float(np.std(seen)) else None
