"""What `fcxplain fit` shows of a user's own table before the work: the inferred schema, and how to correct it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.markup import escape

from ..text import counted
from .console import err, note, out, table_of
from .progress import working

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


def show_features(schema: Schema, rules: Sequence[Rule]) -> None:
    """Show each feature's kind, its values, whether it may change, and what deserves a second look."""
    from ..schema.schema import values

    shown, fixed = table_of("feature", "kind", "values", "may change"), {rule.freezes for rule in rules}
    for feature in schema.features[:SHOWN]:
        freedom = "no" if not feature.mutable else "no, by a rule" if feature.name in fixed else "yes"
        shown.add_row(*map(escape, (feature.name, feature.kind, values(feature), freedom)))
    shown.columns[1].no_wrap = True
    err.print(shown)
    if len(schema) > SHOWN:
        _say(f"... and {len(schema) - SHOWN:,} more: see `fcxplain schema`")
    show_advice(schema, err)


def show_guesses(schema: Schema) -> None:
    """Print every feature with its inferred kind and the reason."""
    from ..schema.schema import values

    shown = table_of("feature", "kind", "values", "because")
    for feature, guess in zip(schema.features, schema.guesses, strict=True):
        shown.add_row(*map(escape, (feature.name, feature.kind, values(feature), guess.why)))
    shown.columns[1].no_wrap = True
    out.print(shown)
    show_advice(schema, out)


def show_advice(schema: Schema, console: Console) -> None:
    """Print what deserves a second look."""
    for guess in schema.guesses:
        if guess.advice:
            line = f"[yellow]check[/] [bold]{escape(guess.feature)}[/]: {escape(guess.advice)}"
            console.print(line, highlight=False, soft_wrap=True)


def show_likely(found: Sequence[Suggestion], console: Console) -> None:
    """Print rules that names and levels suggest, each as a line to copy."""
    for s in found:
        also = ", or --immutable, or mutable = false in the schema" if s.kind == "frozen" else ""
        line = f"[yellow]consider[/] [bold]{escape(s.rule.text)}[/] (a line for --rules{also}): {escape(s.why)}"
        console.print(line, highlight=False, soft_wrap=True)


def show_own_table(data: Dataset, source: Source, target: Any, rules: Sequence[Rule], kept: Path | None) -> None:
    """Show the inferred schema of a table, and how to correct it."""
    from ..datasets.base import MAX_CLASSES
    from ..datasets.delimited import was_a_warning

    where = "inferred" if source.schema is None else f"from {short(source.schema)}"
    name = escape(Path(source.data).name)
    _say(f"[bold]{name}[/]: {len(data):,} rows, {len(data.schema):,} features ({escape(where)})")
    show_features(data.schema, rules)
    counts = data.class_counts
    classes = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
    if len(counts) > MAX_CLASSES:
        classes = f"numbers from {min(counts)} to {max(counts)}"
    wanted = "the other class for each row" if target is None else str(target)
    _say(f"label {escape(data.label)}: {escape(classes)}; target: {escape(wanted)}")
    if source.index is not None:
        _say(f"rows are labelled by {escape(source.index)}, e.g. {escape(str(data.train.index[0]))}")
    for line in data.notes:
        # Warnings have been printed already.
        if not was_a_warning(line):
            note(line)
    if source.schema is None:
        _show_corrections(data, source, kept)


def _show_corrections(data: Dataset, source: Source, kept: Path | None) -> None:
    from ..datasets.delimited import MISSING

    _say("To leave out a column that is not a feature: --ignore NAME.")
    _say(escape(f"A cell counts as missing if it is empty or one of {', '.join(MISSING[1:])}."))
    command = shlex.join(["fcxplain", "schema", short(source.data), "--label", data.label, "--out", "schema.toml"])
    if kept is None:
        _say(f"To correct kinds, bounds or levels: [bold]{escape(command)}[/], edit it, fit with --schema schema.toml")
    else:
        _say(f"The schema is in {escape(str(kept))}: edit it there, and fit with --schema {escape(str(kept))}")


def show_freedom(data: Dataset, rules: Sequence[Rule], source: Source) -> None:
    """Show the features that cannot change and, if there are no rules, suggest some."""
    from ..rules.normal import frozen_names

    fixed = frozen_names(rules, data.schema)
    fixed_here = [data.schema[name].title for name in data.schema.names if name in fixed]
    if fixed_here:
        _say(escape(f"Immutable: {', '.join(fixed_here)}. To add more: --immutable NAME."))
    elif rules:
        free = f"Every feature may change as far as the rules allow ({len(rules):,})."
        _say(f"{free} To fix a feature: --immutable NAME.")
    else:
        note(f"{FREE} To fix a feature: --immutable NAME.")
    if not rules and source.is_built_in and data.rules:
        _say(escape(f"This data set comes with rules: --rules {' or '.join(data.rules)}."))
    elif not rules:
        _mention_suggestions(data, source, fixed)


def _mention_suggestions(data: Dataset, source: Source, fixed: Iterable[str]) -> None:
    """Show rules that names and levels suggest, and count those that the data suggests. None is applied."""
    from ..suggestions import suggest

    show_likely(suggest(data.train, data.schema.freeze(*fixed), label=data.label, by_name=True), err)
    if len(data.schema) > MANY:
        return
    with working("looking for rules in this data"):
        table = pd.concat([data.train, data.validation, data.test])
        count = len(suggest(table, data.schema, label=data.label))
    if count:
        command = f"[bold]{escape(suggesting(source))}[/]"
        _say(f"The data suggests {counted(count, 'rule')} for you to accept or reject: {command}")


def suggesting(source: Source) -> str:
    """The command that suggests rules for a table."""
    options = [("--data", short(source.data)), ("--label", source.label), ("--schema", source.schema)]
    words = [word for name, value in options if value is not None for word in (name, value)]
    return shlex.join(["fcxplain", "rules", "suggest", *words])


def show_marks(kind: str, marks: Score) -> None:
    """Show the accuracy of the trained classifier, and that of always predicting the most common class."""
    usual = max(marks.classes, key=lambda one: one.share)
    line = (
        f"classifier {kind} ({TRAINED[kind]}, trained now): {marks.accuracy:.1%} accurate on {marks.rows:,} test rows"
    )
    _say(escape(f"{line}; always predicting {usual.name} would be {usual.share:.1%} accurate"))


def show_agreement(name: str, label: str, marks: Score) -> None:
    """Show how often the user's own model agrees with the label, and how often a constant prediction would."""
    usual = max(marks.classes, key=lambda one: one.share)
    line = f"classifier {name} (your own): agrees with {label} on {marks.accuracy:.1%} of {marks.rows:,} rows"
    _say(escape(f"{line}; always predicting {usual.name} would on {usual.share:.1%}"))


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


def _say(text: str) -> None:
    err.print(text, highlight=False, soft_wrap=True)
