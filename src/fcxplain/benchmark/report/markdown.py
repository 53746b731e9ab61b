"""Numbers and tables as they stand in the documents, and the same tables as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

# Beyond this a number is written with a power of ten.
HUGE = 1e6


@dataclass(frozen=True)
class Measure:
    """A figure in a table: its wording, ours, the paper's that it is held against, and how it is written."""

    words: str
    figure: str
    paper: str
    digits: int


def measures(table: str) -> dict[str, Measure]:
    """The measures of a table, by our figures."""
    lines = csv.DictReader(_wording("measures.csv").splitlines())
    found = (Measure(m["words"], m["figure"], m["paper"], int(m["digits"])) for m in lines if m["table"] == table)
    return {measure.figure: measure for measure in found}


def legend(table: str) -> str:
    """What a reader of a table must know."""
    return _wording(f"{table}.md")


def _wording(name: str) -> str:
    return files(__package__).joinpath("wording", name).read_text(encoding="utf-8")


def number(value: float | None, *, digits: int = 2, sign: str = "") -> str:
    """A number for a table, with "+" as sign if it is a difference; nothing for None."""
    if value is None:
        return ""
    return f"{value:{sign}.1e}" if abs(value) >= HUGE else f"{value + 0.0:{sign},.{digits}f}"


def span(values: Iterable[int | None]) -> str:
    """Counts from the least to the most; those that are missing or 0 left out."""
    found = sorted({value for value in values if value})
    if not found:
        return "none"
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def table(head: Sequence[str], lines: Iterable[Sequence[str]], left: int = 1) -> str:
    """A Markdown table; the first `left` columns are words, the others numbers."""
    rule = ["---"] * left + ["--:"] * (len(head) - left)
    rows = [head, *(tuple(cell(text) for text in line) for line in lines)]
    first, *others = (f"| {' | '.join(row)} |\n" for row in rows)
    return "".join([first, f"|{'|'.join(rule)}|\n", *others])


def cell(text: str) -> str:
    """Text that stays in its cell."""
    return " ".join(text.split()).replace("|", "\\|")


def as_csv(head: Sequence[str], lines: Iterable[Mapping[str, object]]) -> str:
    """Lines as CSV, with all digits; None is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, head, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows({name: "" if value is None else value for name, value in line.items()} for line in lines)
    return text.getvalue()
