"""What to write instead: remedies for rules that are meant well but are not in the language."""

from __future__ import annotations

import re

from ..schema import Feature
from .nodes import Op

ORDERED = (
    'Use ==, != or in; or, if its levels have an order, make it kind = "ordinal" in the schema, '
    "with its levels from lowest to highest."
)

_SPOKEN = re.compile(r"if\b(?P<condition>.+?)\bthen\b(?P<consequence>.+)", re.IGNORECASE)


def spoken(text: str) -> str:
    """For a rule in words, 'if a then b', the same with an arrow; nothing for any other."""
    found = _SPOKEN.fullmatch(text.strip())
    return f"Write {found['condition'].strip(' ,')} => {found['consequence'].strip()}" if found else ""


def multiplied(quotient: str, op: Op, other: str, divisor: Feature) -> str:
    """For `a / b <= c` the same without a division; `other` is a number or a sum of numbers."""
    first, last = (part.strip() for part in quotient.rsplit("/", 1))
    factor = f"({other})" if re.search(r"[-+−]", other) else other
    only = "" if divisor.low is not None and divisor.low >= 0 else f", which is the same where {last} is above 0"
    return f"Write {first} {op} {factor} * {last}{only}."
