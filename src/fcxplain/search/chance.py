"""Random numbers by counting: each is a function of a key and a number, so that nothing depends on what came before."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .space import Codes, Floats

Keys = NDArray[np.uint64]
# SplitMix64 (Steele, Lea and Flood 2014): an odd step, and what mixes the bits of each number.
STEP = np.uint64(0x9E3779B97F4A7C15)
MIXING = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


def keys_of(codes: Codes, wanted: Codes, seed: int) -> Keys:
    """A key for each row, from what is asked and the seed alone."""
    key = np.full(len(codes), seed, dtype=np.uint64)
    for column in (wanted, *codes.T):
        key = _mixed(key + column.astype(np.uint64) * STEP)
    return key


def derived(keys: Keys, numbers: Codes) -> Keys:
    """A key of its own for each number of a key."""
    return _mixed(keys + (numbers.astype(np.uint64) + np.uint64(1)) * STEP)


def uniform(keys: Keys, number: int) -> Floats:
    """A number from 0 up to 1 for each key; `number` tells apart those of the same key."""
    step = np.uint64((number + 1) * int(STEP) % 2**64)
    return np.asarray((_mixed(keys + step) >> np.uint64(11)) * 2.0**-53)


def _mixed(bits: Keys) -> Keys:
    for shift, factor in MIXING:
        bits = (bits ^ (bits >> np.uint64(shift))) * factor
    return np.asarray(bits ^ (bits >> np.uint64(31)))
