"""What `fcxplain fit` shows of a table of one's own before it begins: what was guessed, and how to correct it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.markup import escape

from .console import err, note, out, table_of
from .progress import working

if TYPE_CHECKING:
    from ..classifier import Score
    from ..datasets import Dataset
    from ..datasets.source import Source
    from ..rules import Rule
    from ..schema import Schema
    from ..suggestions import Suggestion

# Features that are shown; `fcxplain schema` shows all.
SHOWN = 40
# Looking for rules between so many features would keep people waiting.
MANY = 80
FREE = "There are no rules and nothing is frozen, so that answers may change everything, in any way."
# What the classifiers are that are trained for those who bring none.
TRAINED = {
    "paper": "the linear network of the paper",
    "balanced": "the linear network of the paper, on balanced classes",
    "mlp": "a network with two hidden layers",
    "logistic": "logistic regression",
    "boosting": "gradient-boosted trees",
}


def show_features(schema: Schema, rules: Sequence[Rule]) -> None:
    """What each feature is taken for, whether a rule or the schema keeps it as it is, and what deserves a look."""
    from ..schema.schema import values

    shown, fixed = table_of("feature", "kind", "values", "may change"), {rule.freezes for rule in rules}
    for feature in schema.features[:SHOWN]:
        freedom = "no" if not feature.mutable else "no, by a rule" if feature.name in fixed else "yes"
        told = (feature.name, feature.kind, values(feature), freedom)
        shown.add_row(*map(escape, told))
    shown.columns[1].no_wrap = True
    err.print(shown)
    if len(schema) > SHOWN:
        _say(f"... and {len(schema) - SHOWN:,} more: see `fcxplain schema`")
    show_advice(schema, err)


def show_guesses(schema: Schema) -> None:
    """Every feature with what was guessed and why, as the result of a command."""
    from ..schema.schema import values

    shown = table_of("feature", "kind", "values", "because")
    for feature, guess in zip(schema.features, schema.guesses, strict=True):
        shown.add_row(*map(escape, (feature.name, feature.kind, values(feature), guess.why)))
    shown.columns[1].no_wrap = True
    out.print(shown)
    show_advice(schema, out)


def show_advice(schema: Schema, console: Console) -> None:
    """What deserves a second look."""
    for guess in schema.guesses:
        if guess.advice:
            told = f"[yellow]look at[/] [bold]{escape(guess.feature)}[/]: {escape(guess.advice)}"
            console.print(told, highlight=False, soft_wrap=True)


def show_likely(found: Sequence[Suggestion], console: Console) -> None:
    """What names and levels speak for, each with the line to write."""
    for s in found:
        way = ", or --immutable, or mutable = false in the schema" if s.kind == "frozen" else ""
        told = f"[yellow]consider[/] [bold]{escape(s.rule.text)}[/] (a line for --rules{way}): {escape(s.why)}"
        console.print(told, highlight=False, soft_wrap=True)


def show_own_table(data: Dataset, source: Source, target: Any, rules: Sequence[Rule], kept: Path | None) -> None:
    """All that was guessed of a table, and the ways to correct it."""
    from ..datasets.base import MAX_CLASSES
    from ..datasets.delimited import was_a_warning

    where = "guessed" if source.schema is None else f"from {short(source.schema)}"
    name = escape(Path(source.data).name)
    _say(f"[bold]{name}[/]: {len(data):,} rows, {len(data.schema):,} features ({escape(where)})")
    show_features(data.schema, rules)
    counts = data.class_counts
    classes = ", ".join(f"{name} ({count:,})" for name, count in counts.items())
    if len(counts) > MAX_CLASSES:
        classes = f"numbers from {min(counts)} to {max(counts)}"
    wanted = "the other one for each row" if target is None else str(target)
    _say(f"label {escape(data.label)}: {escape(classes)}; wanted: {escape(wanted)}")
    if source.index is not None:
        _say(f"rows are called by {escape(source.index)}, e.g. {escape(str(data.train.index[0]))}")
    for told in data.notes:
        # What was a warning before is not told twice.
        if not was_a_warning(told):
            note(told)
    if source.schema is None:
        _show_corrections(data, source, kept)


def _show_corrections(data: Dataset, source: Source, kept: Path | None) -> None:
    from ..datasets.delimited import MISSING

    _say("What is not a feature: --ignore NAME.")
    _say(escape(f"Missing is an empty cell, or one of {', '.join(MISSING[1:])}."))
    told = shlex.join(["fcxplain", "schema", short(source.data), "--label", data.label, "--out", "schema.toml"])
    if kept is None:
        _say(f"To correct kinds, bounds or levels: [bold]{escape(told)}[/], edit it, and fit with --schema schema.toml")
    else:
        _say(f"All this is in {escape(str(kept))}: correct it there, and fit with --schema {escape(str(kept))}")


def show_freedom(data: Dataset, rules: Sequence[Rule], source: Source) -> None:
    """What nobody can change, and what is suggested where nothing was said of that."""
    from ..region.groups import frozen_names

    fixed = frozen_names(rules, data.schema)
    fixed_here = [data.schema[name].title for name in data.schema.names if name in fixed]
    if fixed_here:
        _say(escape(f"Nobody can change {', '.join(fixed_here)}; for more: --immutable NAME."))
    elif rules:
        free = f"Everything may change as far as the rules allow ({len(rules):,})."
        _say(f"{free} What nobody can change: --immutable NAME.")
    else:
        note(f"{FREE} What nobody can change: --immutable NAME.")
    if not rules and source.is_built_in and data.rules:
        _say(escape(f"This data set has rules of its own: --rules {' or '.join(data.rules)}."))
    elif not rules:
        _mention_suggestions(data, source, fixed)


def _mention_suggestions(data: Dataset, source: Source, fixed: Iterable[str]) -> None:
    """Which rules names and levels speak for, and that there are such as the data never breaks; none is applied."""
    from ..suggestions import suggest

    show_likely(suggest(data.train, data.schema.freeze(*fixed), label=data.label, by_name=True), err)
    if len(data.schema) > MANY:
        return
    with working("looking for rules that this data speaks for"):
        table = pd.concat([data.train, data.validation, data.test])
        count = len(suggest(table, data.schema, label=data.label))
    if count:
        many = "1 rule is" if count == 1 else f"{count:,} rules are"
        told = f"[bold]{escape(suggesting(source))}[/]"
        _say(f"{many} suggested by this data, for you to accept or not: see {told}")


def suggesting(source: Source) -> str:
    """The command that suggests rules for a table."""
    options = [("--data", short(source.data)), ("--label", source.label), ("--schema", source.schema)]
    words = [word for name, value in options if value is not None for word in (name, value)]
    return shlex.join(["fcxplain", "rules", "suggest", *words])


def show_marks(kind: str, marks: Score) -> None:
    """Which classifier was trained and how good it is, beside what needs no classifier at all."""
    usual = max(marks.classes, key=lambda one: one.share)
    told = f"classifier {kind} ({TRAINED[kind]}, trained now): right for {marks.accuracy:.1%} of {marks.rows:,} rows"
    _say(escape(f"{told} kept apart; always saying {usual.name} would be right for {usual.share:.1%}"))


def show_agreement(name: str, label: str, marks: Score) -> None:
    """How often a model of one's own says what the label says, beside what needs no model at all."""
    usual = max(marks.classes, key=lambda one: one.share)
    told = f"classifier {name} (your own): agrees with {label} on {marks.accuracy:.1%} of {marks.rows:,} rows"
    _say(escape(f"{told}; always saying {usual.name} would on {usual.share:.1%}"))


def next_step(source: Source, model: Path, notes: Iterable[str]) -> str:
    """The command that explains the rows which a model was fitted on, as it works in this folder."""
    from ..classifier.named import is_onnx

    words = ["fcxplain", "explain", str(model), short(source.data)]
    # What is trained or is a file is found again; code is run only if a person names it.
    words += ["--classifier", source.classifier] if ":" in source.classifier and not is_onnx(source.classifier) else []
    has_missing = any("rows with missing values" in told for told in notes)
    return shlex.join([*words, *(["--skip-missing"] if has_missing and not source.is_built_in else [])])


def short(path: str) -> str:
    """A path as a person in this folder would write it."""
    whole = Path(path)
    return str(whole.relative_to(Path.cwd())) if whole.is_relative_to(Path.cwd()) else path


def _say(text: str) -> None:
    err.print(text, highlight=False, soft_wrap=True)
