"""Text in pictures: what is safe to write, how wide it is, and where a long name breaks."""

from __future__ import annotations

import re
import textwrap
from functools import cache

from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.textpath import text_to_path

from .style import FONT

LONGEST_LINE, MOST_LINES = 22, 3
LEADING = 1.2
"""From one line of text to the next, in units of the font's size."""
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def plain(text: object) -> str:
    """Text that every format can hold: what cannot be printed becomes a replacement character, a break a space."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def name_lines(name: str) -> list[str]:
    """A name in lines of much the same length, broken after a sign where one is near; too long, it loses its middle."""
    text = shortened(name, LONGEST_LINE * MOST_LINES)
    words = re.findall(rf"[^\W_]{{1,{LONGEST_LINE}}}[\W_]?|[\W_]", text)
    fewest = len(_filled(words, LONGEST_LINE))
    widths = range(len(text) // fewest, LONGEST_LINE + 1)
    return next(lines for lines in (_filled(words, width) for width in widths) if len(lines) <= fewest)


def _filled(words: list[str], width: int) -> list[str]:
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) > width:
            lines.append(word)
        else:
            lines[-1] += word
    return lines


def shortened(name: object, longest: int) -> str:
    """A name as plain text; if it is too long, without its middle; if it is blank, in quotes."""
    text = plain(name) if str(name).strip() else repr(str(name))
    if len(text) <= longest:
        return text
    tail = longest // 3
    return text[: longest - tail - 1] + ELLIPSIS + text[-tail:]


def sentence_lines(text: str, size: float, width: float) -> list[str]:
    """A title in lines of about this width, in points."""
    letters = max(20, int(width / text_width("n", size)))
    return textwrap.wrap(plain(text), letters) or [""]


def text_width(text: str, size: float) -> float:
    """How wide a line is, in points. Letters that our font lacks count as wide ones: some other font will have them."""
    known = "".join(c if ord(c) in _letters() else "W" for c in text)
    width, _, _ = text_to_path.get_text_width_height_descent(known, FontProperties(family=FONT, size=size), False)
    return float(width)


@cache
def _letters() -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties(family=FONT))).get_charmap())
