"""Consoles, tables and JSON for all commands, and the options that several share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

DATA_SETS = ("adult", "adult-authors", "census", "law", "folktables", "loans")
RULES = ("unary", "binary", "actionable")
CLASSIFIERS = ("paper", "balanced", "mlp", "logistic", "boosting")
PREFERENCES = ("fewest", "sparse", "balanced", "plausible")
CONVENTIONS = ("ours", "authors")
METHODS = (
    *("fcx", "fcx-fewest", "fcx-sparse", "fcx-plausible", "fcx-search", "fcx-draw"),
    *("fcx-u", "fcx-b", "fcx-u-authors", "fcx-b-authors"),
    *("mahajan-unary", "mahajan-binary", "revise", "cchvae", "cem", "dice-random", "face", "vcnet", "fcegan", "ceils"),
)
STUDIES = ("latent", "lof-k-metric", "lof-k-loss", "pc-alpha", "hyperparameters", "components", "curves")
SPEEDS = (
    *("tables", "training", "growth", "explaining", "streaming", "compare"),
    *("models", "budget", "quick", "large", "memory"),
)
METRICS = (
    *("validity", "validity_soft", "feasibility", "success", "success_possible"),
    *("continuous_proximity", "categorical_proximity", "sparsity"),
    *("lof", "outliers", "lof_raw", "lof_to_data", "outliers_to_data", "supported"),
    *("diversity", "diversity_pairs", "optimality_gap", "rows_per_second", "calls_per_row"),
)
# Extensions of the files that commands write.
PICTURES = (".svg", ".png", ".pdf")
ANSWERS = (".parquet", ".csv", ".json")

Completer = Callable[[str], list[str]]


def one_of(names: Sequence[str]) -> Completer:
    """Complete one name."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def several_of(names: Sequence[str]) -> Completer:
    """Complete the last of several comma-separated names."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        given = before.split(",")
        return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in given]

    return complete


data_sets, some_data_sets = one_of(DATA_SETS), several_of(DATA_SETS)
rules = one_of(RULES)
classifiers, some_classifiers = one_of(CLASSIFIERS), several_of(CLASSIFIERS)
preferences = one_of(PREFERENCES)
conventions = one_of(CONVENTIONS)
methods = several_of((*METHODS, "all"))
studies = several_of(STUDIES)
speeds = several_of(SPEEDS)
metrics = several_of(METRICS)


# Control characters (C0 except tab and line feed, DEL, C1), line separators, and marks that reverse text.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text with control characters shown as escapes; line breaks stay."""
    return _UNSEEN.sub(lambda found: repr(found[0])[1:-1], text)


def one_line(value: object) -> str:
    """A value of a user's table as text without line breaks, so that it cannot imitate a line of ours."""
    return visible(str(value).replace("\n", "\\n"))


class _Console(Console):
    """A console that shows control characters as escapes; only rich's own reach the terminal."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Escape control characters before the width is measured."""
        return super().render_str(visible(text), **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Escape them in renderables that are not plain text, such as the parts of a bar."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


# A name such as :key: must not turn into an emoji.
out = _Console(emoji=False)
err = _Console(stderr=True, emoji=False)
alarm = _Console(stderr=True, emoji=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option(min=0, help="The seed of all random numbers.")]
Data = Annotated[
    str,
    typer.Option(
        "--data",
        help="The name of a data set (see `fcxplain datasets`), or a CSV or parquet file.",
        autocompletion=data_sets,
    ),
]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", help="The schema of your own table (TOML, see `fcxplain schema`).")
]
Label = Annotated[
    str | None, typer.Option(help="The column of your own table with the true outcome; it is not a feature.")
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", help="A column that is not a feature, such as an identifier. May be repeated."),
]
Index = Annotated[
    str | None,
    typer.Option(
        "--index",
        "--id",
        help="The column with the row labels, e.g. a customer number; it is not a feature.",
    ),
]
SkipMissing = Annotated[bool, typer.Option("--skip-missing", help="Leave out rows with missing values.")]


def table_of(*columns: str) -> Table:
    """A plain table with these columns."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def print_json(data: Any) -> None:
    """Print data as JSON on standard output, with control characters escaped."""
    text = json.dumps(data, indent=2, ensure_ascii=False, default=str)
    typer.echo(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def note(text: str) -> None:
    """Print a note on standard error."""
    err.print("[cyan]note:[/]", escape(text), highlight=False, soft_wrap=True)


def written(*paths: Path | str | None) -> None:
    """Print which files were written."""
    for path in paths:
        if path is not None:
            out.print(f"written to {escape(str(path))}", highlight=False, soft_wrap=True)


def as_given(target: list[str] | None) -> str | list[str] | None:
    """The desired outcome as the library takes it: one name or range, several names, or None."""
    return target[0] if target and len(target) == 1 else target or None


def split(given: list[str] | None) -> list[str]:
    """Names that were given one by one or comma-separated."""
    return [name.strip() for part in given or [] for name in part.split(",") if name.strip()]
