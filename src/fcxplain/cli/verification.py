"""`fcxplain verify`: whether a file of answers still says what the model, the rules and the rows say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..errors import DataError, Fault
from ..text import counted
from .console import Json, SkipMissing, as_given, out, print_json, table_of
from .models import CalledBy, OwnClassifier
from .progress import working

if TYPE_CHECKING:
    from ..explanation.files.verification import Verification

# Differences that are listed, and letters of a value in the list.
SHOWN, LETTERS = 12, 60


def verify(
    model: Annotated[
        Path, typer.Argument(help="The folder of a saved model; or, with --model, a receipt of `fcxplain serve`.")
    ],
    rows: Annotated[
        str | None, typer.Argument(help="A CSV or parquet file, a folder or glob of them, or a data set's name.")
    ] = None,
    answers: Annotated[
        str | None, typer.Argument(help="The file or folder that `fcxplain explain --out` wrote.")
    ] = None,
    folder: Annotated[Path | None, typer.Option("--model", help="The model that a receipt is held against.")] = None,
    overrides: Annotated[
        Path | None,
        typer.Option(help="The overrides that `explain` was given; the file must have these and no others."),
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="The --target that `explain` was given; the file must have the same.")
    ] = None,
    at_least: Annotated[
        float | None, typer.Option(help="The --at-least that `explain` was given; the file must have the same.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", help="The key that `explain` was given: only it proves who wrote the file.")
    ] = None,
    index: CalledBy = None,
    skip_missing: SkipMissing = False,
    classifier: OwnClassifier = None,
    as_json: Json = False,
) -> None:
    """Check again every answer in a file, and hold the file against its digest.

    Each certificate is built anew from the counterfactual alone, with the classifier, the rules and the rows at hand,
    and compared with the one in the file. What only a new search could tell (that a row has no answer, that one is
    impossible, why not) is taken as written; whether it was edited, the digest says. Without a key, that detects
    accidental damage and careless edits, since whoever edits the file can make the digest anew.

    Ends with code 0 if everything holds, 1 if anything differs (an edited file, another classifier, other rules or
    overrides, a row too few, another key), 2 if a file cannot be read.

    A receipt.json of `fcxplain serve` is held against its signature, and against the model named by --model.

    Example: fcxplain verify model rows.csv answers.parquet; or fcxplain verify receipt.json --model model
    """
    if folder is not None:
        return _verify_receipt(model, folder, classifier, as_json)
    if rows is None or answers is None:
        remedy = "Give MODEL ROWS ANSWERS; or a receipt and --model MODEL."
        raise DataError("", [Fault("verify", "needs the model, the rows and the file of answers", remedy)])
    from ..explainer import FCx
    from ..explanation.files.verification import verify as verified
    from .explaining import given_overrides, read_key
    from .models import rows_named

    own, secret = given_overrides(overrides), read_key(key)
    with working("loading the model and the rows"):
        fcx = FCx.load(model, classifier, any_classifier=True)
        task, table = fcx.task_, rows_named(rows, fcx, index, skip_missing=skip_missing, strict=False)
    with working("checking answers", len(table)) as work:
        asked: dict[str, Any] = {"target": as_given(target), "target_probability": at_least}
        found = verified(task, table, answers, overrides=own, key=secret, on_progress=work.tell, **asked)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
    if not found.passed:
        raise typer.Exit(1)
    return None


def _verify_receipt(path: Path, folder: Path, classifier: str | None, as_json: bool) -> None:
    """Whether signature, model, rules and answer of a receipt still hold."""
    from ..explainer import FCx
    from .serving import need_extra

    need_extra()
    from ..service.receipts import held_against, read_receipt

    if not path.is_file():
        raise DataError("", [Fault(str(path), "is not there", "Name the file of a receipt.")])
    receipt = read_receipt(path.read_bytes())
    with working("loading the model"):
        task = FCx.load(folder, classifier, any_classifier=True).task_
    found = held_against(task, receipt)
    if as_json:
        print_json(found.to_dict())
    else:
        verdict = "[bold green]it holds[/]" if found.holds else "[bold red]IT DOES NOT HOLD[/]"
        out.print(f"{verdict}: receipt {escape(receipt['id'])} of {escape(str(receipt['issued']))}", highlight=False)
        for name in ("signature", "model", "rules", "answer"):
            mark = "[green]holds[/]" if getattr(found, name) else "[bold red]DOES NOT HOLD[/]"
            out.print(f"  {name}: {mark}", highlight=False)
        out.print(f"  signed by the key {escape(found.key)}", highlight=False)
        for said in found.differences:
            out.print(f"  {escape(_short(said))}", highlight=False)
    if not found.holds:
        raise typer.Exit(1)


def _print(found: Verification) -> None:
    if found.passed:
        out.print("[bold green]verified:[/] answers and certificates are as the model and rules say", highlight=False)
    elif found.total:
        out.print(f"[bold red]NOT VERIFIED: {counted(found.total, 'difference')}[/]", highlight=False)
        _print_differences(found)
    else:
        out.print("[bold red]NOT VERIFIED:[/] answers and certificates hold, the digest does not", highlight=False)
    colour = "bold red" if not found.digest.holds else "cyan"
    out.print(f"[{colour}]digest:[/]", escape(found.digest.words), highlight=False)
    told = f"{counted(found.rows, 'row')}, {counted(found.answers, 'answer')} in {escape(str(found.path))}"
    out.print(f"{told}:" if found.passed else f"{told}; what the file claims of them:", highlight=False)
    for status, rows in sorted(found.counts.items()):
        out.print(f"  {rows:>7,}  [bold]{escape(status)}[/]", highlight=False)
    for note in found.notes:
        out.print("[cyan]note:[/]", escape(note), highlight=False)


def _print_differences(found: Verification) -> None:
    table = table_of("row", "answer", "what", "in the file", "should be")
    for d in found.differences[:SHOWN]:
        rank = "" if d.rank is None else str(d.rank)
        table.add_row(*map(escape, (str(d.row), rank, d.field, _short(d.stored), _short(d.found))))
    out.print(table)
    if found.total > SHOWN:
        counted = ", ".join(f"{name} {count:,}" for name, count in sorted(found.fields.items(), key=lambda f: -f[1]))
        out.print(escape(f"... and {found.total - SHOWN:,} more; by what differs: {counted}"), highlight=False)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LETTERS else f"{text[:LETTERS]}..."
