"""What may be spent on each row: questions to the user's model, and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..errors import DataError, Fault, did_you_mean
from ..model.settings import between, whole


@dataclass(frozen=True)
class Budget:
    """What one row may cost.

    calls: candidates that a model may be asked about which is no network; a network's own layers are asked freely.
    seconds: time; rows searched together share theirs. None: as long as it takes.
    """

    calls: int = 1_000
    seconds: float | None = None

    def __post_init__(self) -> None:
        limit = [] if self.seconds is None else between("seconds", self.seconds, 0, open_low=True)
        _refuse([*whole("calls", self.calls, 1), *limit])


def as_budget(given: Budget | Mapping[str, Any] | int | None) -> Budget:
    """A budget from one, from a number of calls, or from a mapping such as `{"calls": 500, "seconds": 0.1}`."""
    if given is None:
        return Budget()
    if isinstance(given, Budget):
        return given
    if isinstance(given, Mapping):
        known = [f.name for f in fields(Budget)]
        _refuse([_unknown(name, known) for name in given if name not in known])
        return Budget(**given)
    _refuse([] if _is_whole(given) else [_strange(given)])
    return Budget(calls=given)


def _is_whole(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _unknown(name: object, known: list[str]) -> Fault:
    return Fault(f"{name!r}", "is not known", did_you_mean(name, known) or f"There are {' and '.join(known)}.")


def _strange(given: object) -> Fault:
    remedy = "Give a whole number of calls, Budget(calls=..., seconds=...) or a mapping of these."
    return Fault(f"{given!r}", f"is a {type(given).__name__}", remedy)


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise DataError("this budget cannot be used", faults)
