"""Numbers and tables for the documents, and the same tables as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

# Numbers beyond this are written with a power of ten.
HUGE = 1e6


@dataclass(frozen=True)
class Measure:
    """A figure in a table: its wording, our figure, the paper's to compare with, and its number of digits."""

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
    """The explanation that goes with a table."""
    return _wording(f"{table}.md")


def _wording(name: str) -> str:
    return files(__package__).joinpath("wording", name).read_text(encoding="utf-8")


def number(value: float | None, *, digits: int = 2, sign: str = "") -> str:
    """A number for a table, with a "+" sign if it is a positive difference; empty for None."""
    if value is None:
        return ""
    return f"{value:{sign}.1e}" if abs(value) >= HUGE else f"{value + 0.0:{sign},.{digits}f}"


def numbers(values: Iterable[float | None], digits: Iterable[int]) -> tuple[str, ...]:
    """Numbers for a table, each with its number of digits."""
    return tuple(number(value, digits=places) for value, places in zip(values, digits, strict=True))


def span(values: Iterable[int | None]) -> str:
    """The range of counts, without those that are missing or 0."""
    found = sorted({value for value in values if value})
    if not found:
        return "none"
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def table(head: Sequence[str], lines: Iterable[Sequence[str]], left: int = 1) -> str:
    """A Markdown table; the first `left` columns are text, the others numbers."""
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
