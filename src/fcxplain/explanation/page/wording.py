"""Shares, counts and labels as people write them, and text that is safe inside HTML."""

from __future__ import annotations

import html
import re
from typing import Any

from ...schema.feature import plain
from ..amounts import short

# Half a pair of UTF-16, which no file in UTF-8 can hold.
LONE = re.compile("[\ud800-\udfff]")


def escaped(text: object) -> str:
    """Text for the inside of an element or of a quoted attribute."""
    return html.escape(LONE.sub("\ufffd", str(text)))


def label_text(label: Any) -> str:
    """A row's label; the parts of a label with several are told one after the other."""
    return short(", ".join(map(str, label)) if isinstance(label, tuple) else plain(label))


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
