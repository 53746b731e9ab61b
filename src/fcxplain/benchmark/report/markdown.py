"""Numbers and tables as they stand in the documents, and the same tables as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from .summary import Summary

# Beyond this a number is written with a power of ten.
HUGE = 1e6


def number(value: float | None, *, digits: int = 2) -> str:
    """A number for a table; nothing for None."""
    if value is None:
        return ""
    return f"{value:.1e}" if abs(value) >= HUGE else f"{value + 0.0:,.{digits}f}"


def signed(value: float | None, *, digits: int = 2) -> str:
    """A difference, with its sign."""
    if value is None:
        return ""
    return f"{value:+.1e}" if abs(value) >= HUGE else f"{value + 0.0:+,.{digits}f}"


def spread(summary: Summary, *, digits: int = 2) -> str:
    """Mean and deviation; how many runs have a value, where some have none."""
    if summary.mean is None:
        return "none"
    deviation = "" if summary.deviation is None else f" ± {number(summary.deviation, digits=digits)}"
    some = "" if len(summary.values) == summary.of else f" ({len(summary.values)} of {summary.of} runs)"
    return f"{number(summary.mean, digits=digits)}{deviation}{some}"


def span(values: Iterable[int]) -> str:
    """Counts from the least to the most."""
    found = sorted(set(values))
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
