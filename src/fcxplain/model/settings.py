"""Settings that cannot work are refused where they are made, all of them at once."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable

from ..errors import Fault, TrainingError


def whole(name: str, value: object, low: int) -> list[Fault]:
    """A fault unless the value is a whole number of at least `low`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= low:
        return []
    return [Fault(name, f"is {value!r}", f"Give a whole number of {low} or more.")]


def between(name: str, value: object, low: float, high: float = math.inf, *, open_low: bool = False) -> list[Fault]:
    """A fault unless the value is a number from `low` (or above it) to `high`."""
    # A whole number may be too large for a float; comparing them is exact.
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if is_number and low <= float(value) <= high and not (open_low and value == low):  # type: ignore[arg-type]
        return []
    wanted = f"above {low:g}" if open_low else f"of {low:g} or more"
    upper = "" if math.isinf(high) else f", {high:g} at most"
    return [Fault(name, f"is {value!r}", f"Give a number {wanted}{upper}.")]


def one_of(name: str, value: object, options: Iterable[object]) -> list[Fault]:
    """A fault unless the value is one of the options."""
    known = tuple(options)
    return [] if value in known else [Fault(name, f"is {value!r}", f"Choose one of {', '.join(map(str, known))}.")]


def refuse(what: str, *faults: list[Fault]) -> None:
    """Raise all the faults together, if there are any."""
    found = [fault for some in faults for fault in some]
    if found:
        raise TrainingError(f"{what} cannot be used", found)
