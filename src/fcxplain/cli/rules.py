"""`fcxplain rules`: read, check and explain rules."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..errors import FcxWarning
from . import completion
from .console import Data, Ignore, Json, Label, SchemaFile, Seed, out, print_json, table_of
from .manners import App
from .work import working

if TYPE_CHECKING:
    import pandas as pd

    from ..schema import Schema

rules_app = App(help="Read, check and explain rules.", no_args_is_help=True)


@rules_app.command("check")
def rules_check(
    rules: Annotated[
        str,
        typer.Argument(
            help="A rule file, or the name of a data set's own rules (unary, binary).", autocompletion=completion.rules
        ),
    ],
    data: Data,
    schema_file: SchemaFile = None,
    label: Label = None,
    ignore: Ignore = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Say each rule in words, what looks wrong with it, and how many rows break it.

    Rows break a rule as they are (nothing changed) or in pairs (one turned into another, drawn at random).

    Example: fcxplain rules check my.rules --data loans.csv --schema schema.toml
    """
    from ..rules import breakage, in_words, lint, parse_rules

    with working(f"reading {data}"):
        own, known, table = _source(data, schema_file, label, seed, ignore or ())
    parsed = parse_rules(own[rules] if rules in own else Path(rules), known)
    with working(f"checking {len(parsed):,} rules on {len(table):,} rows"):
        found, findings = breakage(parsed, table, seed=seed), lint(parsed, known, table, seed=seed)
    if as_json:
        print_json(
            {
                "rules": [
                    {"line": b.rule.line, "text": b.rule.text, "words": in_words(b.rule, known)}
                    | {k: getattr(b, k) for k in ("rows", "rows_broken", "pairs", "pairs_broken")}
                    for b in found
                ],
                "findings": [
                    {"severity": f.severity, "kind": f.kind, "problem": f.problem, "lines": [r.line for r in f.rules]}
                    for f in findings
                ],
            }
        )
    else:
        _print_rules(found, findings, known)
    if any(f.severity == "error" for f in findings):
        raise typer.Exit(2)


def _print_rules(found: list[Any], findings: list[Any], known: Schema) -> None:
    from ..rules import in_words

    if not found:
        out.print("No rules: the file has only blanks and comments.")
        return
    table = table_of("line", "rule", "in words", "rows that break it", "pairs that break it")
    for b in found:
        table.add_row(
            str(b.rule.line),
            escape(b.rule.text),
            escape(in_words(b.rule, known)),
            f"{b.rows_broken:,} of {b.rows:,}",
            f"{b.pairs_broken:,} of {b.pairs:,}",
        )
    out.print(table)
    colours = {"error": "bold red", "warning": "yellow", "note": "cyan"}
    for finding in findings:
        lines = ", ".join(str(r.line) for r in finding.rules)
        said = f"line{'s' * (len(finding.rules) > 1)} {lines}: {finding.problem}"
        out.print(f"[{colours[finding.severity]}]{finding.severity}[/]", escape(said), highlight=False)
    if not findings:
        out.print("Nothing looks wrong.")


def _source(
    data: str, schema_file: Path | None, label: str | None, seed: int, ignore: Sequence[str] = ()
) -> tuple[dict[str, str], Schema, pd.DataFrame]:
    """The rules that come with the data, its schema, and all its rows."""
    import pandas as pd

    from ..datasets import DATASETS, load_dataset
    from .own_tables import located, own_rows

    where = located(data)
    if where in DATASETS:
        loaded = load_dataset(where, seed=seed)
        return dict(loaded.rules), loaded.schema, pd.concat([loaded.train, loaded.validation, loaded.test])
    known, complete, told = own_rows(where, schema_file, label, ignore)
    if told:
        warnings.warn(told, FcxWarning, stacklevel=2)
    return {}, known, complete
