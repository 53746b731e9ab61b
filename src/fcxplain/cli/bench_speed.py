"""`fcxplain bench speed`: speed as ratios, in tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from ..files import check_output
from . import console
from .console import PICTURES, Json, Seed, err, out, print_json, split, table_of
from .progress import working

if TYPE_CHECKING:
    from ..benchmark.speed.dice import Contender
    from ..benchmark.speed.speed import Speed
    from ..benchmark.speed.timing import Growth, Timing

Name = Annotated[str, typer.Option("--data", help="The name of a data set.", autocompletion=console.data_sets)]
Sample = Annotated[str | None, typer.Option(help="The sample of the data set, e.g. all (folktables).")]
What = Annotated[
    list[str] | None,
    typer.Option(
        "--what",
        help="tables, training, growth, explaining, streaming, compare, models, budget, quick; all by default. "
        "Or large, or memory.",
        autocompletion=console.speeds,
    ),
]
Repeat = Annotated[int, typer.Option(min=1, help="The number of repetitions; the best counts.")]
UpTo = Annotated[int, typer.Option(min=1_000, help="The maximum number of rows in growth, streaming and large.")]
Compared = Annotated[
    int | None,
    typer.Option("--rows", min=1, help="Rows explained by compare (30 by default), models and budget (300)."),
]
PicturePath = Annotated[
    Path | None,
    typer.Option("--picture", help="Plot the cost per row in growth and streaming (.svg, .png or .pdf)."),
]
SpeedPage = Annotated[
    Path | None,
    typer.Option(
        "--page", help="Fill in the tables of models, budget and large on a Markdown page, as bench report does."
    ),
]
CurvePath = Annotated[
    Path | None, typer.Option("--curve", help="Plot the quality of answers against the budget (.svg, .png or .pdf).")
]


def bench_speed(
    data: Name = "adult",
    sample: Sample = None,
    what: What = None,
    repeat: Repeat = 5,
    up_to: UpTo = 1_000_000,
    rows: Compared = None,
    picture: PicturePath = None,
    curve: CurvePath = None,
    page: SpeedPage = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure speed against a plain baseline, and against dice-ml.

    Example: fcxplain bench speed --what streaming --json --picture speed-rows.svg

    All times are CPU seconds of one thread.

    tables: encode, decode and repair every row, against plain numpy and pandas.

    training: FCx as published, with all terms and with each alone, against the network without terms.

    growth: one epoch on 10,000 to a million rows, with its memory.

    explaining: each preference, in a batch and row by row, and a single draw against its baseline.

    streaming: file to file, 1,000 to a million rows.

    compare: CPU seconds per verified answer of the baseline, of FCx and of dice-ml (if installed) on the same rows.

    models: six kinds of model, queried about every candidate, and read or imitated.

    budget: quality of answers by the number of model queries allowed, with and without a generator.

    quick: one pass against the full search.

    large: files to a folder with one process and with one and two Dask workers, 100,000 and a million rows; with
    --up-to 10000000 also ten million in one pass.

    memory: one epoch of a fit, on its own.
    """
    from ..benchmark.speed.speed import MEASURED, measured

    for path, option in ((picture, "--picture"), (curve, "--curve")):
        if path is not None:
            check_output(path, PICTURES, option)
    chosen = split(what) or list(MEASURED)
    how: dict[str, Any] = {"sample": sample, "repeat": repeat, "up_to": up_to, "rows": rows, "seed": seed}
    # A million rows take longer than a thousand, so the pace so far does not predict the time left.
    with working(f"measuring on {data}", even=False) as work:
        found = measured(data, chosen, on_progress=work.tell, **how)
    for path, draw in ((picture, found.draw), (curve, found.draw_budgets)):
        if path is not None:
            draw(path)
            err.print(escape(f"picture in {path}"), highlight=False, soft_wrap=True)
    if page is not None:
        found.fill(page)
    if as_json:
        print_json(found.to_dict())
    else:
        _show(found)


def _show(found: Speed) -> None:
    """Print the tables that were measured, their notes, and the machine."""
    tables = [
        _timings(found.timings),
        _growth(found.growth, "rows of one epoch"),
        _growth(found.streaming, "rows explained, file to file"),
        _contenders(found.compare),
        *(_lines(lines) for lines in found.tables().values()),
    ]
    for shown in tables:
        if shown.row_count:
            out.print(shown)
    noted = [*((c.name, c.note) for c in found.compare), *((m.model, m.note) for m in found.models)]
    for name, note in noted:
        if note:
            out.print(escape(f"{name}: {note}"), highlight=False, soft_wrap=True)
    out.print(f"peak memory of this process: {found.peak / 1e6:,.0f} MB", highlight=False)
    out.print(escape(f"measured on {found.machine}"), highlight=False, soft_wrap=True)


def _timings(timings: Sequence[Timing]) -> Table:
    shown = table_of("job", "rows", "CPU s", "rows per CPU s", "baseline, CPU s", "ratio")
    for t in timings:
        floor, ratio = ("", "") if t.floor is None else (f"{t.floor:.3f}", f"{t.ratio:.2f}")
        shown.add_row(t.job, f"{t.rows:,}", f"{t.seconds:.3f}", f"{t.rows_per_second:,.0f}", floor, ratio)
    return shown


def _growth(sizes: Sequence[Growth], title: str) -> Table:
    shown = table_of(title, "CPU s", "microseconds per row", "more memory, MB")
    for g in sizes:
        memory = f"{g.memory / 1e6:,.0f}"
        shown.add_row(f"{g.rows:,}", f"{g.seconds:.2f}", f"{1e6 * g.seconds_per_row:.1f}", memory)
    return shown


def _contenders(contenders: Sequence[Contender]) -> Table:
    shown = table_of("method", "verified", "CPU ms each", "valid, %", "feasible, %", "changes", "fit, CPU s")
    for c in contenders:
        each = "" if c.seconds_per_verified is None else f"{1e3 * c.seconds_per_verified:,.1f}"
        figures = ("" if v is None else f"{v:.1f}" for v in (c.validity, c.feasibility, c.changes, c.fitting))
        shown.add_row(c.name, "" if c.seconds is None else f"{c.verified} of {c.rows}", each, *figures)
    return shown


def _lines(lines: Sequence[Sequence[str]]) -> Table:
    """A table whose first line is its header."""
    shown = table_of(*lines[0])
    for line in lines[1:]:
        shown.add_row(*line)
    return shown
