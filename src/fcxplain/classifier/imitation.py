"""Trees that imitate a model, for the search in models that cannot be read.

They learn the model's log-odds, or a regressor's output, for training rows, for training rows with a few features
changed, and for random legal rows. Boosted trees learn these in a second, and need only rows as codes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .reading.ensembles import read_histogram
from .reading.trees import Trees, joined
from .rows import made_up_rows
from .training import BOOSTING_LEVELS

if TYPE_CHECKING:
    from ..task import Task

Floats = NDArray[np.float64]

# Rows of each kind on which the model is queried: training rows, training rows with changes, and random ones.
REAL, CHANGED, RANDOM = 8_000, 24_000, 4_000
# The trees are few and small, since every candidate of the search goes through all of them.
ITERATIONS, LEAVES, RATE, FEWEST = 80, 20, 0.25, 10
# Log-odds are clipped to this.
FAR = 6.0
# Rows from which the initial score is computed.
PROBED = 64


@dataclass(frozen=True, eq=False)
class ImitatingTrees:
    """Boosted trees on rows as codes: a score per class, or the lead of the second of two classes."""

    trees: Trees
    base: Floats
    """The initial scores of all rows."""
    columns: Callable[[NDArray[np.int64]], Floats]
    """The splits of the trees, on codes."""


def imitating_trees(task: Task, *, seed: int = 0) -> ImitatingTrees:
    """Learn the predictions of a task's model, with at most 36,000 queries."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    draws, classes = np.random.default_rng(seed), len(task.classes)
    real = task.sample[draws.permutation(len(task.sample))[:REAL]]
    codes = np.concatenate([real, made_up_rows(real, task.schema, CHANGED, RANDOM, draws)])
    goals = _to_learn(task.classifier.probabilities(task.encoder.from_codes(codes)))
    is_category = np.array([f.is_category and len(f.levels) <= BOOSTING_LEVELS for f in task.schema])
    x, read = codes.astype(np.float64), []
    for k, goal in enumerate(goals.T):
        model = HistGradientBoostingRegressor(
            max_iter=ITERATIONS,
            max_leaf_nodes=LEAVES,
            learning_rate=RATE,
            min_samples_leaf=FEWEST,
            categorical_features=is_category if is_category.any() else None,
            early_stopping=False,
            random_state=0,
        )
        read.append(read_histogram(model.fit(x, goal), k, goals.shape[1]))
    trees, matrix = joined([tree for own in read for tree in own.trees]), read[0].matrix
    raw = np.column_stack([own.raw(x[:PROBED])[:, -1] for own in read])
    raw = raw if classes > 2 else np.column_stack([np.zeros(len(raw)), raw])
    base = np.median(raw - trees.sums(matrix(x[:PROBED])), axis=0)
    return ImitatingTrees(trees, base, lambda rows: matrix(rows.astype(np.float64)))


def _to_learn(said: Floats) -> Floats:
    """The targets of the trees: log-odds, one lead for two classes; or a regressor's output."""
    if said.shape[1] == 1:
        return said
    logits = np.log(np.clip(said, np.exp(-2 * FAR), 1.0))
    return np.asarray((logits[:, 1:] - logits[:, :1] if said.shape[1] == 2 else logits).clip(-FAR, FAR))
