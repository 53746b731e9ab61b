"""Curves: losses by epoch in the paper's panels, measures against one setting, cost against the number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10, nan
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from ..errors import DataError, Fault, unknown
from ..training_loop import Epoch, History
from .comparison import figures_in
from .style import (
    COLOURS,
    QUIET,
    STROKES,
    finished,
    line_look,
    new_figure,
    our_style,
    panels_of,
    plain,
    shortened,
    text_width,
)

# The paper's panels in its order and wording, by our names of the terms.
PANELS = {
    "total": "Training and validation loss",
    "hard": "Hard constraint loss",
    "kl": "KL component",
    "proximity": "Reconstruction loss",
    "density": "LOF loss",
    "soft": "Soft causal loss",
    "sparsity": "Sparsity loss",
    "validity": "Validity loss",
}
PARTS = ("train", "validation")
RING: dict[str, Any] = {"marker": "o", "markersize": 9, "markerfacecolor": "none", "markeredgecolor": "black"}
MARGINS = {"left": 0.095, "right": 0.985, "bottom": 0.085, "wspace": 0.24, "hspace": 0.28}
MARKED = 12
"""The approximate number of markers on a line."""


@our_style()
def loss_curves(
    history: History, term: str | None = None, *, ax: Axes | None = None, title: str | None = None
) -> Figure:
    """Draw the total loss and its seven unweighted terms, on training and validation rows, by epoch.

    The best epoch, by validation loss, is marked in every panel. A term that was not used has an empty panel.

    Parameters
    ----------
    history
        The losses of a training run, as in `fcx.history_`.
    term
        Draw only this term (`total`, `hard`, `kl`, `proximity`, `density`, `soft`, `sparsity` or `validity`).
    ax
        Your own axes, for one term; the total by default.
    title
        The title of the figure.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        If the history has no epochs, or the term is unknown.

    Examples
    --------
    >>> from fcxplain import plots
    >>> figure = plots.loss_curves(fcx.history_)  # doctest: +SKIP
    >>> figure = plots.loss_curves(fcx.history_, "validity")  # doctest: +SKIP
    """
    best = history.best
    if best is None:
        raise DataError("the history has no epochs. Train first, then plot")
    faults = unknown("term", [] if term is None else [term], PANELS)
    if faults:
        raise DataError("loss_curves", faults)
    if term is None and ax is None:
        return _all_terms(history, best, title)
    term, (panel,) = term or "total", panels_of(ax, 5.2, 3.2)
    _draw_term(panel, history, term, best)
    _draw_epochs(panel, history)
    key = [(line, str(line.get_label())) for line in _handles(best)]
    return finished([panel], key, title or PANELS[term], ax=ax)


def _all_terms(history: History, best: Epoch, title: str | None) -> Figure:
    figure = new_figure(7.2, 8.6 if title else 8.3)
    panels = figure.subplots(4, 2, sharex=True, gridspec_kw=MARGINS | {"top": 0.925 if title else 0.965})
    for (term, words), letter, ax in zip(PANELS.items(), "abcdefgh", panels.flat, strict=True):
        ax.set_title(f"({letter}) {words}")
        _draw_term(ax, history, term, best)
    for ax in panels[-1]:
        _draw_epochs(ax, history)
    figure.legend(handles=_handles(best), loc="lower center", ncols=3, handlelength=3)
    if title:
        figure.suptitle(plain(title), fontsize=11, y=0.985)
    return figure


def _draw_term(ax: Axes, history: History, term: str, best: Epoch) -> None:
    epochs = history.epochs
    ax.set_ylabel(term)
    if not any(term in getattr(epoch, part) for epoch in epochs for part in PARTS):
        ax.text(0.5, 0.5, "not used", transform=ax.transAxes, ha="center", va="center", color=QUIET, style="italic")
        ax.set_yticks([])
        ax.grid(False)
        return
    ax.margins(y=0.08)
    ax.axvline(best.number, color=QUIET, linewidth=0.9, linestyle=":", zorder=1)
    for i, part in enumerate(PARTS):
        values = [getattr(epoch, part).get(term, nan) for epoch in epochs]
        every = max(1, len(epochs) // MARKED)
        ax.plot([epoch.number for epoch in epochs], values, markevery=every, markersize=3.5, **line_look(i))
    ax.plot([best.number], [best.validation.get(term, nan)], linestyle="none", **RING)


def _draw_epochs(ax: Axes, history: History) -> None:
    """Leave half an epoch of space on either side, so that a single epoch is centred."""
    ax.set_xlabel("epoch")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    first, last = history.epochs[0].number, history.epochs[-1].number
    room = max(0.5, 0.03 * (last - first))
    ax.set_xlim(first - room, last + room)


def _handles(best: Epoch) -> list[Line2D]:
    words = ("training", "validation")
    lines = [Line2D([], [], label=word, markersize=3.5, **line_look(i)) for i, word in enumerate(words)]
    return [*lines, Line2D([], [], color=QUIET, linestyle=":", label=f"best epoch ({best.number})", **RING)]


LABEL = 8.0
LENGTH = 165.0
"""The approximate length of a panel's axis, in points."""
ACROSS_ALL: dict[str, Any] = {"linestyle": STROKES[5], "linewidth": 1.0}
CHOSEN: dict[str, Any] = {"color": QUIET, "linestyle": ":", "linewidth": 1.2, "zorder": 1}


@our_style()
def study(
    points: pd.DataFrame,
    *,
    x: str,
    paper: pd.DataFrame | None = None,
    chosen: float | None = None,
    log_x: bool = False,
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure:
    """Draw measures against the setting that was varied: one panel per measure, one line per series.

    Parameters
    ----------
    points
        One line per point, with the columns `setting` (a number), `measure`, `series`, `mean` and `deviation`.
    x
        The setting's name, for the axis.
    paper
        Published values for all settings, with the columns `measure`, `series`, `mean` and `deviation`: a horizontal
        line with a band.
    chosen
        The setting that the paper chose, marked on the axis.
    log_x
        Whether the axis of settings is logarithmic.
    ax
        Your own axes, for one measure.
    title
        The title of the figure.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        If a column is missing, no point has a value, or `ax` is given for several measures.

    Examples
    --------
    >>> import pandas as pd
    >>> from fcxplain import plots
    >>> means = {"setting": [5, 10], "mean": [90.0, 95.0], "deviation": 1.0}
    >>> points = pd.DataFrame({**means, "measure": "validity", "series": "data set A"})
    >>> figure = plots.study(points, x="latent size", chosen=10)
    """
    ours = figures_in(points, ("setting", "measure", "series", "mean", "deviation"), "mean")
    measures, series = (list(dict.fromkeys(ours[column])) for column in ("measure", "series"))
    settings = sorted({*ours["setting"], *([] if chosen is None else [chosen])})
    faults = []
    if log_x and settings[0] <= 0:
        faults.append(Fault("setting", f"is {settings[0]:g}", "A logarithmic axis starts above 0."))
    if ax is not None and len(measures) > 1:
        faults.append(Fault("ax", f"is one axis for {len(measures)} measures", "Leave it out, or draw one at a time."))
    if faults:
        raise DataError("study", faults)
    panels = panels_of(ax, 4.6, 2.9, count=len(measures), margin=0.3)
    for panel, measure in zip(panels, measures, strict=True):
        _draw_ours(panel, ours[ours["measure"] == measure], series)
        if paper is not None:
            _draw_paper(panel, paper[paper["measure"] == measure], series)
        if chosen is not None:
            panel.axvline(chosen, **CHOSEN)
        _draw_settings(panel, settings, log_x)
        panel.set_xlabel(plain(x))
        panel.set_ylabel(plain(measure))
    key = [(Line2D([], [], **line_look(i)), plain(name)) for i, name in enumerate(series)]
    if paper is not None:
        key.append((Line2D([], [], color="black", **ACROSS_ALL), "paper, all settings"))
    if chosen is not None:
        key.append((Line2D([], [], **CHOSEN), "the paper's choice"))
    return finished(panels, key, title, ax=ax)


def _draw_settings(ax: Axes, settings: Sequence[float], is_log: bool) -> None:
    if is_log:
        ax.set_xscale("log")
    ax.xaxis.set_minor_locator(NullLocator())
    shown = _spaced(settings, is_log)
    ax.set_xticks(shown, [f"{setting:g}" for setting in shown])


def _draw_ours(ax: Axes, figures: pd.DataFrame, series: Sequence[Any]) -> None:
    for number, name in enumerate(series):
        line = figures[figures["series"] == name].sort_values("setting", kind="stable")
        if len(line):
            spread = line["deviation"] if line["deviation"].notna().any() else None
            ax.errorbar(line["setting"], line["mean"], yerr=spread, capsize=3, elinewidth=1.0, **line_look(number))


def _draw_paper(ax: Axes, figures: pd.DataFrame, series: Sequence[Any]) -> None:
    for name, mean, deviation in figures[["series", "mean", "deviation"]].itertuples(index=False):
        colour = COLOURS[series.index(name) % len(COLOURS)] if name in series and len(series) > 1 else "black"
        ax.axhline(mean, color=colour, zorder=1.5, **ACROSS_ALL)
        if deviation > 0:
            ax.axhspan(mean - deviation, mean + deviation, color=colour, alpha=0.12, linewidth=0, zorder=1)


def _spaced(settings: Sequence[float], is_log: bool) -> list[float]:
    """Settings whose labels do not overlap, from left to right."""
    even = [log10(setting) if is_log else float(setting) for setting in settings]
    shown, end = [], float("-inf")
    for setting, here in zip(settings, even, strict=True):
        along = LENGTH * (here - even[0]) / (even[-1] - even[0] or 1.0)
        half = text_width(f"{setting:g}", LABEL) / 2
        if along - half >= end + 4:
            shown.append(setting)
            end = along + half
    return shown


@our_style()
def cost_per_row(points: pd.DataFrame, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw the CPU time per row against the number of rows, on a logarithmic axis.

    Parameters
    ----------
    points
        A table with the columns `series`, `rows` and `microseconds` (of CPU time per row); one line per series.
    ax, title
        Your own axes, and a title.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        If a column is missing, there are no points, or too many series to distinguish.

    Examples
    --------
    >>> import pandas as pd
    >>> from fcxplain import plots
    >>> points = pd.DataFrame({"series": "method A", "rows": [100, 10_000], "microseconds": [900.0, 250.0]})
    >>> figure = plots.cost_per_row(points)
    """
    points = figures_in(points, ("series", "rows", "microseconds"), "microseconds")
    names = list(dict.fromkeys(points["series"]))
    if len(names) > len(COLOURS):
        remedy = "Draw fewer, so that they can be distinguished."
        raise DataError("cost_per_row", [Fault("series", f"are more than {len(COLOURS)}", remedy)])
    (panel,) = panels_of(ax, 4.8, 3.2)
    for number, name in enumerate(names):
        line = points[points["series"] == name].sort_values("rows")
        panel.plot(line["rows"], line["microseconds"], clip_on=False, **line_look(number))
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(10))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(lambda rows, _: f"{rows:,.0f}")
    panel.set_ylim(0, 1.15 * float(points["microseconds"].max()))
    panel.set_xlabel("rows")
    panel.set_ylabel("CPU microseconds per row")
    key = [(Line2D([], [], **line_look(i)), shortened(str(name), 40)) for i, name in enumerate(names)]
    return finished([panel], key, title, ax=ax)
