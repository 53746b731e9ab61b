"""Settings of methods that make no sense are refused when the method is fitted, all of them at once."""

from __future__ import annotations

from ..errors import DataError, Fault
from ..model.settings import between, one_of, whole

__all__ = ["between", "one_of", "refuse", "whole"]


def refuse(method: object, *faults: list[Fault]) -> None:
    """Raise all the faults together, if there are any, in the method's name."""
    found = [fault for some in faults for fault in some]
    if found:
        raise DataError(f"these settings of {type(method).__name__} cannot be used", found)
