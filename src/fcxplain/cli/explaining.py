"""`fcxplain explain`: what each row of a table could change, on the screen, in a file, or as a page."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from . import completion
from .console import Json, SkipMissing, out, print_json, table_of, written
from .models import Model, OwnClassifier, Rows
from .work import working

if TYPE_CHECKING:
    from ..explainer import FCx
    from ..explanation import Certificate, Explanation
    from ..streaming import Progress as Streaming
    from ..streaming import Streamed

# Answers, and rows without one, that are shown when they go to no file.
SHOWN = 5
STATUSES = {
    "verified": "everything that was checked holds",
    "best_effort": "an answer of which something does not hold",
    "already": "has the class wanted as it is",
    "not_found": "no answer was found",
    "impossible": "proved to have no answer",
    "timed_out": "no answer within the budget",
}


def explain(
    model: Model,
    rows: Rows,
    output: Annotated[Path | None, typer.Option("--out", help="Write answers (.parquet, .csv, .json).")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to read and to send on (.html).")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Answers for each row.")] = 1,
    prefer: Annotated[
        str | None,
        typer.Option(
            help="fewest (changes), sparse (few, none large), balanced, or plausible (like rows that there are).",
            autocompletion=completion.preferences,
        ),
    ] = None,
    why_not: Annotated[
        bool, typer.Option("--why-not", help="Say what stands in the way of rows without an answer.")
    ] = False,
    overrides: Annotated[
        Path | None,
        typer.Option(help="What holds for single rows: a file with a column `row` and freeze, target, rules, ..."),
    ] = None,
    calls: Annotated[int | None, typer.Option(min=1, help="Ask a model that is no network so often for a row.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Search no longer than this for a row.")] = None,
    draws: Annotated[int, typer.Option(min=0, help="Proposals of the network for each row; 1 is fastest.")] = 16,
    best_effort: Annotated[
        bool, typer.Option("--best-effort", help="Give rows without an answer what came nearest, marked as such.")
    ] = False,
    skip_missing: SkipMissing = False,
    classifier: OwnClassifier = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with code 1 unless every row that needs one has a verified answer.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say for each row what could change for the model to give the answer wanted.

    Every answer is checked with the classifier itself, the rules and the schema, and only those that pass are handed
    out; rows without one say whether that is proved. A parquet file of any size is explained into another in constant
    memory, and goes on where it was cut off. A model fitted --as-published hands out every draw, and marks those that
    fail a check best_effort. Columns that are no features are ignored.

    Example: fcxplain explain model rows.csv --why-not --html report.html --out answers.parquet
    """
    from .batches import explained
    from .outputs import ANSWERS, check_output, write_answers
    from .sources import load_model, remembered, rows_to_explain

    for path, endings, option in ((output, ANSWERS, "--out"), (html, (".html", ".htm"), "--html")):
        if path is not None:
            check_output(path, endings, option)
    with working("loading the model"):
        fcx = load_model(model, classifier)
    wishes: dict[str, Any] = {"prefer": prefer, "why_not": why_not, "best_effort": best_effort}
    wishes |= {"draws": draws} if draws != 16 else {}
    wishes |= {"overrides": _overrides(overrides), "budget": _budget(calls, seconds)}
    if output is not None and html is None and not skip_missing and _is_parquet(rows) and _is_parquet(str(output)):
        _finish(_streamed(fcx, Path(rows), output, k, wishes), as_json, strict=strict)
        return
    with working("loading the rows"):
        table = rows_to_explain(rows, fcx.task_, remembered(model), skip_missing=skip_missing)
    answer = explained(fcx, table, k, **wishes)
    with working("writing"):
        if output is not None:
            write_answers(answer, output)
        if html is not None:
            answer.to_html(html)
    if as_json:
        print_json(answer.to_dict() if output is None else _counted(answer, output))
    else:
        _print_answers(answer, output, html)
    _end(answer.counts, strict=strict)


def _overrides(path: Path | None) -> Any:
    from ..overrides import read_overrides

    return None if path is None else read_overrides(path)


def _budget(calls: int | None, seconds: float | None) -> dict[str, Any] | None:
    given = {name: value for name, value in (("calls", calls), ("seconds", seconds)) if value is not None}
    return given or None


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(".parquet")


def _streamed(fcx: FCx, rows: Path, output: Path, k: int, wishes: dict[str, Any]) -> Streamed:
    with working("explaining rows") as work:

        def move(step: Streaming) -> None:
            work.move(step.rows, total=step.total, fresh=not step.resumed)

        try:
            return fcx.explain(rows, k, out=output, on_chunk=move, **wishes)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_kept(Path(f"{output}.parts"))) from None


def _kept(parts: Path) -> str:
    """What to say of the parts of a run that was stopped; without any, their folder goes too."""
    if any(parts.glob("part-*")):
        return f"what is done is kept in {parts}; the same command goes on from there"
    shutil.rmtree(parts, ignore_errors=True)
    return ""


def _finish(found: Streamed, as_json: bool, *, strict: bool) -> None:
    if as_json:
        told = {"rows": found.rows, "counts": dict(found.counts), "notes": list(found.notes)}
        print_json(told | {"out": str(found.path)})
    else:
        out.print(f"{found.rows:,} rows in {found.effort.seconds:,.1f} s:", highlight=False)
        _print_counts(dict(found.counts), found.notes)
        written(found.path)
    _end(dict(found.counts), strict=strict)


def _end(counts: dict[str, int], *, strict: bool) -> None:
    if strict and set(counts) - {"verified", "already"}:
        raise typer.Exit(1)


def _counted(answer: Explanation, output: Path) -> dict[str, Any]:
    told = {"rows": len(answer), "answers": len(answer.answers), "counts": answer.counts}
    return {"method": answer.method, **told, "notes": list(answer.notes), "out": str(output)}


def _print_answers(answer: Explanation, output: Path | None, html: Path | None) -> None:
    count = len(answer.answers)
    if output is None and count:
        _print_table(answer, min(count, SHOWN))
    if output is None and count > SHOWN:
        out.print(f"... and {count - SHOWN:,} more; write all of them to a file with --out\n", highlight=False)
    _print_reasons(answer)
    out.print(f"{len(answer):,} rows, {count:,} answers by {escape(answer.method)}:", highlight=False)
    _print_counts(answer.counts, answer.notes)
    written(output, html)


def _print_counts(counts: dict[str, int], notes: tuple[str, ...]) -> None:
    from ..explanation.statement import marked

    for status, rows in sorted(counts.items()):
        out.print(f"  {rows:>7,}  [bold]{marked(status)}[/]: {STATUSES[status]}", highlight=False)
    for note in notes:
        out.print(escape(note), highlight=False)


def _print_reasons(answer: Explanation) -> None:
    """Why the first rows without an answer have none."""
    reasons = list(answer.reasons.values())
    for reason in reasons[:SHOWN]:
        head = f"[bold]row {escape(str(reason.row))}[/], {escape(reason.status)}:"
        out.print(head, escape(reason.words), highlight=False, soft_wrap=True)
    if len(reasons) > SHOWN:
        out.print(f"... and {len(reasons) - SHOWN:,} more rows with a reason", highlight=False)


def _print_table(answer: Explanation, count: int) -> None:
    """The first answers, a change a line."""
    from ..explanation.statement import marked

    table = table_of("row", "what changes", "probability", "status")
    for c in map(answer.certificate, range(count)):
        row = f"{c.row}" if c.rank == 1 else f"{c.row}, answer {c.rank}"
        moves = "\n".join(f"{m.feature}: {m.now} -> {m.then}" for m in c.changes) or "nothing"
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
