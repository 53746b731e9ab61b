"""Margins: how far above 0 a class is ahead of the others, in log odds."""

from __future__ import annotations

import numpy as np

from .space import Codes, Floats

# Probabilities nearer to 0 than this are all the same to a margin.
CERTAIN = 1e-6


def lead(logits: Floats, wanted: Codes) -> Floats:
    """How far the class wanted is ahead of the best other."""
    if logits.shape[1] == 2:
        ahead = logits[:, 1] - logits[:, 0]
        return np.asarray(np.where(wanted == 1, ahead, -ahead))
    row = np.arange(len(logits))
    own = logits[row, wanted]
    others = logits.copy()
    others[row, wanted] = -np.inf
    return np.asarray(own - others.max(axis=1))


def margins(probabilities: Floats, wanted: Codes, threshold: float | None) -> Floats:
    """Log odds of the class wanted, counted from where it is answered."""
    logits = np.log(np.clip(probabilities, CERTAIN, 1.0))
    ahead = lead(logits, wanted)
    if threshold is None:
        return ahead
    edge = min(max(threshold, CERTAIN), 1 - CERTAIN)
    shift = np.log(edge / (1 - edge))
    return np.asarray(ahead - np.where(wanted == 1, shift, -shift))
