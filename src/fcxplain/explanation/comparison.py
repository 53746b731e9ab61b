"""Certificates compared: what one says against what it should say, field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

# Probabilities and densities of one model may differ by this much between machines.
PROBABILITY, DENSITY = 1e-5, 1e-3
ABSENT = "(absent)"


def certificate_of(text: Any) -> dict[str, Any]:
    """A certificate as it is written; nothing, where there is none that can be read."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def certificate_differences(stored: Any, found: Any) -> Iterator[tuple[str, Any, Any]]:
    """The fields in which a certificate differs from what it should be, both as text: name, stored, found."""
    if found is None:
        yield "whole", stored, ABSENT
        return
    first, second = certificate_of(stored), json.loads(found)
    if not first:
        yield "whole", stored, "a certificate in JSON"
        return
    for name in dict.fromkeys([*second, *first]):
        a, b = first.get(name, ABSENT), second.get(name, ABSENT)
        if not _same(name, a, b):
            yield name, a, b


def same_probability(stored: Any, found: Any) -> bool:
    """Equal but for the last digits."""
    return _near(stored, found, PROBABILITY)


def _same(name: str, stored: Any, found: Any) -> bool:
    if name == "probability":
        return same_probability(stored, found)
    if name == "cut_short":
        # Files of before it was told have none.
        return bool(stored in (found, ABSENT))
    if name == "density":
        # One that names none has nothing that could be wrong; these are counted.
        return stored is None or _near(stored, found, DENSITY * abs(found or 0))
    return _equal(stored, found)


def _near(stored: Any, found: Any, most: float) -> bool:
    if not all(isinstance(v, float | int) and not isinstance(v, bool) for v in (stored, found)):
        return _equal(stored, found)
    return bool(abs(stored - found) <= most)


def _equal(stored: Any, found: Any) -> bool:
    """Equal to the letter; a number may be written as 1 or as 1.0, but not as true."""
    if isinstance(stored, dict) and isinstance(found, dict):
        return stored.keys() == found.keys() and all(_equal(stored[name], found[name]) for name in found)
    if isinstance(stored, list) and isinstance(found, list):
        return len(stored) == len(found) and all(map(_equal, stored, found))
    return bool(stored == found) and isinstance(stored, bool) == isinstance(found, bool)
