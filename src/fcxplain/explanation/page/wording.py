"""Values and shares as people write them, and text that is safe inside HTML."""

from __future__ import annotations

import html
import re
from typing import Any

import pandas as pd

from ...schema import Feature
from ...schema.feature import plain

# Longer texts are cut where they are shown; the certificate has them whole.
LONGEST = 120
MISSING = "missing"
# Half a pair of UTF-16, which no file in UTF-8 can hold.
LONE = re.compile("[\ud800-\udfff]")


def escaped(text: object) -> str:
    """Text for the inside of an element or of a quoted attribute."""
    return html.escape(LONE.sub("\ufffd", str(text)))


def short(text: object, longest: int = LONGEST) -> str:
    """The text, cut where it is too long to be read in passing."""
    whole = str(text)
    return whole if len(whole) <= longest else f"{whole[: longest - 1].rstrip()}…"


def label_text(label: Any) -> str:
    """A row's label; the parts of a label with several are told one after the other."""
    return short(", ".join(map(str, label)) if isinstance(label, tuple) else plain(label))


def amount(feature: Feature, value: Any) -> str:
    """A value with its unit, in the feature's own decimals."""
    if is_missing(value):
        return MISSING
    if feature.is_category:
        return short(plain(value))
    return _with_unit(feature, _number(feature, float(value)))


def difference(feature: Feature, now: Any, then: Any) -> str:
    """How far a value moved; empty where there is no more to say than that it did."""
    if is_missing(now) or is_missing(then):
        return ""
    if feature.is_number:
        moved = float(then) - float(now)
        # Taken of two values with few decimals, a difference has no more than they.
        return _with_unit(feature, _signed(_number(feature, round(abs(moved), 12)), moved))
    return _ranks_apart(feature, now, then) if feature.kind == "ordinal" else ""


def is_missing(value: Any) -> bool:
    """Whether there is no value, or none that is a number."""
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def percent(share: float) -> str:
    """A share of one; what is not quite none or all is not rounded to it."""
    if 0 < share < 0.01:
        return "under 1%"
    if 0.99 < share < 1:
        return "over 99%"
    return f"{share:.0%}"


def counted(count: int, thing: str) -> str:
    """So many things."""
    return f"{count:,} {thing}{'s' * (count != 1)}"


def _number(feature: Feature, value: float) -> str:
    decimals = feature.decimals or 0
    text = f"{value:,.{decimals}f}"
    if float(text.replace(",", "")) != value:
        text = f"{value:,.12g}"
    elif decimals > 2:
        text = text.rstrip("0").rstrip(".")
    return text.replace(",", "") if _is_year(feature) else text.replace("-", "−")


def _is_year(feature: Feature) -> bool:
    """A whole number without a unit that can only lie there is a year far more often than an amount."""
    bounds = (feature.low, feature.high)
    return feature.kind == "integer" and not feature.unit and all(b is not None and 1000 <= b < 3000 for b in bounds)


def _signed(text: str, moved: float) -> str:
    return f"+{text}" if moved > 0 else f"−{text}" if moved < 0 else text


def _with_unit(feature: Feature, text: str) -> str:
    return f"{text} {short(feature.unit, 20)}" if feature.unit else text


def _ranks_apart(feature: Feature, now: Any, then: Any) -> str:
    known = feature.code_of_level
    if now not in known or then not in known:
        return ""
    moved = feature.ranks[known[then]] - feature.ranks[known[now]]
    if not moved:
        return "same rank"
    return f"{counted(abs(moved), 'rank')} {'up' if moved > 0 else 'down'}"
