"""Short summaries of objects: a headline, facts and a small table, shown as text or as HTML.

The HTML is self-contained, uses the colours of its page, and contains no text that could run.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

WIDEST, LONGEST = 100, 300
"""The maximum length of a cell in text and in HTML; longer ones are shortened."""
MANY = 50
"""Rows of a table shown; the rest is counted."""
FRAME = "font-family:sans-serif;font-size:13px;line-height:1.45;max-width:100%;overflow-x:auto"
TABLE = "border-collapse:collapse;margin:.4em 0;background:none;color:inherit;font-size:12px"
CELL = "text-align:left;vertical-align:top;padding:.15em 1.2em .15em 0;border:0;background:none;color:inherit"
HEAD = f"{CELL};font-weight:bold;white-space:nowrap;border-bottom:1px solid rgba(128,128,128,.6)"
QUIET = "opacity:.75"
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def words_of(name: str) -> tuple[str, ...]:
    """The words of a column's name, split at punctuation and capitals."""
    return tuple(word.lower() for word in _WORDS.findall(name))


@dataclass(frozen=True)
class Overview:
    """A small table. `rest` says what is left out."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    rest: str = ""

    def lines(self) -> list[str]:
        """As text, in columns."""
        cells = [[cut(cell, WIDEST) for cell in row] for row in (self.head, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        return [*lines, cut(self.rest)] if self.rest else lines

    def html(self) -> str:
        """As an HTML table."""
        head = "".join(f"<th scope='col' style='{HEAD}'>{escaped(cell)}</th>" for cell in self.head)
        body = "".join(f"<tr style='background:none'>{''.join(map(_cell, row))}</tr>" for row in self.rows)
        rest = f"<div style='{QUIET}'>{escaped(self.rest)}</div>" if self.rest else ""
        return f"<table style='{TABLE}'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


@dataclass(frozen=True)
class Glance:
    """A summary of an object: a headline, notes, facts by name, and tables."""

    headline: str
    notes: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    grids: tuple[Overview, ...] = ()

    def text(self) -> str:
        """A few lines, headline first."""
        facts = [f"{cut(name)}: {cut(said)}" for name, said in self.facts]
        tables = [line for grid in self.grids if grid.rows for line in grid.lines()]
        return "\n  ".join([cut(self.headline), *map(cut, self.notes), *facts, *tables])

    def html(self) -> str:
        """The same as an HTML fragment."""
        notes = "".join(f"<div style='{QUIET}'>{escaped(note)}</div>" for note in self.notes)
        facts = "".join(f"<div><b>{escaped(name)}</b>: {escaped(said)}</div>" for name, said in self.facts)
        tables = "".join(grid.html() for grid in self.grids if grid.rows)
        return f"<div style='{FRAME}'><div><b>{escaped(self.headline)}</b></div>{notes}{facts}{tables}</div>"


def grid(head: Sequence[str], rows: Sequence[tuple[str, ...]], thing: str) -> Overview:
    """A table of the first rows, which says how many more there are."""
    return Overview(tuple(head), tuple(rows[:MANY]), remainder(len(rows) - MANY, thing))


def remainder(count: int, thing: str) -> str:
    """The number of things not shown, in words, if any."""
    return f"... and {counted(count, f'more {thing}')}" if count > 0 else ""


def counted(count: int, thing: str) -> str:
    """A number of things, e.g. "3 rows"."""
    return f"{count:,} {thing}{'s' * (count != 1)}"


def cut(text: object, longest: int = LONGEST) -> str:
    """Printable text on one line, shortened in the middle if it is too long."""
    plain = "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return plain if len(plain) <= longest else f"{plain[: longest - 13]}...{plain[-10:]}"


def escaped(text: object) -> str:
    """Text escaped for HTML, shortened if it is too long."""
    return html.escape(cut(text))


def _cell(text: str) -> str:
    return f"<td style='{CELL}'>{escaped(text)}</td>"


def clock_time(seconds: float) -> str:
    """Seconds as 1:05, or as 1:01:05."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
