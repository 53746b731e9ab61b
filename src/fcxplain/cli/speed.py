"""`fcxplain bench speed`: how fast everything is, as tables, JSON and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from . import completion
from .console import Json, Seed, err, out, print_json, split, table_of
from .outputs import PICTURES, check_output
from .work import working

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..benchmark.timing import Timing
    from ..benchmark.training import Growth
    from ..benchmark.versus import Contender

Name = Annotated[str, typer.Option("--data", help="A data set's name.", autocompletion=completion.data_sets)]
Sample = Annotated[str | None, typer.Option(help="Which sample of it, e.g. all (folktables).")]
What = Annotated[
    list[str] | None,
    typer.Option(
        "--what",
        help="tables, training, growth, explaining, streaming, compare; all by default. Or memory.",
        autocompletion=completion.speeds,
    ),
]
Repeat = Annotated[int, typer.Option(min=1, help="Turns; the best of each counts.")]
UpTo = Annotated[int, typer.Option(min=1_000, help="The most rows of growth and streaming.")]
Compared = Annotated[int, typer.Option("--rows", min=1, help="Rows that compare explains in every way.")]
PicturePath = Annotated[
    Path | None,
    typer.Option("--picture", help="Draw the cost of a row in growth and streaming, as .svg, .png or .pdf."),
]


def bench_speed(
    data: Name = "adult",
    sample: Sample = None,
    what: What = None,
    repeat: Repeat = 5,
    up_to: UpTo = 1_000_000,
    rows: Compared = 30,
    picture: PicturePath = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure speed against the plain work that must be done, and against dice-ml.

    Tables: encoding, decoding and repairing every row, against plain numpy and pandas. Training: FCx as published,
    all terms and each alone, against the bare network. Growth: one epoch on 10,000 to a million rows, with the
    memory that it takes. Explaining: by each preference, in a batch and one row at a time, and with a single draw
    against the bare work. Streaming: file to file, 1,000 to a million rows. Compare: CPU seconds per verified answer
    of the bare work, of ours and of dice-ml (if it is installed) for the same rows. Memory: a fit of one epoch with
    nothing beside it. CPU seconds of one thread.

    Example: fcxplain bench speed --what streaming --json --picture speed-rows.svg
    """
    from ..benchmark.speed import MEASURED, measured

    if picture is not None:
        check_output(picture, PICTURES, "--picture")
    chosen = split(what) or list(MEASURED)
    how: dict[str, Any] = {"sample": sample, "repeat": repeat, "up_to": up_to, "rows": rows, "seed": seed}
    # A million rows take longer than a thousand, so that the pace so far says nothing of what is left.
    with working(f"measuring on {data}", even=False) as work:
        found = measured(data, chosen, on_job=lambda done, total, job: work.move(done, total, what=job), **how)
    if picture is not None:
        found.draw(picture)
        err.print(escape(f"picture in {picture}"), highlight=False, soft_wrap=True)
    if as_json:
        return print_json(found.to_dict())
    tables = [
        _timings(found.timings),
        _growth(found.growth, "rows of one epoch"),
        _growth(found.streaming, "rows explained, file to file"),
        _contenders(found.contenders),
    ]
    for shown in tables:
        if shown.row_count:
            out.print(shown)
    for one in found.contenders:
        if one.note:
            out.print(escape(f"{one.name}: {one.note}"), highlight=False, soft_wrap=True)
    out.print(f"peak memory of this process: {found.peak / 1e6:,.0f} MB", highlight=False)
    out.print(escape(f"measured on {found.machine}"), highlight=False, soft_wrap=True)
    return None


def _timings(timings: Sequence[Timing]) -> Table:
    shown = table_of("job", "rows", "CPU s", "rows per CPU s", "bare work, CPU s", "ratio")
    for t in timings:
        floor, ratio = ("", "") if t.floor is None else (f"{t.floor:.3f}", f"{t.ratio:.2f}")
        shown.add_row(t.job, f"{t.rows:,}", f"{t.seconds:.3f}", f"{t.rows_per_second:,.0f}", floor, ratio)
    return shown


def _growth(sizes: Sequence[Growth], title: str) -> Table:
    shown = table_of(title, "CPU s", "microseconds a row", "more memory, MB")
    for g in sizes:
        memory = f"{g.memory / 1e6:,.0f}"
        shown.add_row(f"{g.rows:,}", f"{g.seconds:.2f}", f"{1e6 * g.seconds_per_row:.1f}", memory)
    return shown


def _contenders(contenders: Sequence[Contender]) -> Table:
    shown = table_of("way", "verified", "CPU ms each", "valid, %", "feasible, %", "changes", "fit, CPU s")
    for c in contenders:
        each = "" if c.seconds_per_verified is None else f"{1e3 * c.seconds_per_verified:,.1f}"
        figures = ("" if v is None else f"{v:.1f}" for v in (c.validity, c.feasibility, c.changes, c.fitting))
        shown.add_row(c.name, "" if c.seconds is None else f"{c.verified} of {c.rows}", each, *figures)
    return shown
