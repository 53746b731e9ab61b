"""Rows, as codes, on which a model is queried so that another model can learn its predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..schema import Schema
from .rows import legal_codes

# The most features changed at once in a training row.
CHANGES = 4


def made_up_rows(
    codes: NDArray[np.int64], schema: Schema, changed: int, random: int, draws: np.random.Generator
) -> NDArray[np.int64]:
    """At most `changed` rows near the training rows, and at most `random` legal rows; fewer for few training rows."""
    near, far = min(changed, max(2_000, 8 * len(codes))), min(random, max(1_000, 2 * len(codes)))
    return np.concatenate([changed_rows(codes, schema, near, draws), random_rows(codes, schema, far, draws)])


def random_rows(codes: NDArray[np.int64], schema: Schema, count: int, draws: np.random.Generator) -> NDArray[np.int64]:
    """Legal rows drawn uniformly, but only with levels of training rows: models may refuse others."""
    drawn = legal_codes(schema, count, draws)
    for j, feature in enumerate(schema):
        if feature.is_category:
            drawn[:, j] = draws.choice(np.unique(codes[:, j]), count)
    return drawn


def changed_rows(codes: NDArray[np.int64], schema: Schema, count: int, draws: np.random.Generator) -> NDArray[np.int64]:
    """Training rows in which one to `CHANGES` features have the value of another row, or any legal one."""
    rows = codes[draws.integers(0, len(codes), count)]
    width = rows.shape[1]
    others = np.stack([codes[draws.integers(0, len(codes), count), j] for j in range(width)], axis=1)
    anything = random_rows(codes, schema, count, draws)
    # Counterfactuals differ in mutable features, so the imitation must be good there.
    may = np.asarray([f.mutable for f in schema])
    chances = draws.random((count, width)) + ~(may if may.any() else np.ones(width, dtype=bool))
    touched = chances.argsort(axis=1).argsort(axis=1) < draws.integers(1, CHANGES + 1, (count, 1))
    touched &= chances < 1
    return np.where(touched, np.where(draws.random((count, width)) < 0.5, others, anything), rows)
