"""How far a model's answers agree with the true classes, and whether they would do so better in another order.

Every class counts alike, however rare: then an honest model, weak as it may be, agrees at least as well as chance, and
so does one that answers a rare class too often. Only classes in the wrong order do worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# How much better another order must agree, and by how many standard errors, to be more than a bad model or chance.
FAR, ERRORS = 0.1, 4.0
# A model that answers the same to all rows has no order; only that it answers the rarer class gives it away.
FAR_ALONE = 0.3


@dataclass(frozen=True)
class Agreement:
    """The share of rows that agree, each class counted alike: with the names in the order given, and in the best."""

    given: float
    best: float
    order: tuple[Any, ...]
    """The names in the order in which they agree best with the model's own classes."""
    is_other: bool
    """Whether the best order is another one, and so much better that this is no accident."""


def agreement(answers: NDArray[np.int64], labels: pd.Series, names: Sequence[Any]) -> Agreement | None:
    """How far answers, as places of the model's classes, agree with labels; None where no label is one of the names."""
    # Slow to load, and most who import this module never come here.
    from scipy.optimize import linear_sum_assignment

    codes = pd.Index(names, tupleize_cols=False).get_indexer(pd.Index(labels, tupleize_cols=False))
    known = codes >= 0
    if not known.any():
        return None
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, (answers[known], codes[known]), 1)
    # Of a class that no label has, nothing can be said.
    seen = np.flatnonzero(counts.sum(axis=0))
    label = np.arange(len(names))
    is_constant = bool((counts.sum(axis=1) > 0).sum() == 1)
    rows = np.full(len(names), known.sum() / len(seen)) if is_constant else np.maximum(counts.sum(axis=0), 1)
    shares = counts / rows
    # Where nothing speaks for another order, the one given stands.
    sure = shares[np.ix_(seen, seen)] + 1e-9 * np.eye(len(seen))
    label[seen] = seen[linear_sum_assignment(sure, maximize=True)[1]]
    given, best = (float(s[seen].mean()) for s in (np.diag(shares), shares[np.argsort(label), np.arange(len(names))]))
    is_other = best - given > FAR_ALONE if is_constant else _is_other(shares, rows, label)
    return Agreement(given, best, tuple(names[i] for i in label.tolist()), bool(is_other))


def _is_other(shares: NDArray[np.float64], rows: NDArray[np.float64], label: NDArray[np.int64]) -> bool:
    """Whether the classes that would be renamed agree far better then."""
    moved = [(i, j) for i, j in enumerate(label.tolist()) if i != j]
    if not moved:
        return False
    gap = float(np.mean([shares[i, j] - shares[j, j] for i, j in moved]))
    error = float(np.sqrt(sum(1 / rows[j] for _, j in moved))) / len(moved)
    return gap > max(FAR, ERRORS * error)
