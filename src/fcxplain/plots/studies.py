"""Measures against one setting, with deviations over seeds; and cost against the number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log10
from numbers import Real
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from ..errors import DataError, Fault, did_you_mean, some
from .comparison import averaged
from .style import (
    COLOURS,
    MARKERS,
    QUIET,
    STROKES,
    add_key,
    add_title,
    figure_of,
    new_figure,
    our_style,
    plain,
    settle,
    shortened,
    text_width,
)

LABEL = 8.0
LENGTH = 165.0
"""About how long the axis of a panel is, in points."""


@dataclass(frozen=True)
class Scale:
    """Where settings stand on the axis, and which of them are written below it."""

    settings: tuple[Any, ...]
    of_words: bool
    is_log: bool

    def place(self, setting: Any) -> float:
        """Where a setting stands: at itself if it is a number."""
        return float(self.settings.index(setting)) if self.of_words else float(setting)

    def apply(self, ax: Axes) -> None:
        """Set up the axis."""
        if self.is_log:
            ax.set_xscale("log")
        ax.xaxis.set_minor_locator(NullLocator())
        shown = list(self.settings) if self.of_words else _spaced(self.settings, self._share)
        words = [shortened(_written(setting), 32) for setting in shown]
        ax.set_xticks([self.place(setting) for setting in shown], words)
        if self.of_words and sum(text_width(word, LABEL) + 6 for word in words) > LENGTH:
            ax.tick_params(axis="x", labelrotation=30)
            for label in ax.get_xticklabels():
                label.set_horizontalalignment("right")
                label.set_rotation_mode("anchor")

    def _share(self, setting: Any) -> float:
        """How far along the axis a setting stands, in points."""
        low, high, here = (self._even(s) for s in (self.settings[0], self.settings[-1], setting))
        return LENGTH * (here - low) / (high - low or 1.0)

    def _even(self, setting: Any) -> float:
        return log10(setting) if self.is_log else float(setting)


def scale_of(settings: Sequence[Any], is_log: bool) -> Scale:
    """A scale for these settings; numbers are put in order, words stay as they are."""
    unique = list(dict.fromkeys(settings))
    of_words = not all(isinstance(s, Real) and not isinstance(s, bool) for s in unique)
    low = [s for s in unique if not of_words and s <= 0]
    if is_log and (of_words or low):
        raise DataError(f"log_x needs settings above 0; there is {some(unique if of_words else low)}")
    return Scale(tuple(unique if of_words else sorted(unique)), of_words, is_log)


def _written(setting: Any) -> str:
    return f"{setting:g}" if isinstance(setting, Real) else str(setting)


def _spaced(settings: Sequence[Any], along: Any) -> list[Any]:
    """Settings whose words do not touch, from left to right."""
    shown: list[Any] = []
    end = float("-inf")
    for setting in settings:
        half = text_width(_written(setting), LABEL) / 2
        if along(setting) - half >= end + 4:
            shown.append(setting)
            end = along(setting) + half
    return shown


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
            panel.plot(line["rows"], line["microseconds"], clip_on=False, **_growth_look(number))
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(LogLocator(10))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(lambda rows, _: f"{rows:,.0f}")
        panel.set_ylim(0, 1.15 * float(points["microseconds"].max()))
        panel.set_xlabel("rows")
        panel.set_ylabel("CPU microseconds a row")
        add_key(
            [panel],
            [(Line2D([], [], **_growth_look(i)), shortened(str(n), 40)) for i, n in enumerate(names)],
            own=ax is None,
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


def _growth_look(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number], "linestyle": STROKES[number], "marker": MARKERS[number]}


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
