"""What a picture of answers is about: an explanation that has some, or an error that says why nothing can be drawn."""

from __future__ import annotations

from typing import Any

from ..errors import DataError, Fault
from ..explanation import Explanation


def with_answers(given: Any) -> Explanation:
    """The explanation given, if it has answers."""
    explanation = explained(given)
    if not len(explanation.answers):
        fared = ", ".join(f"{count:,} {status}" for status, count in sorted(explanation.counts.items()))
        problem = f"has no answers ({len(explanation):,} rows{': ' if fared else ''}{fared})"
        raise nothing([Fault("explanation", problem, "See .status, and .why_not if that was asked.")])
    return explanation


def explained(given: Any) -> Explanation:
    """The explanation given, if it is one."""
    if not isinstance(given, Explanation):
        raise nothing([Fault("explanation", f"is a {type(given).__name__}", "Give what explain(rows) returned.")])
    return given


def nothing(faults: list[Fault]) -> DataError:
    """What is wrong, for the user to read."""
    return DataError("nothing can be drawn", faults)
