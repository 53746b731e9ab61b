"""`fcxplain verify`: check a file of answers, or a receipt, against the model, the rules and the rows."""

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

# Differences listed, and characters shown of a value.
SHOWN, LETTERS = 12, 60


Subject = Annotated[Path, typer.Argument(help="The folder of a saved model; or, with --model, a receipt.")]
Rows = Annotated[str | None, typer.Argument(help="A CSV or parquet file, a folder or glob of them, or a data set.")]
Answers = Annotated[str | None, typer.Argument(help="The file or folder that `fcxplain explain --out` wrote.")]
Folder = Annotated[
    Path | None, typer.Option("--model", help="The model to check a receipt of `fcxplain serve` against.")
]
OverridesFile = Annotated[
    Path | None, typer.Option(help="The --overrides of `explain`; the answers must have the same.")
]
Target = Annotated[list[str] | None, typer.Option(help="The --target of `explain`; the answers must have the same.")]
AtLeast = Annotated[float | None, typer.Option(help="The --at-least of `explain`; the answers must have the same.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key", help="The --key of `explain`: only it proves who wrote the file.")
]


def verify(
    model: Subject,
    rows: Rows = None,
    answers: Answers = None,
    folder: Folder = None,
    overrides: OverridesFile = None,
    target: Target = None,
    at_least: AtLeast = None,
    key: KeyFile = None,
    index: CalledBy = None,
    skip_missing: SkipMissing = False,
    classifier: OwnClassifier = None,
    as_json: Json = False,
) -> None:
    """Check every answer in a file again, and the file against its digest.

    Example: fcxplain verify model rows.csv answers.parquet

    Example: fcxplain verify receipt.json --model model

    Each certificate is rebuilt from the counterfactual alone, with the classifier, the rules and the rows at hand, and
    compared with the one in the file. Claims that only a new search could check (that a row has no answer, that none is
    possible, why not) are taken from the file; the digest shows whether they were edited. Without a key, the digest
    detects damage and careless edits only, since anyone who edits the file can compute a new digest.

    A receipt.json of `fcxplain serve` is checked against its signature and against the model given by --model.

    Exits with code 0 if everything holds, 1 if anything differs (an edited file, another classifier, other rules or
    overrides, a missing row, another key), 2 if a file cannot be read.
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
    """Check the signature, model, rules and answer of a receipt."""
    from ..explainer import FCx
    from .serving import need_extra

    need_extra()
    from ..service.receipts import held_against, read_receipt

    if not path.is_file():
        raise DataError("", [Fault(str(path), "does not exist", "Give the file of a receipt.")])
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
        out.print("[bold green]verified:[/] all answers and certificates hold", highlight=False)
    elif found.total:
        out.print(f"[bold red]NOT VERIFIED: {counted(found.total, 'difference')}[/]", highlight=False)
        _print_differences(found)
    else:
        out.print("[bold red]NOT VERIFIED:[/] answers and certificates hold, the digest does not", highlight=False)
    colour = "bold red" if not found.digest.holds else "cyan"
    out.print(f"[{colour}]digest:[/]", escape(found.digest.words), highlight=False)
    content = f"{counted(found.rows, 'row')}, {counted(found.answers, 'answer')} in {escape(str(found.path))}"
    out.print(f"{content}:" if found.passed else f"{content}; the file claims:", highlight=False)
    for status, rows in sorted(found.counts.items()):
        out.print(f"  {rows:>7,}  [bold]{escape(status)}[/]", highlight=False)
    for note in found.notes:
        out.print("[cyan]note:[/]", escape(note), highlight=False)


def _print_differences(found: Verification) -> None:
    table = table_of("row", "answer", "field", "in the file", "should be")
    for d in found.differences[:SHOWN]:
        rank = "" if d.rank is None else str(d.rank)
        table.add_row(*map(escape, (str(d.row), rank, d.field, _short(d.stored), _short(d.found))))
    out.print(table)
    if found.total > SHOWN:
        counted = ", ".join(f"{name} {count:,}" for name, count in sorted(found.fields.items(), key=lambda f: -f[1]))
        out.print(escape(f"... and {found.total - SHOWN:,} more; by field: {counted}"), highlight=False)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LETTERS else f"{text[:LETTERS]}..."
