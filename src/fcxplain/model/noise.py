"""Standard normal noise that depends on a row and a seed alone: never on the batch, its order or its size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

# Steele, Lea & Flood (2014): the constants of SplitMix64, whose output step is a good hash of a counter.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def row_noise(codes: NDArray[np.int64], latent: int, seed: int, draw: int = 0) -> NDArray[np.float64]:
    """`n x latent` standard normal values for rows of grid codes, `n x features`; equal rows get equal noise."""
    with np.errstate(over="ignore"):
        key = np.full(len(codes), _mixed(np.uint64(seed % 2**64)) ^ _mixed(np.uint64(draw) + GOLDEN))
        for column in codes.T:
            key = _mixed(key + GOLDEN + column.astype(np.int64).view(np.uint64))
        counters = key[:, None] + GOLDEN * np.arange(1, latent + 1, dtype=np.uint64)
        bits = _mixed(counters) >> np.uint64(11)
    return np.asarray(ndtri((bits.astype(np.float64) + 0.5) / 2.0**53))


def _mixed(value: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    value = (value ^ (value >> np.uint64(30))) * FIRST
    value = (value ^ (value >> np.uint64(27))) * SECOND
    return np.asarray(value ^ (value >> np.uint64(31)))
