"""`fcxplain explain`: what each row of a table could change, on the screen, in a file, or as a page."""

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

# Answers, and rows without one, that are shown when they go to no file.
SHOWN = 5
# Rows without an answer that are named for each status.
NAMED = 8
WITHOUT = ("impossible", "not_found", "timed_out", "unreadable")
STATUSES = {
    "verified": "everything that was checked holds",
    "best_effort": "an answer of which something does not hold",
    "already": "has what is wanted as it is",
    "not_found": "no answer was found",
    "impossible": "proved to have no answer",
    "timed_out": "no answer within the budget",
    "unreadable": "does not fit the schema, or the model refuses it",
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
        told = "For rows that are timed_out, the reasons were not looked into: their budget was spent."
        out.print(f"{told} Give them more with --budget or --seconds.", highlight=False, soft_wrap=True)
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
    from ..explanation.wording import marked

    for status, rows in sorted(counts.items()):
        told = f"{STATUSES[status]}{escape((which or {}).get(status, ''))}"
        out.print(f"  {rows:>7,}  [bold]{marked(status)}[/]: {told}", highlight=False, soft_wrap=True)
    for line in notes:
        out.print(escape(line), highlight=False)


def _print_cut_short(answer: Explanation) -> None:
    """How many answers might be better with a larger budget."""
    if answer.cut_short is None:
        return
    count = int((answer.cut_short & (answer.row_status == "verified")).sum())
    if count:
        told = "their budget ended before the search did; with more (--budget, --seconds) there may be better ones"
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
        help="Write answers (.parquet, .csv, .json), or a folder of parquet files (a name without an ending).",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(help="dask: explain with several processes of this machine, or with a cluster (--scheduler)."),
]
Workers = Annotated[int | None, typer.Option(min=1, help="With --engine dask: so many processes [one for each core].")]
Scheduler = Annotated[
    str | None, typer.Option(help="With --engine dask: the address of a cluster, e.g. tcp://10.0.0.1:8786.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Begin anew, whatever an earlier run has left.")]
Page = Annotated[Path | None, typer.Option("--html", help="Write a page to read and to send on (.html).")]
Letters = Annotated[
    Path | None, typer.Option(help="Write a letter for each person into this folder, in plain words, to print (.html).")
]
Language = Annotated[str, typer.Option(help="The language of the letters: en, de, or a file with your own texts.")]
Group = Annotated[
    str | None, typer.Option(help="On the page, tell apart how the rows with each value of this feature fare.")
]
Target = Annotated[
    list[str] | None,
    typer.Option(
        help="What is wanted, in place of what the model was fitted for: a class; several, repeated or with commas; of "
        "a regressor a range, such as '>= 700'. The threshold belongs to the model: it is set by fit."
    ),
]
AtLeast = Annotated[
    float | None,
    typer.Option(help="The probability that it must have at least, e.g. 0.8, in place of what fit was told."),
]
Many = Annotated[int, typer.Option("-k", min=1, help="Answers for each row.")]
Prefer = Annotated[
    str | None,
    typer.Option(
        help="fewest (changes), sparse (few, none large), balanced, or plausible (like rows that there are).",
        autocompletion=console.preferences,
    ),
]
WhyNot = Annotated[
    bool,
    typer.Option(
        "--why-not",
        help="Say what stands in the way of rows without an answer. "
        "Unless the model is a network, this takes several times as long as the search.",
    ),
]
WhyNotAll = Annotated[
    bool,
    typer.Option(
        "--why-not-all",
        help="As --why-not, and name what is fixed too: for those who examine a model, not for those whom it refused.",
    ),
]
OverridesFile = Annotated[
    Path | None,
    typer.Option(
        help="What holds for single rows: a file with a column `row` (what the row is called: its number, or by "
        "--index) and freeze, target, rules, ..."
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key",
        help="A file with 16 secret bytes or more (openssl rand -out FILE 32). The digest in the parquet file is "
        "then one that only who has the key can make.",
    ),
]
Calls = Annotated[
    int | None,
    typer.Option(
        "--budget", "--calls", min=1, help="Queries to the model for a row, at most; a network is not limited."
    ),
]
Seconds = Annotated[float | None, typer.Option(help="Search no longer than this for a row.")]
Draws = Annotated[int, typer.Option(min=0, help="Proposals of the network for each row.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="One pass: the best draw of a row is its answer; others are searched.")
]
Chunk = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="From files to parquet: keep answers after so many rows, from where a run that was stopped goes on "
        "[20,000; 1,000 if the model is no network and --out is one file].",
    ),
]
BestEffort = Annotated[
    bool, typer.Option("--best-effort", help="Give rows without an answer what came nearest, marked as such.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse all rows if one cannot be read.")]
AllVerified = Annotated[
    bool,
    typer.Option("--all-verified", help="End with code 1 unless each row that needs an answer has a verified one."),
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
    """Say for each row what could change for the model to give the answer wanted.

    Every answer is checked with the classifier itself, the rules and the schema, and only those that pass are handed
    out; rows without one say whether that is proved. Parquet files of any size are explained into another, or into a
    folder, in constant memory, and a run goes on where it was cut off; with --engine dask by many processes or
    machines, to the same bytes. What cannot be read of several files is told, and the command ends with code 1. A model
    fitted --as-published hands out every draw, and marks those that fail a check best_effort. Columns that are no
    features are ignored.

    Example: fcxplain explain model rows.csv --why-not --html report.html --out answers.parquet

    Example: fcxplain explain model 'rows/*.parquet' --out answers/ --engine dask --workers 4
    """
    from ..datasets.source import Source
    from ..explainer import FCx
    from .models import index_of, rows_named

    secret = _checked(output, html, group, key)
    _check_letters(letters, language)
    with working("loading the model"):
        fcx = FCx.load(model, classifier)
    source = Source.remembered(fcx.source_)
    if group is not None:
        # What is no feature is told before the work.
        _ = fcx.task_.schema[group]
    _warn_of_freedom(fcx, source)
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
    if chunk is not None:
        note("--chunk is for a parquet file that is explained into another; here all rows are explained together.")
    if any(given is not None for given in spread.values()):
        raise DataError("", [Fault("--engine", "needs a place for the answers", "Name a folder: --out answers/.")])
    with working("loading the rows"):
        table = rows_named(rows, fcx, index, skip_missing=skip_missing, strict=strict)
    with working(EXPLAINING, len(table)) as work:
        answer = fcx.explain(table, on_progress=work.tell, **asked)
    file = None if output is None else Path(output)
    _write(answer, file, html, group, secret)
    if letters is not None:
        answer.letters(letters, language=language)
    if as_json:
        print_json(answer.to_dict() if file is None else _counted(answer, file))
    else:
        print_answers(answer, file, html, asked_why=bool(why))
        if letters is not None:
            out.print(f"{counted(len(answer), 'letter')} in {escape(str(letters))}", highlight=False, soft_wrap=True)
    return _end(answer.counts, all_verified=all_verified)


def _warn_of_freedom(fcx: FCx, source: Source | None) -> None:
    """Say that answers may change everything, where nobody said what may not."""
    from .guide import FREE, suggesting

    if fcx.task_.rules or fcx.task_.schema.immutable:
        return
    command = "fcxplain rules suggest" if source is None else suggesting(source)
    note(f"{FREE} Rules to choose from: {command}; then fit again with --rules.")


def _streams(rows: str, output: str | None, html: Path | None, *, skip_missing: bool, engine: bool) -> bool:
    """Whether rows go from files to files, some at a time: always to a folder, from several files, with an engine."""
    from ..storage import is_several
    from .models import is_built_in

    if output is None or not (_is_folder(output) or _is_parquet(output)):
        return False
    if not (engine or _is_folder(output) or (not is_built_in(rows) and is_several(rows))):
        return html is None and not skip_missing and _is_parquet(rows)
    faults = [Fault("--skip-missing", "is for rows that are read whole", "Leave it out.")] if skip_missing else []
    if is_built_in(rows):
        faults.append(Fault(f"rows {rows!r}", "is a data set", "Name files of rows, or write to answers.parquet."))
    if faults:
        raise DataError(f"--out {output}", faults)
    return True


def _is_folder(output: str) -> bool:
    from ..streaming import is_folder

    return is_folder(output)


def _checked(output: str | None, html: Path | None, group: str | None, key: Path | None) -> bytes | None:
    """The secret bytes, if a file of them is named; what could not be written is refused before the work."""
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
    """Refuse what could not be written before the work."""
    from ..explanation.page.letter import words_in

    words_in(language)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise DataError("", [Fault(f"--letters {folder}", "is a file", "Name a folder.")])


def _write(answer: Explanation, output: Path | None, html: Path | None, group: str | None, key: bytes | None) -> None:
    with working("writing"):
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
    """The overrides in a file, if one is named."""
    from ..overrides import read_overrides

    return None if path is None else read_overrides(path)


def read_key(path: Path | None) -> bytes | None:
    """The secret bytes of a file, if one is named."""
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
    """What FCx as published refuses is passed on only if it is asked for."""
    return ({"draws": draws} if draws != 16 else {}) | ({"quick": True} if quick else {})


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(".parquet")


def _streamed(fcx: FCx, rows: str, output: str, asked: dict[str, Any]) -> Streamed:
    with working(EXPLAINING) as work:
        try:
            return fcx.explain_file(rows, output, on_progress=work.tell, **asked)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(kept_so_far(fcx, output, asked["chunk"])) from None


def kept_so_far(fcx: FCx, output: str | Path, chunk: int | None) -> str:
    """What to say of the parts of a run that was stopped."""
    from ..streaming import chunk_for, folder_of, is_folder, kept_rows

    rows = kept_rows(output)
    if rows:
        place = folder_of(output)
        return f"the answers to {counted(rows, 'row')} are kept in {place}; the same command goes on from there"
    size = counted(chunk_for(fcx.task_, stays=is_folder(output)) if chunk is None else chunk, "row")
    return f"nothing is kept yet, since answers are kept {size} at a time; fewer with --chunk"


def _finish(found: Streamed, fcx: FCx, html: Path | None, as_json: bool, *, all_verified: bool) -> None:
    if as_json:
        told = {"rows": found.rows, "counts": dict(found.counts), "notes": list(found.notes)}
        print_json(told | {"failed": dict(found.failed), "out": str(found.path)})
    else:
        out.print(f"{found.rows:,} rows in {found.effort.seconds:,.1f} s of work:", highlight=False)
        print_counts(dict(found.counts), found.notes, without_answer_in(found, fcx.task_))
        for what, reason in found.failed.items():
            out.print(f"[bold red]failed:[/] {escape(f'{what}: {reason}')}", highlight=False, soft_wrap=True)
        if found.failed:
            out.print("Mend it, and the same command explains what failed alone.", highlight=False)
        written(found.path, html)
    if found.failed:
        raise typer.Exit(1)
    _end(dict(found.counts), all_verified=all_verified)


def _end(counts: dict[str, int], *, all_verified: bool) -> None:
    if all_verified and set(counts) - {"verified", "already"}:
        raise typer.Exit(1)


def _counted(answer: Explanation, output: Path) -> dict[str, Any]:
    told = {"rows": len(answer), "answers": len(answer.answers), "counts": answer.counts}
    return {"method": answer.method, **told, "notes": list(answer.notes), "out": str(output)}
