"""How answers are shown on a terminal: what changes, why there is none, and how many rows fared how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from .console import one_line, out, table_of, written

if TYPE_CHECKING:
    from ..explanation import Certificate, Explanation
    from ..streaming import Streamed
    from ..task import Task

# Answers, and rows without one, that are shown when they go to no file.
SHOWN = 5
# Rows without an answer that are named for each status.
NAMED = 8
WITHOUT = ("impossible", "not_found", "timed_out")
STATUSES = {
    "verified": "everything that was checked holds",
    "best_effort": "an answer of which something does not hold",
    "already": "has the class wanted as it is",
    "not_found": "no answer was found",
    "impossible": "proved to have no answer",
    "timed_out": "no answer within the budget",
}


def print_answers(answer: Explanation, output: Path | None, html: Path | None, *, asked_why: bool) -> None:
    """The first answers, why rows have none, and how many rows fared how."""
    count = len(answer.answers)
    if output is None and count:
        _print_table(answer, min(count, SHOWN))
    if output is None and count > SHOWN:
        out.print(f"... and {count - SHOWN:,} more; write all of them to a file with --out\n", highlight=False)
    _print_reasons(answer)
    out.print(f"{len(answer):,} rows, {count:,} answers by {escape(answer.method)}:", highlight=False)
    print_counts(answer.counts, answer.notes, _without_answer(answer))
    _print_cut_short(answer)
    if asked_why and answer.counts.get("timed_out"):
        told = "Why the rows that are timed_out have no answer was not looked into: their budget was spent before."
        out.print(f"{told} Give them more with --calls or --seconds.", highlight=False, soft_wrap=True)
    written(output, html)


def _without_answer(answer: Explanation) -> dict[str, str]:
    """The first rows of each status that means no answer, by name."""
    first = {s: answer.rows.index[answer.row_status == s][:NAMED].tolist() for s in WITHOUT}
    return _named(first, answer.counts)


def without_answer_in(found: Streamed, task: Task) -> dict[str, str]:
    """The first rows of each status that means no answer, by name, read from a file of answers."""
    return _named({s: found.first_rows(task, s, NAMED) for s in WITHOUT if s in found.counts}, found.counts)


def _named(first: Mapping[str, Sequence[object]], counts: Mapping[str, int]) -> dict[str, str]:
    found = {}
    for status, labels in first.items():
        rows = counts.get(status, 0)
        more = f" and {rows - NAMED:,} more" if rows > NAMED else ""
        found[status] = f" (row{'s' * (rows > 1)} {', '.join(map(one_line, labels))}{more})"
    return found


def print_counts(counts: dict[str, int], notes: tuple[str, ...], which: Mapping[str, str] | None = None) -> None:
    """How many rows have which status, and `which` they are, as far as that is told."""
    from ..explanation.statement import marked

    for status, rows in sorted(counts.items()):
        told = f"{STATUSES[status]}{escape((which or {}).get(status, ''))}"
        out.print(f"  {rows:>7,}  [bold]{marked(status)}[/]: {told}", highlight=False, soft_wrap=True)
    for note in notes:
        out.print(escape(note), highlight=False)


def _print_cut_short(answer: Explanation) -> None:
    """How many answers might be better with a larger budget."""
    if answer.cut_short is None:
        return
    count = int((answer.cut_short & (answer.row_status == "verified")).sum())
    if count:
        told = "their budget ended before the search did; with more (--calls, --seconds) there may be better ones"
        out.print(f"{count:,} of the verified answers are the best so far: {told}", highlight=False, soft_wrap=True)


def _print_reasons(answer: Explanation) -> None:
    """Why the first rows without an answer have none."""
    # Of those that are timed_out it is said once for all that nobody looked.
    reasons = [reason for reason in answer.reasons.values() if reason.status != "timed_out"]
    for reason in reasons[:SHOWN]:
        head = f"[bold]row {escape(one_line(reason.row))}[/], {escape(reason.status)}:"
        out.print(head, escape(reason.words), highlight=False, soft_wrap=True)
    if len(reasons) > SHOWN:
        out.print(f"... and {len(reasons) - SHOWN:,} more rows with a reason", highlight=False)


def _print_table(answer: Explanation, count: int) -> None:
    """The first answers, a change a line."""
    from ..explanation.statement import marked

    table = table_of("row", "what changes", "probability", "status")
    for c in map(answer.certificate, range(count)):
        row = one_line(c.row) if c.rank == 1 else f"{one_line(c.row)}, answer {c.rank}"
        moves = "\n".join(one_line(f"{m.feature}: {m.now} -> {m.then}") for m in c.changes) or "nothing"
        known = "" if c.predicted is None else f"{c.probability:.2f}"
        status = "\n".join([marked(c.status), *(f"- {failure}" for failure in _failures(c))])
        table.add_row(*map(escape, (row, moves, known, status)))
        table.add_row()
    out.print(table)


def _failures(c: Certificate) -> list[str]:
    found = [r.words for r in c.rules if not r.kept]
    found += ["an immutable feature must not change"] if not c.immutables_kept else []
    if not c.in_domain:
        return [*found, "a value is outside its domain"]
    return found if c.valid else [*found, f"the model answers {c.predicted}, not {c.wanted}"]
