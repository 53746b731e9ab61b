"""The command line: parse, call, print. No logic lives here."""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from . import __version__
from .errors import FcxError, FcxWarning

if TYPE_CHECKING:
    import pandas as pd

    from .schema import Schema

app = typer.Typer(
    help="Feasible counterfactual explanations for tables: what could I change to get the other answer?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
rules_app = typer.Typer(help="Read, check and explain rules.", no_args_is_help=True)
bench_app = typer.Typer(help="Measurements that the documents quote.", no_args_is_help=True)
app.add_typer(rules_app, name="rules")
app.add_typer(bench_app, name="bench")

out = Console()
err = Console(stderr=True)
SHOWN = {"debug": False}

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option(help="Seed of every random choice.")]
Data = Annotated[
    str, typer.Option("--data", help="A data set's name (see `fcxplain datasets`) or a CSV or parquet file.")
]


def main() -> None:
    """Run the command line; errors that we raise on purpose end without a traceback."""
    warnings.showwarning = _show_warning
    try:
        app()
    except FcxError as error:
        if SHOWN["debug"]:
            raise
        err.print("[bold red]error:[/]", escape(str(error)), highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        err.print("stopped")
        sys.exit(130)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Feasible counterfactual explanations for tables."""
    SHOWN["debug"] = debug
    if version:
        out.print(f"fcxplain {__version__}", highlight=False)
        raise typer.Exit


@app.command()
def demo(seed: Seed = 0) -> None:
    """Do the main job on the embedded Adult data.

    Trains the paper's classifier, and shows whom it refuses and what the rules say.
    """
    with err.status("loading Adult and training the paper's classifier"):
        from .demo import run

        found = run(seed)
    marks = found.score
    out.print(f"[bold]Adult[/] (UCI, 1994 census): {found.rows:,} people, of whom {marks.rows:,} are kept for testing.")
    out.print(
        f"The paper's classifier is right for [bold]{marks.accuracy:.1%}[/] of them "
        f"(balanced accuracy {marks.balanced_accuracy:.1%}).\n"
    )
    out.print(
        f"It refuses [bold]{found.refused:,}[/] of the {marks.rows:,}: it does not expect an income above 50,000."
    )
    table = _table("education", "people", "refused")
    for level, row in found.groups.iterrows():
        table.add_row(escape(str(level)), f"{int(row['people']):,}", f"{row['refused']:.0%}")
    out.print(table)
    out.print("\nWhat a counterfactual for them may not break:")
    table = _table("rule", "in words", "refused who break it as they are")
    for (text, words), broken in zip(found.rules, found.broken, strict=True):
        table.add_row(escape(text), escape(words), f"{broken.rows_broken:,}")
    out.print(table)


@app.command()
def datasets(as_json: Json = False) -> None:
    """List the built-in data sets: what they are, where they lie, their licence.

    Example: fcxplain datasets
    """
    from .datasets import DATASETS
    from .datasets.files import whereabouts

    found = [
        {
            "name": spec.name,
            "title": spec.title,
            "features": len(spec.schema),
            "label": spec.label,
            "target": spec.target,
            "licence": spec.licence,
            "file": spec.file.name,
            "where": whereabouts(spec.file),
            "get_it": spec.file.by_hand,
        }
        for spec in DATASETS.values()
    ]
    if as_json:
        return _print_json(found)
    table = _table("name", "what", "features", "label", "licence")
    for d in found:
        table.add_row(*(escape(str(d[k])) for k in ("name", "title", "features", "label", "licence")))
    out.print(table)
    for file, where, how in dict.fromkeys((d["file"], d["where"], d["get_it"]) for d in found):
        told = str(where) if where else f"not here yet. {how}"
        out.print(f"[bold]{escape(str(file))}[/]: {escape(told)}", highlight=False, soft_wrap=True)
    return None


@app.command()
def schema(
    table: Annotated[str, typer.Argument(help="A CSV or parquet file.")],
    label: Annotated[str | None, typer.Option(help="The column with the answer; it is no feature.")] = None,
    output: Annotated[Path | None, typer.Option("--out", help="Write the schema as TOML, for editing.")] = None,
    as_json: Json = False,
) -> None:
    """Guess a table's schema and say why; write it to a file that you can correct.

    Example: fcxplain schema loans.csv --label approved --out schema.toml
    """
    from .datasets import read_table
    from .schema import Schema

    guessed = Schema.infer(read_table(table), label=label)
    if as_json:
        _print_json({**guessed.to_dict(), "guesses": [asdict(g) for g in guessed.guesses]})
    else:
        shown = _table("feature", "guessed", "because", "look at")
        for g in guessed.guesses:
            shown.add_row(*(escape(v) for v in (g.feature, g.guess, g.why, g.advice)))
        out.print(shown)
    if output is not None:
        guessed.to_toml(output)
        err.print(f"written to {escape(str(output))}: correct it there and pass it with --schema", highlight=False)


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
    from .rules import breakage, in_words, lint, parse_rules

    own, known, table = _source(data, schema_file, label, seed)
    parsed = parse_rules(own[rules] if rules in own else Path(rules), known)
    found, findings = breakage(parsed, table, seed=seed), lint(parsed, known, table, seed=seed)
    if as_json:
        _print_json(
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
    from .rules import in_words

    if not found:
        out.print("No rules: the file has only blanks and comments.")
        return
    table = _table("line", "rule", "in words", "rows that break it", "pairs that break it")
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

    from .datasets import DATASETS, load_dataset, read_table
    from .schema import Schema

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


@bench_app.command("classifiers")
def bench_classifiers(
    data: Annotated[list[str] | None, typer.Option("--data", help="Data sets; all that are here by default.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--kind", help="Kinds of classifier; all by default.")] = None,
    rows: Annotated[int | None, typer.Option(help="At most so many rows of each data set.")] = None,
    output: Annotated[Path | None, typer.Option("--out", help="Write the table as Markdown.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train every kind of classifier on every data set and score it on the test part.

    Example: fcxplain bench classifiers --data adult --data law --out classifiers.md
    """
    from .benchmark.classifiers import markdown, measure_all
    from .classifier import KINDS
    from .datasets import DATASETS
    from .datasets.files import whereabouts

    names = data or [n for n, spec in DATASETS.items() if whereabouts(spec.file)]
    kinds = kind or list(KINDS)
    results = []
    with err.status("training") as status:
        for result in measure_all(names, kinds, seed=seed, rows=rows):
            results.append(result)
            status.update(f"{len(results)} of {len(names) * len(kinds)}: {result.data}, {result.kind} done")
            if not as_json:
                said = f"{result.data}, {result.kind}: accuracy {result.accuracy:.1%}"
                out.print(f"{said}, balanced {result.balanced_accuracy:.1%}", highlight=False)
    if as_json:
        _print_json([asdict(r) for r in results])
    if output is not None:
        from .schema.toml import write_whole

        write_whole(output, markdown(results))


@bench_app.command("speed")
def bench_speed(
    data: Annotated[str, typer.Option("--data", help="A data set's name.")] = "adult",
    sample: Annotated[str | None, typer.Option(help="Which sample of it, e.g. all (folktables).")] = None,
    repeat: Annotated[int, typer.Option(help="Turns; the best of each counts.")] = 5,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure encoding, decoding and repairing on every row, against plain numpy and pandas.

    Example: fcxplain bench speed --data folktables --sample all
    """
    import pandas as pd

    from .benchmark import speed
    from .datasets import load_dataset

    with err.status(f"measuring on {data}"):
        loaded = load_dataset(data, seed=seed, sample=sample)
        table = pd.concat([loaded.train, loaded.validation, loaded.test])
        timings = speed.encoding(table, loaded.schema, repeat=repeat)
        timings += speed.repairing(table, loaded.schema, loaded.rules["binary"], seed=seed, repeat=repeat)
    if as_json:
        _print_json([asdict(t) | {"rows_per_second": t.rows_per_second, "ratio": t.ratio} for t in timings])
        return
    shown = _table("job", "rows", "CPU s", "rows per CPU s", "plain numpy and pandas, CPU s", "ratio")
    for t in timings:
        floor, ratio = ("", "") if t.floor is None else (f"{t.floor:.3f}", f"{t.ratio:.2f}")
        shown.add_row(t.job, f"{t.rows:,}", f"{t.seconds:.3f}", f"{t.rows_per_second:,.0f}", floor, ratio)
    out.print(shown)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, FcxWarning):
        err.print("[yellow]warning:[/]", escape(str(message)), highlight=False, soft_wrap=True)
