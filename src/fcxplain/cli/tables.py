"""`fcxplain datasets` and `fcxplain schema`, and what `fcxplain fit` shows of a user's own table before the work."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.markup import escape

from ..text import counted
from .console import Ignore, Index, Json, argument, err, note, option, out, print_json, table_of
from .progress import Work

if TYPE_CHECKING:
    from ..classifier import Score
    from ..datasets import Dataset
    from ..datasets.source import Source
    from ..rules import Rule
    from ..schema import Schema
    from ..suggestions import Suggestion

# Features shown; `fcxplain schema` shows all.
SHOWN = 40
# Above this number of features, looking for rules takes too long.
MANY = 80
FREE = "There are no rules and no immutable features, so answers may change anything."
# The built-in classifiers.
TRAINED = {
    "paper": "the linear network of the paper",
    "balanced": "the linear network of the paper, on balanced classes",
    "mlp": "a network with two hidden layers",
    "logistic": "logistic regression",
    "boosting": "gradient-boosted trees",
}


def datasets(
    write: Annotated[
        str | None, option("Write this data set as files to experiment with: NAME.csv, NAME.toml, NAME.rules.")
    ] = None,
    output: Annotated[Path, option("The folder to write to.", "--out")] = Path(),
    as_json: Json = False,
) -> None:
    """List the built-in data sets with their files and licences, or write one of them to files.

    Example: fcxplain datasets

    Example: fcxplain datasets --write loans
    """
    from ..datasets import DATASETS, write_dataset
    from ..datasets.download import whereabouts

    if write is not None:
        paths = [str(path) for path in write_dataset(write, output)]
        return print_json(paths) if as_json else out.print("written:", escape(", ".join(paths)))
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
        return print_json(found)
    rows = [(d["name"], d["title"], d["features"], d["label"], d["licence"]) for d in found]
    out.print(table_of("name", "what", "features", "label", "licence", rows=rows))
    for file, where, how in dict.fromkeys((d["file"], d["where"], d["get_it"]) for d in found):
        status = str(where) if where else f"not on this machine yet. {how}"
        out.print(f"[bold]{escape(str(file))}[/]: {escape(status)}")
    return None


def schema(
    table: Annotated[str, argument("A CSV or parquet file.")],
    label: Annotated[str | None, option("The column with the true outcome; it is not a feature.")] = None,
    ignore: Ignore = None,
    index: Index = None,
    output: Annotated[Path | None, option("Write the schema as TOML, for editing.", "--out")] = None,
    as_json: Json = False,
) -> None:
    """Infer the schema of a table, explain each guess, and write it to a file for editing.

    Example: fcxplain schema loans.csv --label approved --out schema.toml

    Columns that cannot be features, such as identifiers, are listed and left out. Rules that names and levels suggest
    (immutable features, orders of levels, levels that should not be reached) are shown as lines to copy; none is
    applied. The file explains its own options in comments, and other commands read it with --schema.
    """
    from ..datasets.delimited import in_words
    from ..datasets.source import guess_schema
    from ..datasets.tables import read_marked
    from ..files import check_output, write_whole
    from ..suggestions import suggest

    if output is not None:
        check_output(output, (".toml",), "--out")
    with Work(f"reading {table}"):
        reading = read_marked(table, index=index)
        found = guess_schema(reading.table, label, ignore or [])
        likely = suggest(reading.table, found.schema, label=label, by_name=True)
    if output is not None:
        write_whole(output, found.to_toml(map(str, likely)))
    if as_json:
        guesses = [asdict(g) for g in found.schema.guesses]
        left = [asdict(fault) for fault in found.left_out]
        rules = [s.to_dict() for s in likely]
        return print_json({**found.schema.to_dict(), "guesses": guesses, "left_out": left, "suggestions": rules})
    _show_features(found.schema, "because", [guess.why for guess in found.schema.guesses], out)
    _show_likely(likely, out)
    for fault in found.left_out:
        out.print("[yellow]left out:[/]", escape(str(fault)))
    for line in in_words({n: texts for n, texts in reading.marks.items() if n in found.schema or n == label}, label):
        note(line)
    if label is None:
        note("no --label was given, so the column with the true outcome is among the features")
    if output is not None:
        err.print(escape(f"written to {output}: edit it there and pass it with --schema"))
    return None


def _show_features(schema: Schema, heading: str, column: Sequence[str], console: Console) -> None:
    """Print features with their kind, values and one more column, and what deserves a second look."""
    from ..schema.schema import values

    rows = [(f.name, f.kind, values(f), more) for f, more in zip(schema, column, strict=False)]
    shown = table_of("feature", "kind", "values", heading, rows=rows)
    shown.columns[1].no_wrap = True
    console.print(shown)
    if len(schema) > len(column):
        console.print(f"... and {len(schema) - len(column):,} more: see `fcxplain schema`")
    for guess in schema.guesses:
        if guess.advice:
            console.print(f"[yellow]check[/] [bold]{escape(guess.feature)}[/]: {escape(guess.advice)}")


def _show_likely(found: Sequence[Suggestion], console: Console) -> None:
    """Print rules that names and levels suggest, each as a line to copy."""
    for s in found:
        also = ", or --immutable, or mutable = false in the schema" if s.kind == "frozen" else ""
        rule = f"[bold]{escape(s.rule.text)}[/] (a line for --rules{also})"
        console.print(f"[yellow]consider[/] {rule}: {escape(s.why)}")


def show_own_table(data: Dataset, source: Source, target: Any, rules: Sequence[Rule], kept: Path | None) -> None:
    """Show the inferred schema of a table, and how to correct it."""
    from ..datasets.base import MAX_CLASSES
    from ..datasets.delimited import was_a_warning

    where = "inferred" if source.schema is None else f"from {short(source.schema)}"
    name = escape(Path(source.data).name)
    err.print(f"[bold]{name}[/]: {len(data):,} rows, {len(data.schema):,} features ({escape(where)})")
    fixed = {rule.freezes for rule in rules}
    freedom = ["no" if not f.mutable else "no, by a rule" if f.name in fixed else "yes" for f in data.schema]
    _show_features(data.schema, "may change", freedom[:SHOWN], err)
    counts = data.class_counts
    classes = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
    if len(counts) > MAX_CLASSES:
        classes = f"numbers from {min(counts)} to {max(counts)}"
    wanted = "the other class for each row" if target is None else str(target)
    err.print(f"label {escape(data.label)}: {escape(classes)}; target: {escape(wanted)}")
    if source.index is not None:
        err.print(f"rows are labelled by {escape(source.index)}, e.g. {escape(str(data.train.index[0]))}")
    for line in data.notes:
        # Warnings have been printed already.
        if not was_a_warning(line):
            note(line)
    if source.schema is None:
        _show_corrections(data, source, kept)


def _show_corrections(data: Dataset, source: Source, kept: Path | None) -> None:
    from ..datasets.delimited import MISSING

    err.print("To leave out a column that is not a feature: --ignore NAME.")
    err.print(escape(f"A cell counts as missing if it is empty or one of {', '.join(MISSING[1:])}."))
    command = shlex.join(["fcxplain", "schema", short(source.data), "--label", data.label, "--out", "schema.toml"])
    if kept is None:
        then = "edit it, fit with --schema schema.toml"
        err.print(f"To correct kinds, bounds or levels: [bold]{escape(command)}[/], {then}")
    else:
        err.print(f"The schema is in {escape(str(kept))}: edit it there, and fit with --schema {escape(str(kept))}")


def show_freedom(data: Dataset, rules: Sequence[Rule], source: Source) -> None:
    """Show the features that cannot change and, if there are no rules, suggest some."""
    from ..rules.normal import frozen_names

    fixed = frozen_names(rules, data.schema)
    fixed_here = [data.schema[name].title for name in data.schema.names if name in fixed]
    if fixed_here:
        err.print(escape(f"Immutable: {', '.join(fixed_here)}. To add more: --immutable NAME."))
    elif rules:
        free = f"Every feature may change as far as the rules allow ({len(rules):,})."
        err.print(f"{free} To fix a feature: --immutable NAME.")
    else:
        note(f"{FREE} To fix a feature: --immutable NAME.")
    if not rules and source.is_built_in and data.rules:
        err.print(escape(f"This data set comes with rules: --rules {' or '.join(data.rules)}."))
    elif not rules:
        _mention_suggestions(data, source, fixed)


def _mention_suggestions(data: Dataset, source: Source, fixed: Iterable[str]) -> None:
    """Show rules that names and levels suggest, and count those that the data suggests. None is applied."""
    import pandas as pd

    from ..suggestions import suggest

    _show_likely(suggest(data.train, data.schema.freeze(*fixed), label=data.label, by_name=True), err)
    if len(data.schema) > MANY:
        return
    with Work("looking for rules in this data"):
        table = pd.concat([data.train, data.validation, data.test])
        count = len(suggest(table, data.schema, label=data.label))
    if count:
        command = f"[bold]{escape(suggesting(source))}[/]"
        err.print(f"The data suggests {counted(count, 'rule')} for you to accept or reject: {command}")


def suggesting(source: Source) -> str:
    """The command that suggests rules for a table."""
    options = [("--data", short(source.data)), ("--label", source.label), ("--schema", source.schema)]
    words = [word for name, value in options if value is not None for word in (name, value)]
    return shlex.join(["fcxplain", "rules", "suggest", *words])


def show_marks(kind: str, label: str, marks: Score, is_trained: bool) -> None:
    """Show how accurate the classifier is, and how accurate always predicting the most common class would be."""
    usual = max(marks.classes, key=lambda one: one.share)
    if is_trained:
        found = f"({TRAINED[kind]}, trained now): {marks.accuracy:.1%} accurate on {marks.rows:,} test rows"
        constant = f"be {usual.share:.1%} accurate"
    else:
        found = f"(your own): agrees with {label} on {marks.accuracy:.1%} of {marks.rows:,} rows"
        constant = f"on {usual.share:.1%}"
    err.print(escape(f"classifier {kind} {found}; always predicting {usual.name} would {constant}"))


def next_step(source: Source, model: Path, notes: Iterable[str]) -> str:
    """The command that explains the rows of the fit, for this working directory."""
    from ..classifier.named import is_onnx

    words = ["fcxplain", "explain", str(model), short(source.data)]
    # Trained models and files are found again; code is run only if a person names it.
    words += ["--classifier", source.classifier] if ":" in source.classifier and not is_onnx(source.classifier) else []
    has_missing = any("rows with missing values" in line for line in notes)
    return shlex.join([*words, *(["--skip-missing"] if has_missing and not source.is_built_in else [])])


def short(path: str) -> str:
    """A path relative to the working directory, if it is inside."""
    whole = Path(path)
    return str(whole.relative_to(Path.cwd())) if whole.is_relative_to(Path.cwd()) else path
