"""How far a column's values lie apart: the grid on which they all stand, as far as their number tells."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .grid import exact, is_too_fine

# Beyond this many decimals a file shows arithmetic, not precision.
MOST_DECIMALS = 12
# A step that cuts the range finer than this is noise, not precision.
MAX_CUTS = 10**9
# With fewer different values, those between them may only not have been seen yet.
FEWEST = 10
# A divisor that so many values would share by chance once in so many columns is taken for meant.
CHANCE = 1e-6


def decimal_step(values: NDArray[np.float64]) -> float | None:
    """The coarsest power of ten that holds every value, if there is one worth using."""
    largest = float(np.abs(values).max())
    for decimals in range(MOST_DECIMALS + 1):
        step = float(f"1e-{decimals}")
        if is_too_fine(largest, step) or float(values.max() - values.min()) / step > MAX_CUTS:
            break
        if np.array_equal(np.round(values, decimals), values):
            return step
    return None


def whole_step(values: NDArray[np.float64]) -> int:
    """How far rising whole numbers lie apart: the greatest divisor of their differences, or 1 if it may be chance."""
    return _divisor(np.diff(values))


def coarser(step: float, values: NDArray[np.float64]) -> float:
    """A multiple of the step of which every value is a multiple too, such as 0.25; or the step itself."""
    return float(_divisor(np.rint(values / step)) * exact(step))


def _divisor(parts: NDArray[np.float64]) -> int:
    divisor = int(np.gcd.reduce(parts.astype(np.int64))) if len(parts) + 1 >= FEWEST else 1
    is_meant = divisor > 1 and len(parts) * math.log(divisor) >= -math.log(CHANCE)
    return divisor if is_meant else 1
