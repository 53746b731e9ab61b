"""The picture of a study: measures against one setting, with deviations over seeds and the paper's figures."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..errors import DataError, Fault, did_you_mean
from .frame import add_key, add_title, settle
from .lettering import plain
from .scales import Scale, scale_of
from .style import COLOURS, MARKERS, QUIET, STROKES, figure_of, new_figure, our_style
from .tables import averaged

KEYS = ("setting", "measure")
ACROSS = 3
"""So many panels stand side by side."""
HOLLOW: dict[str, Any] = {
    "markersize": 9.0,
    "markerfacecolor": "none",
    "markeredgewidth": 1.3,
    "linestyle": "none",
    "zorder": 5,
}
ACROSS_ALL: dict[str, Any] = {"linestyle": STROKES[5], "linewidth": 1.0}
CHOSEN: dict[str, Any] = {"color": QUIET, "linestyle": ":", "linewidth": 1.2, "zorder": 1}


def study(
    points: pd.DataFrame,
    *,
    x: str,
    ys: str | Sequence[str] | None = None,
    paper: pd.DataFrame | None = None,
    chosen: Any = None,
    log_x: bool = False,
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure:
    """Draw what was measured against the setting that was varied: a panel per measure, a line per series.

    points: a table in long form with columns `setting`, `measure` and, with a line for each seed, `value`, or `mean`
        and `deviation`. A column `series` (data sets, methods, or measures that share a panel) gives a line for each.
        Settings that are not numbers stand side by side in the order of the table.
    x: the setting's name, for the axis.
    ys: the measures to draw, in order; all of them if left out.
    paper: published figures in the same form, drawn as a star, or, among several series, as the hollow marker of
        their own. One without a setting (missing) holds for all of them, and is a line across, with a band if it
        has a deviation.
    chosen: the setting that the paper settled on, marked on the axis.
    ax: axes of your own, for one measure.
    """
    ours = averaged(points, KEYS, ("series",), "points")
    theirs = ours.iloc[:0] if paper is None else averaged(paper, KEYS, ("series",), "paper")
    measures = _measures(ours, ys, ax)
    theirs = theirs[theirs["measure"].isin(measures)]
    scale = scale_of([*ours["setting"], *theirs["setting"].dropna(), *([] if chosen is None else [chosen])], log_x)
    series = list(dict.fromkeys(ours["series"]))
    with our_style():
        panels = _panels(len(measures)) if ax is None else [ax]
        for panel, measure in zip(panels, measures, strict=True):
            _draw_ours(panel, ours[ours["measure"] == measure], series, scale)
            _draw_theirs(panel, theirs[theirs["measure"] == measure], series, scale)
            if chosen is not None:
                panel.axvline(scale.place(chosen), **CHOSEN)
            scale.apply(panel)
            panel.set_xlabel(plain(x))
            panel.set_ylabel(plain(measure))
        add_key(panels, _key(series, theirs["setting"], chosen), own=ax is None)
        add_title(panels[0], title, own=ax is None)
        if ax is None:
            settle(figure_of(panels[0]))
        return figure_of(panels[0])


def _measures(ours: pd.DataFrame, ys: str | Sequence[str] | None, ax: Axes | None) -> list[str]:
    known = list(dict.fromkeys(ours["measure"]))
    measures = known if ys is None else [ys] if isinstance(ys, str) else list(ys)
    faults = [
        Fault(f"measure {y!r}", "is not in the points", did_you_mean(y, known)) for y in measures if y not in known
    ]
    if not measures:
        faults.append(Fault("ys", "names no measure"))
    if ax is not None and len(measures) > 1:
        faults.append(Fault("ax", f"is one axis for {len(measures)} measures", "Leave it out, or draw one at a time."))
    if faults:
        raise DataError("study", faults)
    return measures


def _panels(count: int) -> list[Axes]:
    across = min(count, ACROSS)
    down = ceil(count / across)
    width = 4.6 if across == 1 else 3.3 * across
    figure = new_figure(width, 2.9 * down + 0.3, layout="constrained")
    return [figure.add_subplot(down, across, i + 1) for i in range(count)]


# Lines, stars and bands


def _look(number: int) -> dict[str, Any]:
    i = number % len(COLOURS)
    return {"color": COLOURS[i], "linestyle": STROKES[i], "marker": MARKERS[i]}


def _draw_ours(ax: Axes, figures: pd.DataFrame, series: Sequence[Any], scale: Scale) -> None:
    for number, name in enumerate(series):
        line = figures[figures["series"] == name].assign(place=lambda f: [scale.place(s) for s in f["setting"]])
        line = line.sort_values("place", kind="stable")
        if len(line):
            ax.errorbar(line["place"], line["mean"], yerr=_bars(line), capsize=3, elinewidth=1.0, **_look(number))


def _draw_theirs(ax: Axes, figures: pd.DataFrame, series: Sequence[Any], scale: Scale) -> None:
    for name in dict.fromkeys(figures["series"]):
        colour = COLOURS[series.index(name) % len(COLOURS)] if name in series and len(series) > 1 else "black"
        own = figures[figures["series"] == name]
        at = own[own["setting"].notna()]
        if len(at):
            places = [scale.place(setting) for setting in at["setting"]]
            ax.errorbar(places, at["mean"], yerr=_bars(at), capsize=3, color=colour, **_published(series, name))
        for mean, deviation in own[own["setting"].isna()][["mean", "deviation"]].itertuples(index=False):
            ax.axhline(mean, color=colour, zorder=1.5, **ACROSS_ALL)
            if deviation > 0:
                ax.axhspan(mean - deviation, mean + deviation, color=colour, alpha=0.12, linewidth=0, zorder=1)


def _published(series: Sequence[Any], name: Any) -> dict[str, Any]:
    """A star; among several series the hollow marker of its own, since print may have no colours."""
    number = series.index(name) if name in series and len(series) > 1 else None
    return HOLLOW | (
        {"marker": "*", "markersize": 11.0} if number is None else {"marker": MARKERS[number % len(MARKERS)]}
    )


def _bars(figures: pd.DataFrame) -> pd.Series | None:
    return figures["deviation"] if figures["deviation"].notna().any() else None


# Words around them


def _key(series: Sequence[Any], published: pd.Series, chosen: Any) -> list[tuple[Line2D, str]]:
    key = [(Line2D([], [], **_look(i)), plain(name) or "ours") for i, name in enumerate(series)]
    if published.notna().any():
        star = _published(series, series[0])
        key.append((Line2D([], [], color="black", **star), "paper" if len(series) == 1 else "paper (hollow)"))
    if published.isna().any():
        key.append((Line2D([], [], color="black", **ACROSS_ALL), "paper, all settings"))
    if chosen is not None:
        key.append((Line2D([], [], **CHOSEN), "the paper's choice"))
    return key if len(key) > 1 or series[0] != "" else []
