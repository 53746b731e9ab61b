"""How fine a grid may be. Numbers are taken as they are written, so that 0.1 has one decimal."""

from __future__ import annotations

import math
import sys
from decimal import Decimal

# A continuous feature without a step of its own is cut into at least this many values.
DEFAULT_CUTS = 100_000
# Whole numbers up to here are exact in a double.
EXACT = 2**53
# Grids with more values than this do not survive the few roundings of encoding in double precision.
FINEST = 2**48
# Powers of ten up to here are exact in a double, so that one division gives the number of a file.
MAX_DECIMALS = 22


def exact(value: float) -> Decimal:
    """The number as it is written, not as it is stored."""
    return Decimal(repr(float(value)))


def decimals_of(value: float) -> int:
    """Number of digits behind the decimal point."""
    return max(0, -int(exact(value).normalize().as_tuple().exponent))


def default_step(low: float, high: float) -> float:
    """A power of ten that cuts the range into `DEFAULT_CUTS` values or more, if doubles allow it."""
    largest = max(abs(low), abs(high)) or 1.0
    cut = (high / DEFAULT_CUTS - low / DEFAULT_CUTS) or largest / DEFAULT_CUTS
    wanted = math.floor(math.log10(max(cut, sys.float_info.min)))
    finest = math.ceil(math.log10(max(largest / FINEST, sys.float_info.min)) + math.log10(2))
    return float(Decimal(1).scaleb(max(wanted, finest)))


def is_too_fine(largest: float, step: float) -> bool:
    """Whether values up to `largest` in this step can no longer be told apart after encoding."""
    decimals = decimals_of(step)
    return decimals > MAX_DECIMALS or largest * 10.0**decimals >= EXACT or largest / step >= FINEST
