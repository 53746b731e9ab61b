"""The command line: parse, call, print. No logic lives here; each file has the commands of one topic."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated

import typer

from .. import __version__
from . import demo, explaining, fitting, models, serving, tables
from .bench import bench_app
from .console import App, Debug, alarm, end, err, option, out, show_warning
from .rules import rules_app

EXAMPLE = "Example: fcxplain demo. For more examples: fcxplain COMMAND --help."

app = App(
    help="Feasible counterfactual explanations for tables: what could I change to get the other answer?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=EXAMPLE,
)
app.command()(demo.demo)
app.command()(tables.datasets)
app.command()(tables.schema)
app.command()(fitting.fit)
app.command()(explaining.explain)
app.command()(models.verify)
app.command()(serving.serve)
app.command()(models.evaluate)
app.command()(models.graph)
app.add_typer(rules_app, name="rules")
app.add_typer(serving.store_app, name="store")
bench_app.command("serve")(serving.bench_serve)
app.add_typer(bench_app, name="bench")


def main() -> None:
    """Run the command line. Errors are printed in one line; --debug shows the traceback."""
    warnings.showwarning = show_warning
    try:
        app()
    except (Exception, KeyboardInterrupt) as error:
        sys.exit(end(error))


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, option("Print the version and exit.", "--version")] = False, debug: Debug = False
) -> None:
    """Feasible counterfactual explanations for tables."""
    alarm.debug, err.quiet = debug, False
    if version:
        out.print(f"fcxplain {__version__}")
        raise typer.Exit
