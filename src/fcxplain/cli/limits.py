"""`fcxplain bench limits`: which figures can be had together on a data set, by any method whatever."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from . import completion
from .console import Json, Seed, err, out, print_json, table_of
from .work import working

if TYPE_CHECKING:
    from ..benchmark.limits import Limit, Limits, Wish

Mean = Annotated[float | None, typer.Option(min=0, help="A mean that answers are to have at most.")]


def bench_limits(
    data: Annotated[
        str, typer.Option("--data", help="A data set's name.", autocompletion=completion.data_sets)
    ] = "adult",
    rules: Annotated[str, typer.Option(help="unary or binary.")] = "binary",
    rows: Annotated[int | None, typer.Option(min=1, help="A sample of so many rows of the data set.")] = None,
    limit_rows: Annotated[int, typer.Option(min=1, help="Of at most so many refused test rows.")] = 100,
    changes: Mean = None,
    continuous: Mean = None,
    categorical: Mean = None,
    one_first: Annotated[
        bool, typer.Option("--one-first", help="Rows that a single change suffices for are to have one.")
    ] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Say which figures answers can have at once, whatever the method.

    Where all legal rows can be tried, they are; where they are too many and the model's score is linear, as the paper's
    is, a bound is told that no method can pass. Each line is a wish: means of the features changed, of the numbers'
    distance and of the categories changed. By default the wishes are the rows of the paper's table whose validity is at
    least 95 %, and the best of all of them at once. The last columns say how few categories can change where the rest
    of the wish holds, whether all of it can hold, and of the rows that two changes suffice for, how many can then have
    no more than two.

    Example: fcxplain bench limits --data adult --changes 2 --continuous 1.6 --categorical 1.15 --one-first
    """
    from ..benchmark.limits import limits

    own = _wish(changes, continuous, categorical, one_first=one_first)
    with working("finding limits", limit_rows) as work:
        found = limits(data, rules, own, rows=rows, explained=limit_rows, seed=seed, on_row=work.move)
    if as_json:
        return print_json(asdict(found))
    return _print(found)


def _wish(changes: float | None, continuous: float | None, categorical: float | None, *, one_first: bool) -> list[Wish]:
    from ..benchmark.limits import Wish

    own = Wish("yours", changes, continuous, categorical, one_first)
    return [] if own == Wish("yours") else [own]


def _print(found: Limits) -> None:
    shown = table_of("wish", "changes", "continuous", "categorical", "fewest", "can be", "two changes, %")
    for line in found.lines:
        shown.add_row(*_cells(line))
    out.print(shown)
    how = "every legal row was tried" if found.is_exact else "a bound by the model's linear score, rules left out"
    of = f"{found.possible:,} rows with an answer, of {found.rows:,} refused by seed {found.seed}"
    err.print(escape(f"{found.data}, {found.rules} rules: {of}; {how}"), highlight=False, soft_wrap=True)


def _cells(line: Limit) -> tuple[str, ...]:
    wish = line.wish
    means = ("" if v is None else f"{v:.2f}" for v in (wish.changes, wish.continuous, wish.categorical))
    fewest = "none" if line.categories is None else f"{line.categories:.2f}"
    two = "" if line.two_changes is None else f"{line.two_changes:.1f}"
    return wish.name, *means, fewest, "yes" if line.reachable else "no", two
