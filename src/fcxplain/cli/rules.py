"""`fcxplain rules`: read, check and explain rules."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..errors import FcxWarning
from .console import Data, Json, Seed, out, print_json, table_of

if TYPE_CHECKING:
    import pandas as pd

    from ..schema import Schema

rules_app = typer.Typer(help="Read, check and explain rules.", no_args_is_help=True)


@rules_app.command("check")
def rules_check(
    rules: Annotated[str, typer.Argument(help="A rule file, or the name of a data set's own rules (unary, binary).")],
    data: Data = "adult",
    schema_file: Annotated[Path | None, typer.Option("--schema", help="Schema of your own table (TOML).")] = None,
    label: Annotated[str | None, typer.Option(help="The label column of your own table.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Say each rule in words, what looks wrong with it, and how many rows break it.

    Rows break a rule as they are (nothing changed) or in pairs (one turned into another, drawn at random).

    Example: fcxplain rules check my.rules --data loans.csv --schema schema.toml
    """
    from ..rules import breakage, in_words, lint, parse_rules

    own, known, table = _source(data, schema_file, label, seed)
    parsed = parse_rules(own[rules] if rules in own else Path(rules), known)
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
    data: str, schema_file: Path | None, label: str | None, seed: int
) -> tuple[dict[str, str], Schema, pd.DataFrame]:
    """The rules that come with the data, its schema, and all its rows."""
    import pandas as pd

    from ..datasets import DATASETS, load_dataset, read_table
    from ..schema import Schema

    if data in DATASETS or not Path(data).exists():
        loaded = load_dataset(data, seed=seed)
        return dict(loaded.rules), loaded.schema, pd.concat([loaded.train, loaded.validation, loaded.test])
    given = None if schema_file is None else Schema.from_toml(schema_file)
    table = read_table(data, schema=given)
    known = Schema.infer(table, label=label) if given is None else given.complete(table)
    complete = table[~known.missing(table).any(axis=1)]
    if len(complete) < len(table):
        left = len(table) - len(complete)
        warnings.warn(f"{left:,} of {len(table):,} rows have missing values and are left out", FcxWarning, stacklevel=2)
    return {}, known, complete
