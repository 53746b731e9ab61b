"""What every command prints with: the consoles, tables, JSON, and the options that many share.

Results go to `out`. How the work goes and what is worth knowing goes to `err`, which `--quiet` silences. Warnings and
errors go to `alarm`, which nothing silences.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .completion import data_sets

out = Console()
err = Console(stderr=True)
alarm = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random choice.")]
Data = Annotated[
    str,
    typer.Option(
        "--data",
        help="A data set's name (see `fcxplain datasets`) or a CSV or parquet file.",
        autocompletion=data_sets,
    ),
]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", help="Schema of your own table (TOML, see `fcxplain schema`).")
]
Label = Annotated[str | None, typer.Option(help="The column of your own table with the answer; it is no feature.")]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", help="A column that is no feature, such as an identifier. May be repeated."),
]
RowId = Annotated[
    str | None,
    typer.Option("--id", help="The column that the rows are called by, such as a customer number; it is no feature."),
]
SkipMissing = Annotated[
    bool, typer.Option("--skip-missing", help="Leave out rows with missing values instead of refusing the file.")
]


def table_of(*columns: str) -> Table:
    """A plain table with these columns."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def print_json(data: Any) -> None:
    """Data as JSON, on standard output."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))


def note(text: str) -> None:
    """Something worth knowing, on standard error."""
    err.print("[cyan]note:[/]", escape(text), highlight=False, soft_wrap=True)


def written(*paths: Path | None) -> None:
    """Which files are there now."""
    for path in paths:
        if path is not None:
            out.print(f"written to {escape(str(path))}", highlight=False, soft_wrap=True)


def split(given: list[str] | None) -> list[str]:
    """Names that were given one by one, or several with commas between them."""
    return [name.strip() for part in given or [] for name in part.split(",") if name.strip()]
