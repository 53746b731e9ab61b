"""The command line: parse, call, print. No logic lives here; each file has the commands of one topic."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .. import __version__
from . import demo, explaining, fitting, models, serving, tables, verification
from .bench import bench_app
from .console import err, out
from .manners import MANNER, App, Debug, end, listen_to_warnings
from .rules import rules_app, rules_suggest

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
app.command()(verification.verify)
app.command()(serving.serve)
app.command()(models.evaluate)
app.command()(models.graph)
rules_app.command("suggest")(rules_suggest)
app.add_typer(rules_app, name="rules")
app.add_typer(serving.store_app, name="store")
bench_app.command("serve")(serving.bench_serve)
app.add_typer(bench_app, name="bench")


def main() -> None:
    """Run the command line. Errors are printed in one line; --debug shows the traceback."""
    listen_to_warnings()
    try:
        app()
    except (Exception, KeyboardInterrupt) as error:
        sys.exit(end(error))


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Debug = False,
) -> None:
    """Feasible counterfactual explanations for tables."""
    MANNER.debug, err.quiet = debug, False
    if version:
        out.print(f"fcxplain {__version__}", highlight=False)
        raise typer.Exit
