"""`fcxplain explain`: what each row of a table could change, on screen, in a file, or as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..errors import DataError, Fault
from ..files import check_output
from ..progress import EXPLAINING
from ..text import counted
from . import console
from .console import as_given, note, one_line, option, out, print_json, table_of, written
from .models import CalledBy, Model, OwnClassifier, Rows, given_overrides, index_of, is_built_in, read_key, rows_named
from .progress import Work

if TYPE_CHECKING:
    from ..explainer import FCx
    from ..explanation import Certificate, Explanation
    from ..streaming import Streamed

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
        out.print(f"... and {count - SHOWN:,} more; write all of them to a file with --out\n")
    _print_reasons(answer)
    out.print(f"{len(answer):,} rows, {count:,} answers by {escape(answer.method)}:")
    _print_counts(answer.counts, answer.notes, lambda status: answer.rows.index[answer.row_status == status][:NAMED])
    best_so_far = 0 if answer.cut_short is None else (answer.cut_short & (answer.row_status == "verified")).sum()
    if best_so_far:
        why = "the budget ended before the search did; a larger one (--budget, --seconds) may give better answers"
        out.print(f"{best_so_far:,} of the verified answers are the best so far: {why}")
    if asked_why and answer.counts.get("timed_out"):
        why = "For rows that are timed_out, no reasons were sought: their budget was spent."
        out.print(f"{why} Raise it with --budget or --seconds.")
    written(output, html)
    if letters is not None:
        out.print(f"{counted(len(answer), 'letter')} in {escape(str(letters))}")


def _print_counts(
    counts: Mapping[str, int], notes: Sequence[str], first_rows: Callable[[str], Iterable[object]]
) -> None:
    """Print the number of rows per status, with the labels of the first rows if the status means no answer."""
    from ..explanation.wording import marked

    for status, rows in sorted(counts.items()):
        which = ""
        if status in WITHOUT:
            more = f" and {rows - NAMED:,} more" if rows > NAMED else ""
            which = f" (row{'s' * (rows > 1)} {', '.join(map(one_line, first_rows(status)))}{more})"
        out.print(f"  {rows:>7,}  [bold]{marked(status)}[/]: {STATUSES[status]}{escape(which)}")
    for line in notes:
        out.print(escape(line))


def _print_reasons(answer: Explanation) -> None:
    """Print why the first rows without an answer have none."""
    # Rows that are timed_out share one line.
    reasons = [reason for reason in answer.reasons.values() if reason.status != "timed_out"]
    for reason in reasons[:SHOWN]:
        head = f"[bold]row {escape(one_line(reason.row))}[/], {escape(reason.status)}:"
        out.print(head, escape(reason.words))
    if len(reasons) > SHOWN:
        out.print(f"... and {len(reasons) - SHOWN:,} more rows with a reason")


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


def explain(
    model: Model,
    rows: Rows,
    output: Annotated[
        str | None,
        option(
            "Write the answers to a file (.parquet, .csv, .json) or to a folder of parquet files (no extension).",
            "--out",
        ),
    ] = None,
    html: Annotated[Path | None, option("Write a page to read and to share (.html).")] = None,
    letters: Annotated[
        Path | None, option("Write one letter per person to this folder, in plain words, ready to print (.html).")
    ] = None,
    language: Annotated[str, option("The language of the letters: en, de, or a file with your own texts.")] = "en",
    group: Annotated[str | None, option("On the page, compare results between the values of this feature.")] = None,
    target: Annotated[
        list[str] | None,
        option(
            "The desired outcome, in place of the one given to fit: a class; several classes, repeated or "
            "comma-separated; for a regressor a range such as '>= 700'. The threshold is part of the model: set it in "
            "fit."
        ),
    ] = None,
    at_least: Annotated[
        float | None,
        option("The minimum probability of the desired outcome, e.g. 0.8, in place of the one given to fit."),
    ] = None,
    k: Annotated[int, option("The maximum number of answers per row.", "-k", least=1)] = 1,
    prefer: Annotated[
        str | None,
        option(
            "fewest (changes), sparse (few and small changes), balanced, or plausible (close to real rows).",
            among=console.PREFERENCES,
        ),
    ] = None,
    why_not: Annotated[
        bool,
        option(
            "Say what blocks rows without an answer, and what would help. Unless the model is a network, this "
            "takes several times as long as the search.",
            "--why-not",
        ),
    ] = False,
    why_not_all: Annotated[
        bool,
        option(
            "Like --why-not, but name immutable features too: for people who audit a model, not for those it refused.",
            "--why-not-all",
        ),
    ] = False,
    overrides: Annotated[
        Path | None,
        option(
            "Settings for single rows: a file with a column `row` (the row's number, or its label under --index) and "
            "columns such as freeze, target, rules."
        ),
    ] = None,
    key: Annotated[
        Path | None,
        option(
            "A file with at least 16 secret bytes (openssl rand -out FILE 32). Only holders of the key can then make a "
            "valid digest for the parquet file."
        ),
    ] = None,
    budget: Annotated[
        int | None,
        option(
            "The maximum number of model queries per row. Networks are not limited.", "--budget", "--calls", least=1
        ),
    ] = None,
    seconds: Annotated[float | None, option("The maximum search time per row, in seconds.")] = None,
    draws: Annotated[int, option("The number of candidates that the generator draws per row.", least=0)] = 16,
    quick: Annotated[
        bool,
        option(
            "Answer in one pass with the best draw of the generator; search only rows without a valid draw.", "--quick"
        ),
    ] = False,
    chunk: Annotated[
        int | None,
        option(
            "From files to parquet: the rows after which answers are saved, and where an interrupted run resumes "
            "[20,000; 1,000 if the model is not a network and --out is one file].",
            least=1,
        ),
    ] = None,
    engine: Annotated[
        str | None, option("dask: explain with several processes on this machine, or on a cluster (--scheduler).")
    ] = None,
    workers: Annotated[
        int | None, option("With --engine dask: the number of processes [one per core].", least=1)
    ] = None,
    scheduler: Annotated[
        str | None, option("With --engine dask: the address of a cluster, e.g. tcp://10.0.0.1:8786.")
    ] = None,
    overwrite: Annotated[bool, option("Start again, and discard what an earlier run has left.", "--overwrite")] = False,
    best_effort: Annotated[
        bool, option("Give rows without an answer the nearest candidate, marked best_effort.", "--best-effort")
    ] = False,
    index: CalledBy = None,
    skip_missing: console.SkipMissing = False,
    classifier: OwnClassifier = None,
    strict: Annotated[bool, option("Stop if any row cannot be read.", "--strict")] = False,
    all_verified: Annotated[
        bool, option("Exit with code 1 unless every row that needs an answer has a verified one.", "--all-verified")
    ] = False,
    as_json: console.Json = False,
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
    from ..explainer import FCx

    secret = _check_outputs(output, html, group, key, letters, language)
    with Work("loading the model"):
        fcx = FCx.load(model, classifier)
    if group is not None:
        # A name that is not a feature is refused before the work starts.
        _ = fcx.task_.schema[group]
    _warn_of_freedom(fcx)
    why = "all" if why_not_all else why_not
    limits = {name: value for name, value in (("calls", budget), ("seconds", seconds)) if value is not None}
    asked: dict[str, Any] = {"k": k, "prefer": prefer, "why_not": why, "best_effort": best_effort, "strict": strict}
    asked |= {"overrides": given_overrides(overrides), "budget": limits or None}
    asked |= {"target": as_given(target), "target_probability": at_least}
    # FCx as published refuses these, so they are passed on only where they differ from the default.
    asked |= ({"draws": draws} if draws != 16 else {}) | ({"quick": True} if quick else {})
    spread = {"engine": engine, "workers": workers, "scheduler": scheduler}
    if letters is None and _streams(rows, output, html, skip_missing=skip_missing, engine=engine is not None):
        how = {"index": index_of(rows, fcx, index), "chunk": chunk, "key": secret, "overwrite": overwrite}
        found = _streamed(fcx, rows, str(output), asked | how | spread)
        if html is not None:
            found.explanation(fcx.task_).to_html(html, group=group)
        _tell_streamed(found, fcx, html, as_json)
        counts = found.counts
    else:
        if chunk is not None:
            note("--chunk has no effect: it is for explaining parquet or large CSV files into parquet.")
        if any(given is not None for given in spread.values()):
            raise DataError("", [Fault("--engine", "needs a folder for the answers", "Name one: --out answers/.")])
        with Work("loading the rows"):
            table = rows_named(rows, fcx, index, skip_missing=skip_missing, strict=strict)
        with Work(EXPLAINING, len(table)) as work:
            answer = fcx.explain(table, on_progress=work.tell, **asked)
        file = None if output is None else Path(output)
        with Work("writing"):
            _write(answer, file, html, group, secret)
            if letters is not None:
                answer.letters(letters, language=language)
        if not as_json:
            _print_answers(answer, file, html, letters, asked_why=bool(why))
        elif file is None:
            print_json(answer.to_dict())
        else:
            summary = {"rows": len(answer), "answers": len(answer.answers), "counts": answer.counts}
            print_json({"method": answer.method, **summary, "notes": list(answer.notes), "out": str(file)})
        counts = answer.counts
    if all_verified and set(counts) - {"verified", "already"}:
        raise typer.Exit(1)


def _check_outputs(
    output: str | None, html: Path | None, group: str | None, key: Path | None, letters: Path | None, language: str
) -> bytes | None:
    """The secret bytes, if a key file is given. Refuses what could not be written, before the work."""
    from ..explanation.page.letter import words_in
    from ..streaming import is_folder

    file = None if output is None or is_folder(output) else Path(output)
    for path, endings, flag in ((file, console.ANSWERS, "--out"), (html, (".html", ".htm"), "--html")):
        if path is not None:
            check_output(path, endings, flag)
    if group is not None and html is None:
        raise DataError("", [Fault(f"--group {group}", "is for a page", "Write one with --html report.html.")])
    secret = read_key(key)
    if secret is not None and (output is None or not (_is_parquet(output) or is_folder(output))):
        problem, remedy = "is for answers in parquet", "Write them with --out answers.parquet."
        raise DataError("", [Fault(f"--key {key}", problem, remedy)])
    words_in(language)
    if letters is not None and letters.exists() and not letters.is_dir():
        raise DataError("", [Fault(f"--letters {letters}", "is a file", "Name a folder.")])
    return secret


def _warn_of_freedom(fcx: FCx) -> None:
    """Note that answers may change every feature if neither rules nor immutable features were given."""
    from ..datasets.source import Source
    from .tables import FREE, suggesting

    if not (fcx.task_.rules or fcx.task_.schema.immutable):
        source = Source.remembered(fcx.source_)
        command = "fcxplain rules suggest" if source is None else suggesting(source)
        note(f"{FREE} For suggestions, run {command}; then fit again with --rules.")


def _streams(rows: str, output: str | None, html: Path | None, *, skip_missing: bool, engine: bool) -> bool:
    """Whether files are explained into files, in chunks: always to a folder, from several files, and with an engine."""
    from ..storage import is_several
    from ..streaming import is_folder

    if output is None or not (is_folder(output) or _is_parquet(output)):
        return False
    if not (engine or is_folder(output) or (not is_built_in(rows) and is_several(rows))):
        is_large = Path(rows).is_file() and Path(rows).stat().st_size > LARGE
        return html is None and not skip_missing and (_is_parquet(rows) or is_large)
    faults = []
    if skip_missing:
        faults.append(Fault("--skip-missing", "is for one file that is read into memory", "Leave it out."))
    if is_built_in(rows):
        faults.append(Fault(f"rows {rows!r}", "is a data set", "Name files of rows, or write to answers.parquet."))
    if faults:
        raise DataError(f"--out {output}", faults)
    return True


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


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(".parquet")


def _streamed(fcx: FCx, rows: str, output: str, asked: dict[str, Any]) -> Streamed:
    with Work(EXPLAINING) as work:
        try:
            return fcx.explain_file(rows, output, on_progress=work.tell, **asked)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_kept_so_far(fcx, output, asked["chunk"])) from None


def _kept_so_far(fcx: FCx, output: str, chunk: int | None) -> str:
    """What an interrupted run has saved."""
    from ..streaming import chunk_for, folder_of, is_folder, kept_rows

    if rows := kept_rows(output):
        kept = f"the answers to {counted(rows, 'row')} are kept in {folder_of(output)}"
        return f"{kept}; run the same command again to resume"
    size = counted(chunk_for(fcx.task_, stays=is_folder(output)) if chunk is None else chunk, "row")
    return f"nothing is saved yet, since answers are saved {size} at a time; --chunk sets the number"


def _tell_streamed(found: Streamed, fcx: FCx, html: Path | None, as_json: bool) -> None:
    if as_json:
        summary = {"rows": found.rows, "counts": dict(found.counts), "notes": list(found.notes)}
        print_json(summary | {"failed": dict(found.failed), "out": str(found.path)})
    else:
        out.print(f"{found.rows:,} rows in {found.effort.seconds:,.1f} s of work:")
        _print_counts(found.counts, found.notes, lambda status: found.first_rows(fcx.task_, status, NAMED))
        for what, reason in found.failed.items():
            out.print(f"[bold red]failed:[/] {escape(f'{what}: {reason}')}")
        if found.failed:
            out.print("After a fix, the same command explains only the rows that failed.")
        written(found.path, html)
    if found.failed:
        raise typer.Exit(1)
