"""What every command prints with: the two consoles, tables, JSON, and the options that many share."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

out = Console()
err = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random choice.")]
Data = Annotated[
    str, typer.Option("--data", help="A data set's name (see `fcxplain datasets`) or a CSV or parquet file.")
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
