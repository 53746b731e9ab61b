"""What `fcxplain fit` shows of a table of one's own before it begins: what was guessed, and how to correct it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.markup import escape

from .console import err, note, out, table_of
from .work import working

if TYPE_CHECKING:
    from ..datasets import Dataset
    from ..errors import Fault
    from ..schema import Feature, Schema

# Features that are shown; `fcxplain schema` shows all.
SHOWN = 40
# Levels of a category that are named.
LEVELS = 4
# Looking for rules between so many features would keep people waiting.
MANY = 80


def show_features(schema: Schema) -> None:
    """What each feature is taken for, and what deserves a look."""
    shown = table_of("feature", "kind", "values", "may change")
    for feature in schema.features[:SHOWN]:
        told = (feature.name, feature.kind, legal(feature), "yes" if feature.mutable else "no")
        shown.add_row(*map(escape, told))
    shown.columns[1].no_wrap = True
    err.print(shown)
    if len(schema) > SHOWN:
        _say(f"... and {len(schema) - SHOWN:,} more: see `fcxplain schema`")
    show_advice(schema, err)


def show_guesses(schema: Schema) -> None:
    """Every feature with what was guessed and why, as the result of a command."""
    shown = table_of("feature", "kind", "values", "because")
    for feature, guess in zip(schema.features, schema.guesses, strict=True):
        shown.add_row(*map(escape, (feature.name, feature.kind, legal(feature), guess.why)))
    shown.columns[1].no_wrap = True
    out.print(shown)
    show_advice(schema, out)


def show_advice(schema: Schema, console: Console) -> None:
    """What deserves a second look."""
    for guess in schema.guesses:
        if guess.advice:
            told = f"[yellow]look at[/] [bold]{escape(guess.feature)}[/]: {escape(guess.advice)}"
            console.print(told, highlight=False, soft_wrap=True)


def legal(feature: Feature) -> str:
    """The values that a feature may have, in a few words."""
    if feature.is_number:
        step = "" if feature.kind == "integer" and feature.step == 1 else f" by {feature.step:g}"
        return f"{feature.low:,} to {feature.high:,}{step}"
    more = f" and {len(feature.levels) - LEVELS:,} more" if len(feature.levels) > LEVELS else ""
    return ", ".join(map(str, feature.levels[:LEVELS])) + more


def show_own_table(data: Dataset, target: Any, source: str, schema_file: Path | None, kept: Path | None) -> None:
    """All that was guessed of a table, and the ways to correct it."""
    where = "guessed" if schema_file is None else f"from {schema_file}"
    _say(f"[bold]{escape(Path(source).name)}[/]: {len(data):,} rows, {len(data.schema):,} features ({escape(where)})")
    show_features(data.schema)
    classes = ", ".join(f"{name} ({count:,})" for name, count in class_counts(data).items())
    wanted = "the other one for each row" if target is None else str(target)
    _say(f"label {escape(data.label)}: {escape(classes)}; wanted: {escape(wanted)}")
    for told in data.notes:
        note(told)
    if schema_file is None:
        _show_corrections(data, source, kept)


def _show_corrections(data: Dataset, source: str, kept: Path | None) -> None:
    from ..datasets.tables import MISSING

    if not data.schema.immutable:
        _say("Everything may change. What nobody can change: --freeze NAME. What is no feature: --ignore NAME.")
    _say(escape(f"Missing is an empty cell, or one of {', '.join(MISSING[1:])}."))
    told = f"fcxplain schema {shlex.quote(_short(source))} --label {shlex.quote(data.label)} --out schema.toml"
    if kept is None:
        _say(f"To correct kinds, bounds or levels: [bold]{escape(told)}[/], edit it, and fit with --schema schema.toml")
    else:
        _say(f"All this is in {escape(str(kept))}: correct it there, and fit with --schema {escape(str(kept))}")


def mention_suggestions(data: Dataset, source: str) -> None:
    """That there are rules which the data never breaks; none is applied."""
    from ..suggestions import suggest

    if len(data.schema) > MANY:
        return
    with working("looking for rules that this data speaks for"):
        table = pd.concat([data.train, data.validation, data.test])
        count = len(suggest(table, data.schema, label=data.label))
    if count:
        told = f"fcxplain rules suggest --data {shlex.quote(_short(source))} --label {shlex.quote(data.label)}"
        many = "1 rule is" if count == 1 else f"{count:,} rules are"
        _say(f"{many} suggested by this data, for you to accept or not: see [bold]{escape(told)}[/]")


def class_counts(data: Dataset) -> Mapping[Any, int]:
    """How many rows have each class."""
    labels = pd.concat([part[data.label] for part in (data.train, data.validation, data.test)])
    return {name: int(count) for name, count in labels.value_counts(sort=False).sort_index().items()}


def schema_text(schema: Schema, left_out: tuple[Fault, ...] = ()) -> str:
    """A schema file that also says which columns it leaves out and why."""
    if not left_out:
        return schema.to_toml()
    lines = ["", "# Left out, since they cannot be features as they are:", *(f"# - {_line(f)}" for f in left_out)]
    return schema.to_toml() + "\n".join(lines) + "\n"


def _line(fault: Fault) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in str(fault)).split())


def _short(path: str) -> str:
    """A path as a person in this folder would write it."""
    whole = Path(path)
    return str(whole.relative_to(Path.cwd())) if whole.is_relative_to(Path.cwd()) else path


def _say(text: str) -> None:
    err.print(text, highlight=False, soft_wrap=True)
