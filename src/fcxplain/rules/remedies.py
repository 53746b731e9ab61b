"""What to write instead: remedies for rules that are meant well but are not in the language."""

from __future__ import annotations

import re

from ..schema import Feature
from .nodes import Op

ORDERED = (
    'Use ==, != or in; or, if its levels have an order, make it kind = "ordinal" in the schema, '
    "with its levels from lowest to highest."
)

EXAMPLE = (
    "Write a comparison, => and a comparison, e.g. age' > age => income' >= income: a prime marks the value after."
)

# Ours, =>, is none of them.
_ARROW = re.compile(r"[-–—]+>|={2,}>|→|⟶|➔")
# Two points are a range, one is a decimal mark of its own.
_COMMA = re.compile(r"(?<![\w,])(?<!(?<!\.)\.)\d+,\d+(?!\w|,|\.(?!\.))")
_SPOKEN = re.compile(r"if\b(?P<condition>.+?)\bthen\b(?P<consequence>.+)", re.IGNORECASE)


def spoken(text: str) -> str:
    """For a rule in words, 'if a then b', the same with an arrow, which may be no rule yet; nothing for any other."""
    found = _SPOKEN.fullmatch(text.strip())
    return f"{found['condition'].strip(' ,')} => {found['consequence'].strip()}" if found else ""


def mistyped(text: str, column: int) -> str:
    """For an arrow of another language, or a number with a comma, at this column (from 1): what to write."""
    for arrow in _ARROW.finditer(text):
        if arrow.start() < column <= arrow.end():
            return f"Write => instead of {arrow[0]}"
    for number in _COMMA.finditer(text):
        if number.start() < column <= number.end():
            return decimal_comma(number[0])
    return ""


def decimal_comma(text: str) -> str:
    """For text with a number that has a comma in it, how to write the first such number; nothing for any other."""
    found = _COMMA.search(text)
    if found is None:
        return ""
    whole, part = found[0].split(",")
    thousand = f" If it parts thousands: {whole}{part}." if len(part) == 3 else ""
    return f"If the comma in {found[0]} is a decimal mark, write {whole}.{part}.{thousand}"


def multiplied(quotient: str, op: Op, other: str, divisor: Feature) -> str:
    """For `a / b <= c` the same without a division; `other` is a number or a sum of numbers."""
    first, last = (part.strip() for part in quotient.rsplit("/", 1))
    factor = f"({other})" if re.search(r"[-+−]", other) else other
    only = "" if divisor.low is not None and divisor.low >= 0 else f", which is the same where {last} is above 0"
    return f"Write {first} {op} {factor} * {last}{only}."
