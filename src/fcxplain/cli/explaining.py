"""`fcxplain explain`: what each row of a table could change, on screen, in a file, or as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..errors import DataError, Fault
from ..files import check_output
from ..progress import EXPLAINING
from ..text import counted
from . import console
from .console import ANSWERS, Json, SkipMissing, as_given, note, one_line, out, print_json, table_of, written
from .models import CalledBy, Model, OwnClassifier, Rows
from .progress import working

if TYPE_CHECKING:
    from ..datasets.source import Source
    from ..explainer import FCx
    from ..explanation import Certificate, Explanation
    from ..streaming import Streamed
    from ..task import Task

# Answers, and rows without one, shown on screen.
SHOWN = 5
# Rows without an answer listed for each status.
NAMED = 8
WITHOUT = ("impossible", "not_found", "timed_out", "unreadable")
# Bytes of a CSV file from which on it is explained in chunks, as parquet files are.
LARGE = 20_000_000
STATUSES = {
    "verified": "passed every check",
    "best_effort": "an answer that fails a check",
    "already": "has the desired outcome as it is",
    "not_found": "no answer was found; one may exist",
    "impossible": "proved to have no answer",
    "timed_out": "no answer within the budget",
    "unreadable": "does not fit the schema, or the model fails on it",
}


def _print_answers(
    answer: Explanation, output: Path | None, html: Path | None, letters: Path | None, *, asked_why: bool
) -> None:
    """Print the first answers, why rows have none, and the number of rows per status."""
    count = len(answer.answers)
    if output is None and count:
        _print_table(answer, min(count, SHOWN))
    if output is None and count > SHOWN:
        out.print(f"... and {count - SHOWN:,} more; write all of them to a file with --out\n", highlight=False)
    _print_reasons(answer)
    out.print(f"{len(answer):,} rows, {count:,} answers by {escape(answer.method)}:", highlight=False)
    _print_counts(answer.counts, answer.notes, _without_answer(answer))
    _print_cut_short(answer)
    if asked_why and answer.counts.get("timed_out"):
        why = "For rows that are timed_out, no reasons were sought: their budget was spent."
        out.print(f"{why} Raise it with --budget or --seconds.", highlight=False, soft_wrap=True)
    written(output, html)
    if letters is not None:
        out.print(f"{counted(len(answer), 'letter')} in {escape(str(letters))}", highlight=False, soft_wrap=True)


def _without_answer(answer: Explanation) -> dict[str, str]:
    """The labels of the first rows without an answer, by status."""
    first = {s: answer.rows.index[answer.row_status == s][:NAMED].tolist() for s in WITHOUT}
    return _named(first, answer.counts)


def _without_answer_in(found: Streamed, task: Task) -> dict[str, str]:
    """The same, read from a file of answers."""
    return _named({s: found.first_rows(task, s, NAMED) for s in WITHOUT if s in found.counts}, found.counts)


def _named(first: Mapping[str, Sequence[object]], counts: Mapping[str, int]) -> dict[str, str]:
    found = {}
    for status, labels in first.items():
        rows = counts.get(status, 0)
        more = f" and {rows - NAMED:,} more" if rows > NAMED else ""
        found[status] = f" (row{'s' * (rows > 1)} {', '.join(map(one_line, labels))}{more})"
    return found


def _print_counts(counts: dict[str, int], notes: tuple[str, ...], which: Mapping[str, str]) -> None:
    """Print the number of rows per status, with their labels in `which`."""
    from ..explanation.wording import marked

    for status, rows in sorted(counts.items()):
        meaning = f"{STATUSES[status]}{escape(which.get(status, ''))}"
        out.print(f"  {rows:>7,}  [bold]{marked(status)}[/]: {meaning}", highlight=False, soft_wrap=True)
    for line in notes:
        out.print(escape(line), highlight=False)


def _print_cut_short(answer: Explanation) -> None:
    """Print how many answers might be better with a larger budget."""
    if answer.cut_short is None:
        return
    count = int((answer.cut_short & (answer.row_status == "verified")).sum())
    if count:
        why = "the budget ended before the search did; a larger one (--budget, --seconds) may give better answers"
        out.print(f"{count:,} of the verified answers are the best so far: {why}", highlight=False, soft_wrap=True)


def _print_reasons(answer: Explanation) -> None:
    """Print why the first rows without an answer have none."""
    # Rows that are timed_out share one line.
    reasons = [reason for reason in answer.reasons.values() if reason.status != "timed_out"]
    for reason in reasons[:SHOWN]:
        head = f"[bold]row {escape(one_line(reason.row))}[/], {escape(reason.status)}:"
        out.print(head, escape(reason.words), highlight=False, soft_wrap=True)
    if len(reasons) > SHOWN:
        out.print(f"... and {len(reasons) - SHOWN:,} more rows with a reason", highlight=False)


def _print_table(answer: Explanation, count: int) -> None:
    """Print the first answers, one change per line."""
    from ..explanation.wording import change_line, marked, short_scores

    table = table_of("row", "what changes", "probability" if answer.task.classes else "output", "status")
    for c in map(answer.certificate, range(count)):
        row = one_line(c.row) if c.rank == 1 else f"{one_line(c.row)}, answer {c.rank}"
        moves = "\n".join(one_line(change_line(change, c.schema)) for change in c.changes) or "nothing"
        known = "" if c.predicted is None else short_scores(c)
        status = "\n".join([marked(c.status), *(f"- {failure}" for failure in _failures(c))])
        table.add_row(*map(escape, (row, moves, known, status)))
        table.add_row()
    out.print(table)


def _failures(c: Certificate) -> list[str]:
    found = [r.words for r in c.rules if not r.kept]
    found += ["an immutable feature must not change"] if not c.immutables_kept else []
    if not c.in_domain:
        return [*found, "a value is outside its domain"]
    names = [str(name) if c.schema is None else c.schema.class_title(name) for name in (c.predicted, c.wanted)]
    return found if c.valid else [*found, "the model answers {}, not {}".format(*names)]


Output = Annotated[
    str | None,
    typer.Option(
        "--out",
        help="Write the answers to a file (.parquet, .csv, .json) or to a folder of parquet files (no extension).",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(help="dask: explain with several processes on this machine, or on a cluster (--scheduler)."),
]
Workers = Annotated[int | None, typer.Option(min=1, help="With --engine dask: the number of processes [one per core].")]
Scheduler = Annotated[
    str | None, typer.Option(help="With --engine dask: the address of a cluster, e.g. tcp://10.0.0.1:8786.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Start again, and discard what an earlier run has left.")]
Page = Annotated[Path | None, typer.Option("--html", help="Write a page to read and to share (.html).")]
Letters = Annotated[
    Path | None,
    typer.Option(help="Write one letter per person to this folder, in plain words, ready to print (.html)."),
]
Language = Annotated[str, typer.Option(help="The language of the letters: en, de, or a file with your own texts.")]
Group = Annotated[str | None, typer.Option(help="On the page, compare results between the values of this feature.")]
Target = Annotated[
    list[str] | None,
    typer.Option(
        help="The desired outcome, in place of the one given to fit: a class; several classes, repeated or "
        "comma-separated; for a regressor a range such as '>= 700'. The threshold is part of the model: set it in fit."
    ),
]
AtLeast = Annotated[
    float | None,
    typer.Option(help="The minimum probability of the desired outcome, e.g. 0.8, in place of the one given to fit."),
]
Many = Annotated[int, typer.Option("-k", min=1, help="The maximum number of answers per row.")]
Prefer = Annotated[
    str | None,
    typer.Option(
        help="fewest (changes), sparse (few and small changes), balanced, or plausible (close to real rows).",
        autocompletion=console.preferences,
    ),
]
WhyNot = Annotated[
    bool,
    typer.Option(
        "--why-not",
        help="Say what blocks rows without an answer, and what would help. "
        "Unless the model is a network, this takes several times as long as the search.",
    ),
]
WhyNotAll = Annotated[
    bool,
    typer.Option(
        "--why-not-all",
        help="Like --why-not, but name immutable features too: for people who audit a model, not for those it refused.",
    ),
]
OverridesFile = Annotated[
    Path | None,
    typer.Option(
        help="Settings for single rows: a file with a column `row` (the row's number, or its label under --index) and "
        "columns such as freeze, target, rules."
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key",
        help="A file with at least 16 secret bytes (openssl rand -out FILE 32). Only holders of the key can then make "
        "a valid digest for the parquet file.",
    ),
]
Calls = Annotated[
    int | None,
    typer.Option(
        "--budget", "--calls", min=1, help="The maximum number of model queries per row. Networks are not limited."
    ),
]
Seconds = Annotated[float | None, typer.Option(help="The maximum search time per row, in seconds.")]
Draws = Annotated[int, typer.Option(min=0, help="The number of candidates that the generator draws per row.")]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Answer in one pass with the best draw of the generator; search only rows without a valid draw."
    ),
]
Chunk = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="From files to parquet: the rows after which answers are saved, and where an interrupted run resumes "
        "[20,000; 1,000 if the model is not a network and --out is one file].",
    ),
]
BestEffort = Annotated[
    bool, typer.Option("--best-effort", help="Give rows without an answer the nearest candidate, marked best_effort.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop if any row cannot be read.")]
AllVerified = Annotated[
    bool,
    typer.Option("--all-verified", help="Exit with code 1 unless every row that needs an answer has a verified one."),
]


def explain(
    model: Model,
    rows: Rows,
    output: Output = None,
    html: Page = None,
    letters: Letters = None,
    language: Language = "en",
    group: Group = None,
    target: Target = None,
    at_least: AtLeast = None,
    k: Many = 1,
    prefer: Prefer = None,
    why_not: WhyNot = False,
    why_not_all: WhyNotAll = False,
    overrides: OverridesFile = None,
    key: KeyFile = None,
    budget: Calls = None,
    seconds: Seconds = None,
    draws: Draws = 16,
    quick: Quick = False,
    chunk: Chunk = None,
    engine: Engine = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    overwrite: Overwrite = False,
    best_effort: BestEffort = False,
    index: CalledBy = None,
    skip_missing: SkipMissing = False,
    classifier: OwnClassifier = None,
    strict: Strict = False,
    all_verified: AllVerified = False,
    as_json: Json = False,
) -> None:
    """Find what each row could change so that the model gives the desired outcome.

    Example: fcxplain explain model rows.csv --why-not --html report.html --out answers.parquet

    Example: fcxplain explain model 'rows/*.parquet' --out answers/ --engine dask --workers 4

    Every answer is checked with the classifier itself, the rules and the schema; only answers that pass are returned.
    For a row without one, the status says whether that is proved (impossible) or not (not_found). Columns that are not
    features are ignored.

    From parquet to parquet, or to a folder, files of any size are explained in constant memory, and an interrupted run
    resumes where it stopped. With --engine dask, many processes or machines share the work and write the same bytes. If
    some of several files cannot be read, the others are explained and the command exits with code 1.

    A model fitted with --as-published returns every draw, and marks those that fail a check best_effort.
    """
    from ..datasets.source import Source
    from ..explainer import FCx
    from .models import index_of, rows_named

    secret = _checked(output, html, group, key)
    _check_letters(letters, language)
    with working("loading the model"):
        fcx = FCx.load(model, classifier)
    if group is not None:
        # A name that is not a feature is refused before the work starts.
        _ = fcx.task_.schema[group]
    _warn_of_freedom(fcx, Source.remembered(fcx.source_))
    why = "all" if why_not_all else why_not
    asked: dict[str, Any] = {"k": k, "prefer": prefer, "why_not": why, "best_effort": best_effort, "strict": strict}
    asked |= {"overrides": given_overrides(overrides), "budget": _budget(budget, seconds)} | _drawn(draws, quick)
    asked |= {"target": as_given(target), "target_probability": at_least}
    spread = {"engine": engine, "workers": workers, "scheduler": scheduler}
    if letters is None and _streams(rows, output, html, skip_missing=skip_missing, engine=engine is not None):
        how = {"index": index_of(rows, fcx, index), "chunk": chunk, "key": secret, "overwrite": overwrite}
        found = _streamed(fcx, rows, str(output), asked | how | spread)
        if html is not None:
            found.explanation(fcx.task_).to_html(html, group=group)
        return _finish(found, fcx, html, as_json, all_verified=all_verified)
    _check_in_memory(chunk, spread)
    with working("loading the rows"):
        table = rows_named(rows, fcx, index, skip_missing=skip_missing, strict=strict)
    with working(EXPLAINING, len(table)) as work:
        answer = fcx.explain(table, on_progress=work.tell, **asked)
    file = None if output is None else Path(output)
    with working("writing"):
        _write(answer, file, html, group, secret)
        if letters is not None:
            answer.letters(letters, language=language)
    if as_json:
        print_json(answer.to_dict() if file is None else _counted(answer, file))
    else:
        _print_answers(answer, file, html, letters, asked_why=bool(why))
    return _end(answer.counts, all_verified=all_verified)


def _check_in_memory(chunk: int | None, spread: Mapping[str, object]) -> None:
    """Refuse an engine for rows that are explained in memory, and note that --chunk has no effect on them."""
    if chunk is not None:
        note("--chunk has no effect: it is for explaining parquet or large CSV files into parquet.")
    if any(given is not None for given in spread.values()):
        raise DataError("", [Fault("--engine", "needs a folder for the answers", "Name one: --out answers/.")])


def _warn_of_freedom(fcx: FCx, source: Source | None) -> None:
    """Note that answers may change every feature if neither rules nor immutable features were given."""
    from .guide import FREE, suggesting

    if fcx.task_.rules or fcx.task_.schema.immutable:
        return
    command = "fcxplain rules suggest" if source is None else suggesting(source)
    note(f"{FREE} For suggestions, run {command}; then fit again with --rules.")


def _streams(rows: str, output: str | None, html: Path | None, *, skip_missing: bool, engine: bool) -> bool:
    """Whether files are explained into files, in chunks: always to a folder, from several files, and with an engine."""
    from ..storage import is_several
    from .models import is_built_in

    if output is None or not (_is_folder(output) or _is_parquet(output)):
        return False
    if not (engine or _is_folder(output) or (not is_built_in(rows) and is_several(rows))):
        return html is None and not skip_missing and (_is_parquet(rows) or _is_large(rows))
    faults = (
        [Fault("--skip-missing", "is for one file that is read into memory", "Leave it out.")] if skip_missing else []
    )
    if is_built_in(rows):
        faults.append(Fault(f"rows {rows!r}", "is a data set", "Name files of rows, or write to answers.parquet."))
    if faults:
        raise DataError(f"--out {output}", faults)
    return True


def _is_large(rows: str) -> bool:
    return Path(rows).is_file() and Path(rows).stat().st_size > LARGE


def _is_folder(output: str) -> bool:
    from ..streaming import is_folder

    return is_folder(output)


def _checked(output: str | None, html: Path | None, group: str | None, key: Path | None) -> bytes | None:
    """The secret bytes, if a key file is given. Refuses output files that could not be written, before the work."""
    file = None if output is None or _is_folder(output) else Path(output)
    for path, endings, option in ((file, ANSWERS, "--out"), (html, (".html", ".htm"), "--html")):
        if path is not None:
            check_output(path, endings, option)
    if group is not None and html is None:
        raise DataError("", [Fault(f"--group {group}", "is for a page", "Write one with --html report.html.")])
    secret = read_key(key)
    if secret is not None and (output is None or not (_is_parquet(output) or _is_folder(output))):
        problem, remedy = "is for answers in parquet", "Write them with --out answers.parquet."
        raise DataError("", [Fault(f"--key {key}", problem, remedy)])
    return secret


def _check_letters(folder: Path | None, language: str) -> None:
    """Refuse a folder or a language that cannot be used, before the work."""
    from ..explanation.page.letter import words_in

    words_in(language)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise DataError("", [Fault(f"--letters {folder}", "is a file", "Name a folder.")])


def _write(answer: Explanation, output: Path | None, html: Path | None, group: str | None, key: bytes | None) -> None:
    match None if output is None else output.suffix.lower():
        case ".parquet":
            answer.to_parquet(str(output), key=key)
        case ".json":
            answer.to_json(output)
        case ".csv":
            answer.to_csv(str(output))
    if html is not None:
        answer.to_html(html, group=group)


def given_overrides(path: Path | None) -> Any:
    """The overrides in a file, if one is given."""
    from ..overrides import read_overrides

    return None if path is None else read_overrides(path)


def read_key(path: Path | None) -> bytes | None:
    """The secret bytes of a key file, if one is given."""
    from ..explanation.files.digest import checked_key

    try:
        return None if path is None else checked_key(path.read_bytes())
    except OSError as error:
        remedy = f"Make one: openssl rand -out {path} 32."
        raise DataError("", [Fault(f"--key {path}", f"cannot be read ({error.strerror})", remedy)]) from error


def _budget(calls: int | None, seconds: float | None) -> dict[str, Any] | None:
    given = {name: value for name, value in (("calls", calls), ("seconds", seconds)) if value is not None}
    return given or None


def _drawn(draws: int, quick: bool) -> dict[str, Any]:
    """Options that FCx as published refuses, only where they differ from the default."""
    return ({"draws": draws} if draws != 16 else {}) | ({"quick": True} if quick else {})


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(".parquet")


def _streamed(fcx: FCx, rows: str, output: str, asked: dict[str, Any]) -> Streamed:
    with working(EXPLAINING) as work:
        try:
            return fcx.explain_file(rows, output, on_progress=work.tell, **asked)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_kept_so_far(fcx, output, asked["chunk"])) from None


def _kept_so_far(fcx: FCx, output: str | Path, chunk: int | None) -> str:
    """What an interrupted run has saved."""
    from ..streaming import chunk_for, folder_of, is_folder, kept_rows

    rows = kept_rows(output)
    if rows:
        place = folder_of(output)
        return f"the answers to {counted(rows, 'row')} are kept in {place}; run the same command again to resume"
    size = counted(chunk_for(fcx.task_, stays=is_folder(output)) if chunk is None else chunk, "row")
    return f"nothing is saved yet, since answers are saved {size} at a time; --chunk sets the number"


def _finish(found: Streamed, fcx: FCx, html: Path | None, as_json: bool, *, all_verified: bool) -> None:
    if as_json:
        summary = {"rows": found.rows, "counts": dict(found.counts), "notes": list(found.notes)}
        print_json(summary | {"failed": dict(found.failed), "out": str(found.path)})
    else:
        out.print(f"{found.rows:,} rows in {found.effort.seconds:,.1f} s of work:", highlight=False)
        _print_counts(dict(found.counts), found.notes, _without_answer_in(found, fcx.task_))
        for what, reason in found.failed.items():
            out.print(f"[bold red]failed:[/] {escape(f'{what}: {reason}')}", highlight=False, soft_wrap=True)
        if found.failed:
            out.print("After a fix, the same command explains only the rows that failed.", highlight=False)
        written(found.path, html)
    if found.failed:
        raise typer.Exit(1)
    _end(dict(found.counts), all_verified=all_verified)


def _end(counts: dict[str, int], *, all_verified: bool) -> None:
    if all_verified and set(counts) - {"verified", "already"}:
        raise typer.Exit(1)


def _counted(answer: Explanation, output: Path) -> dict[str, Any]:
    summary = {"rows": len(answer), "answers": len(answer.answers), "counts": answer.counts}
    return {"method": answer.method, **summary, "notes": list(answer.notes), "out": str(output)}
