"""What a row costs against how many there are: flat where the work grows no faster than the rows."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from ..errors import DataError, Fault
from .frame import add_key, add_title, settle
from .lettering import shortened
from .style import COLOURS, MARKERS, STROKES, figure_of, new_figure, our_style

COLUMNS = ("series", "rows", "microseconds")


def cost_per_row(points: pd.DataFrame, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the CPU time of a row, from zero upwards, against the number of rows on a logarithmic axis.

    points: a table with columns `series`, `rows` and `microseconds` (of CPU time a row); a line for each series.
    """
    _check(points)
    names = list(dict.fromkeys(points["series"]))
    with our_style():
        panel = new_figure(4.8, 3.2, layout="constrained").add_subplot() if ax is None else ax
        for number, name in enumerate(names):
            line = points[points["series"] == name].sort_values("rows")
            panel.plot(line["rows"], line["microseconds"], clip_on=False, **_look(number))
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(LogLocator(10))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(lambda rows, _: f"{rows:,.0f}")
        panel.set_ylim(0, 1.15 * float(points["microseconds"].max()))
        panel.set_xlabel("rows")
        panel.set_ylabel("CPU microseconds a row")
        add_key(
            [panel], [(Line2D([], [], **_look(i)), shortened(str(n), 40)) for i, n in enumerate(names)], own=ax is None
        )
        add_title(panel, title, own=ax is None)
        if ax is None:
            settle(figure_of(panel))
        return figure_of(panel)


def _check(points: pd.DataFrame) -> None:
    faults = [Fault(f"column {name!r}", "is not in the points") for name in COLUMNS if name not in points.columns]
    if not faults and not len(points):
        faults = [Fault("points", "are none", "Measure several numbers of rows first.")]
    if not faults and (points["rows"] <= 0).any():
        faults = [Fault("rows", f"are {points['rows'].min()}", "A logarithmic axis begins above 0.")]
    if len(set(points.get("series", ()))) > len(COLOURS):
        faults.append(Fault("series", f"are more than {len(COLOURS)}", "They could not be told apart: draw fewer."))
    if faults:
        raise DataError("cost_per_row", faults)


def _look(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number], "linestyle": STROKES[number], "marker": MARKERS[number]}
