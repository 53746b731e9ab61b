"""How a rule is written: names, levels and numbers as the language has them, and lists of these in a cell."""

from __future__ import annotations

import re

from ..schema import Schema

NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
_PLAIN = re.compile(r"[^\W\d]\w*")
_WORDS = frozenset({"and", "or", "not", "in", "abs"})
_QUOTES = (('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"))
# The rule language's own tokens that may hold a semicolon or a `#` in them, and comments; all else is one character. An
# opening quote ends the search for the closing one before it: a thousand of them would each be followed to the end.
PIECES = re.compile(r"""`[^`\n]*`['’′‘]?|[^\W\d]\w*['’′‘]?|"[^"\n]*"|“[^“”\n]*”|'[^'\n]*'|‘[^‘’\n]*’|\#[^\n]*|.|\n""")
# An item of a list; a quote counts where the item begins with it, so that apostrophes are letters.
_PART = re.compile(r"""(?:\s*(?:`[^`]*`|"[^"]*"|'[^']*'))?[^,]*""")


def name(of: str, schema: Schema) -> str:
    """A feature's name, in backticks unless it is a plain, unambiguous word."""
    is_level = any(of in feature.level_of_text for feature in schema)
    return of if _PLAIN.fullmatch(of) and of not in _WORDS and not is_level else f"`{of}`"


def level(text: str) -> str | None:
    """A level in quotes that do not occur in it; None if the language cannot write it."""
    for opening, closing in _QUOTES:
        if closing not in text and opening not in text and "\n" not in text:
            return f"{opening}{text}{closing}"
    return None


def number(value: float) -> str:
    """A number that is read back exactly."""
    return str(int(value)) if value == int(value) else repr(float(value))


def parts(text: str) -> list[str]:
    """The items of a comma-separated list, except for commas in quotes or backticks, without brackets around it."""
    inner = text.strip()
    if inner[:1] + inner[-1:] in ("{}", "[]"):
        inner = inner[1:-1]
    found, place = [], 0
    while place < len(inner):
        match = _PART.match(inner, place)
        end = len(inner) if match is None else match.end()
        found.append(inner[place:end].strip())
        place = end + 1
    return [part for part in found if part]


def bare(part: str) -> str:
    """An item without the quotes or backticks around it."""
    quoted = len(part) > 1 and part[0] == part[-1] and part[0] in "`\"'"
    return part[1:-1] if quoted else part


def items(text: str) -> list[str]:
    """The items of a comma-separated list, without quotes."""
    return [bare(part) for part in parts(text)]


def lines(text: str) -> list[str]:
    """The rules of a text: one per line, or separated by semicolons outside quotes and comments."""
    found: list[list[str]] = [[]]
    for piece in PIECES.findall(text):
        if piece in (";", "\n"):
            found.append([])
        else:
            found[-1].append(piece)
    return [line for pieces in found if (line := "".join(pieces).strip())]
