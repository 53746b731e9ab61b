"""The command line: parse, call, print. No logic lives here; each file has the commands of one subject."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer
from rich.markup import escape

from .. import __version__
from ..errors import FcxError, FcxWarning
from . import demo, explaining, fitting, models, tables, verification
from .bench import bench_app
from .console import err, out
from .rules import rules_app

app = typer.Typer(
    help="Feasible counterfactual explanations for tables: what could I change to get the other answer?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(demo.demo)
app.command()(tables.datasets)
app.command()(tables.schema)
app.command()(fitting.fit)
app.command()(explaining.explain)
app.command()(verification.verify)
app.command()(models.evaluate)
app.command()(models.graph)
app.add_typer(rules_app, name="rules")
app.add_typer(bench_app, name="bench")

SHOWN = {"debug": False}


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


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, FcxWarning):
        err.print("[yellow]warning:[/]", escape(str(message)), highlight=False, soft_wrap=True)
