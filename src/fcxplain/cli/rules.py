"""`fcxplain rules`: check and suggest rules."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..errors import DataError, Fault
from . import console
from .console import App, argument, err, note, option, out, print_json, split, table_of, written
from .progress import Work

if TYPE_CHECKING:
    import pandas as pd

    from ..schema import Schema
    from ..suggestions import Suggestion

rules_app = App(help="Check rules, and suggest rules.", no_args_is_help=True)


@rules_app.command("check")
def rules_check(
    rules: Annotated[
        str,
        argument("A rule file, or the name of a built-in rule set (unary, binary, actionable).", among=console.RULES),
    ],
    data: console.Data,
    schema_file: console.SchemaFile = None,
    label: console.Label = None,
    ignore: console.Ignore = None,
    seed: console.Seed = 0,
    as_json: console.Json = False,
) -> None:
    """Show each rule in words, what looks wrong with it, and how many rows break it.

    Example: fcxplain rules check my.rules --data loans.csv --schema schema.toml

    A row breaks a rule if it does so unchanged; a pair does if changing one row into the other would. Pairs are drawn
    at random.
    """
    from ..datasets import DATASETS
    from ..datasets.base import with_ranks
    from ..datasets.source import load_features
    from ..region.conflict import breakage, lint
    from ..rules import in_words, parse_rules

    with Work(f"reading {data}"):
        known, table = load_features(data, schema=schema_file, label=label, ignore=ignore or (), seed=seed)
    own = DATASETS[data].rules if data in DATASETS else {}
    known = with_ranks(known, DATASETS[data].ranks.get(rules, {})) if data in DATASETS else known
    parsed = parse_rules(own.get(rules, Path(rules)), known)
    with Work(f"checking {len(parsed):,} rules on {len(table):,} rows"):
        found, findings = breakage(parsed, table, seed=seed), lint(parsed, known, table, seed=seed)
    if as_json:
        rules_found = [
            {"line": b.rule.line, "text": b.rule.text, "words": in_words(b.rule, known)}
            | {k: getattr(b, k) for k in ("rows", "rows_broken", "pairs", "pairs_broken")}
            for b in found
        ]
        wrong = [
            {"severity": f.severity, "kind": f.kind, "problem": f.problem, "lines": [r.line for r in f.rules]}
            for f in findings
        ]
        print_json({"rules": rules_found, "findings": wrong})
    else:
        _print_rules(found, findings, known)
    if any(f.severity == "error" for f in findings):
        raise typer.Exit(2)


def _print_rules(found: list[Any], findings: list[Any], known: Schema) -> None:
    from ..rules import in_words

    if not found:
        out.print("No rules: the file has only blank lines and comments.")
        return
    rows = []
    for b in found:
        broken = (f"{b.rows_broken:,} of {b.rows:,}", f"{b.pairs_broken:,} of {b.pairs:,}")
        rows.append((b.rule.line, b.rule.text, in_words(b.rule, known), *broken))
    out.print(table_of("line", "rule", "in words", "rows that break it", "pairs that break it", rows=rows))
    colours = {"error": "bold red", "warning": "yellow", "note": "cyan"}
    for finding in findings:
        lines = ", ".join(str(r.line) for r in finding.rules)
        said = f"line{'s' * (len(finding.rules) > 1)} {lines}: {finding.problem}"
        out.print(f"[{colours[finding.severity]}]{finding.severity}[/]", escape(said))
    if not findings:
        out.print("Nothing looks wrong.")


ENDINGS = (".txt", ".rules")
LEAST = "--least-support"


@rules_app.command("suggest")
def rules_suggest(
    data: console.Data,
    schema_file: console.SchemaFile = None,
    label: console.Label = None,
    ignore: console.Ignore = None,
    graph: Annotated[Path | None, option("A causal graph (.csv or .dot), see `fcxplain graph`.")] = None,
    accept: Annotated[
        str | None, option("The numbers of the rules to write to --out, e.g. 1,3,5, or all for those shown.")
    ] = None,
    output: Annotated[Path | None, option("The rule file to write (.txt, .rules).", "--out")] = None,
    overwrite: Annotated[bool, option("Replace a file of that name.", "--overwrite", "--force")] = False,
    limit: Annotated[int, option("The number of rules to show, strongest first.", least=1)] = 20,
    support: Annotated[int, option("The number of rows that must support a rule.", LEAST, least=1)] = 30,
    seed: console.Seed = 0,
    as_json: console.Json = False,
) -> None:
    """Suggest rules, based on column names, the data and a causal graph. None is applied unless you accept it.

    Example: fcxplain rules suggest --data loans.csv --label approved

    Example: fcxplain rules suggest --data loans.csv --label approved --accept 1,3 --out my.rules
    """
    from ..causal import as_graph
    from ..suggestions import suggest

    _check(accept, output, overwrite)
    with Work(f"reading {data}"):
        known, table = _rows(data, schema_file, label, ignore or ())
    edges = None if graph is None else as_graph(graph, known.names)
    with Work(f"looking for rules in {len(table):,} rows and {len(known)} features"):
        found = suggest(table, known, edges, label=label, least_support=support, seed=seed)
    accepted = _accepted(accept, found, limit)
    if output is not None:
        _write(output, data, found, accepted)
    if as_json:
        listed = [{"number": i, **s.to_dict(), "accepted": i in accepted} for i, s in enumerate(found[:limit], start=1)]
        return print_json({"rows": len(table), "found": len(found), "written": output, "suggestions": listed})
    source = _options(data, schema_file, label, ignore or ())
    if output is not None:
        written(output)
        again = shlex.join(["fcxplain", "rules", "check", str(output), *source])
        return err.print(escape(f"check them with: {again}"))
    more = [*([] if graph is None else ["--graph", str(graph)]), *([] if support == 30 else [LEAST, str(support)])]
    return _show(found, limit, shlex.join(["fcxplain", "rules", "suggest", *source, *more]))


def _check(accept: str | None, output: Path | None, overwrite: bool) -> None:
    """Refuse, before any work, a file that cannot be written, and --accept or --out without the other."""
    from ..files import check_output

    if output is None and accept is None:
        return
    if output is None:
        raise DataError("", [Fault(f"--accept {accept}", "needs a file to write to", "Add --out my.rules.")])
    if accept is None:
        remedy = "Accept rules by number, e.g. --accept 1,3, or --accept all."
        raise DataError("", [Fault(f"--out {output}", "would be empty: no rule is accepted", remedy)])
    check_output(output, ENDINGS, "--out")
    if output.exists() and not overwrite:
        remedy = "Pass --overwrite to replace it, or choose another name."
        raise DataError("", [Fault(f"--out {output}", "exists already", remedy)])


def _rows(data: str, schema_file: Path | None, label: str | None, ignore: Sequence[str]) -> tuple[Schema, pd.DataFrame]:
    """The schema, given or inferred, and all rows, including those with missing values."""
    from ..datasets import DATASETS, read_table
    from ..datasets.source import guess_schema, load_features, located
    from ..schema import Schema
    from ..schema.inference import without_ignored

    where = located(data)
    if where in DATASETS:
        return load_features(where)
    given = None if schema_file is None else Schema.from_toml(schema_file)
    table = without_ignored(read_table(where, schema=given), tuple(ignore), (), label)
    if given is not None:
        return Schema(tuple(f for f in given if f.name not in ignore)), table
    if label is None:
        note("no --label was given, so rules may mention the column with the true outcome")
    found = guess_schema(table, label)
    for fault in found.left_out:
        note(f"left out: {fault}")
    return found.schema, table


def _accepted(accept: str | None, found: Sequence[Suggestion], limit: int) -> tuple[int, ...]:
    """The accepted numbers, each once and in order; refuses anything that is not the number of a suggestion."""
    if accept is None:
        return ()
    if accept.strip().lower() == "all":
        return tuple(range(1, min(limit, len(found)) + 1))
    parts = split([accept])
    wrong = [p for p in parts if not (p.isdecimal() and 1 <= int(p) <= len(found))]
    if wrong or not parts:
        there = f"Choose from 1 to {len(found)}, comma-separated." if found else "There are no suggestions."
        places = [f"--accept {part}" for part in wrong] or ["--accept"]
        raise DataError("", [Fault(place, "is not the number of a suggestion", there) for place in places])
    return tuple(sorted({int(p) for p in parts}))


def _write(path: Path, data: str, found: Sequence[Suggestion], accepted: Sequence[int]) -> None:
    """Write the accepted rules, each with its wording and reason as comments."""
    from ..files import write_whole

    lines = [f"# Suggested from {_one_line(data)}, and accepted."]
    for number in accepted:
        suggestion = found[number - 1]
        lines += ["", f"# {_one_line(suggestion.words)}", f"# ({_one_line(suggestion.why)})", suggestion.rule.text]
    write_whole(path, "\n".join(lines) + "\n")


def _show(found: Sequence[Suggestion], limit: int, again: str) -> None:
    if not found:
        return err.print("No suggestions: no name, edge or pair of features suggests a rule.")
    table = table_of("", "rule, and its meaning", "rows", "why")
    table.columns[0].justify = table.columns[2].justify = "right"
    for number, s in enumerate(found[:limit], start=1):
        said = f"[bold]{escape(s.rule.text)}[/]\n{escape(s.words)}\n"
        table.add_row(str(number), said, f"{s.support:,}" if s.support else "", escape(s.why))
    out.print(table)
    rest = len(found) - limit
    if rest > 0:
        err.print(f"... and {rest:,} weaker: --limit {len(found)} shows all")
    numbers = "1,3" if len(found) > 2 else "1"
    accept = f"{again} --accept {numbers} --out my.rules"
    return err.print(escape(f"None is applied. To accept some, give their numbers: {accept}"))


def _options(data: str, schema_file: Path | None, label: str | None, ignore: Sequence[str]) -> list[str]:
    """Where the rows come from, as options of a command."""
    options: list[tuple[str, Any]] = [("--data", data), ("--schema", schema_file), ("--label", label)]
    options += [("--ignore", name) for name in ignore]
    return [part for name, value in options if value is not None for part in (name, str(value))]


def _one_line(text: str) -> str:
    return " ".join(text.split())
