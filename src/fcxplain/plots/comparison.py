"""Bars side by side: figures of several sources (the paper's and ours, say) for the same things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from ..errors import DataError, some
from .frame import add_key, add_title, settle
from .lettering import plain, shortened
from .style import FILLS, HATCHES, figure_of, new_figure, our_style
from .tables import averaged

THICKNESS, BETWEEN, HEADING = 0.17, 0.12, 0.28
"""Of a bar, between two items, and of a heading, in inches, which are the units of the vertical axis."""


@dataclass(frozen=True)
class _Row:
    """A heading (no item) or an item, and the middle of it."""

    group: Any
    item: Any
    y: float


def bars(
    table: pd.DataFrame,
    *,
    x: str,
    log_x: bool = False,
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure:
    """Draw horizontal bars: for each item one per series, hatched and filled so that print needs no colour.

    table: a table in long form with columns `item`, `series` (the source, such as paper and ours) and, with a line
        for each seed, `value`, or `mean` and `deviation`. A column `group` (data sets) puts items under headings.
        All stand in the order of the table; a figure that is missing has no bar.
    x: what is measured, for the axis.
    """
    means = averaged(table, ("item", "series"), ("group",), "table")
    if log_x and (means["mean"] <= 0).any():
        raise DataError(f"log_x needs figures above 0; there is {some(means['mean'][means['mean'] <= 0])}")
    series = list(dict.fromkeys(means["series"]))
    rows, height = _rows(means, len(series))
    with our_style():
        panel = new_figure(6.4, height + 1.1, layout="constrained").add_subplot() if ax is None else ax
        for number, source in enumerate(series):
            _draw_series(panel, means[means["series"] == source], rows, number, len(series))
        _set_scale(panel, means, log_x)
        _name_rows(panel, rows, height)
        panel.set_xlabel(plain(x))
        key = [(_swatch(i), plain(name)) for i, name in enumerate(series)]
        add_key([panel], key if len(key) > 1 else [], own=ax is None)
        add_title(panel, title, own=ax is None)
        if ax is None:
            settle(figure_of(panel))
        return figure_of(panel)


def _rows(means: pd.DataFrame, thick: int) -> tuple[list[_Row], float]:
    """Rows from the top down, and how high they are together."""
    rows, y = [], 0.0
    for group, part in means.groupby("group", sort=False, dropna=False):
        if group != "":
            rows.append(_Row(group, None, y - HEADING / 2))
            y -= HEADING
        for item in dict.fromkeys(part["item"]):
            rows.append(_Row(group, item, y - (thick * THICKNESS + BETWEEN) / 2))
            y -= thick * THICKNESS + BETWEEN
    return rows, -y


def _draw_series(ax: Axes, figures: pd.DataFrame, rows: Sequence[_Row], number: int, count: int) -> None:
    shift = ((count - 1) / 2 - number) * THICKNESS
    place = {(row.group, row.item): row.y + shift for row in rows if row.item is not None}
    y = [place[key] for key in figures[["group", "item"]].itertuples(index=False, name=None)]
    ax.barh(y, figures["mean"], height=THICKNESS * 0.88, linewidth=0.7, zorder=2, **_look(number))
    known = figures["deviation"].notna().to_numpy()
    if known.any():
        at = [(v, mean, d) for v, mean, d in zip(y, figures["mean"], figures["deviation"], strict=True) if not isnan(d)]
        ax.errorbar(
            [a[1] for a in at], [a[0] for a in at], xerr=[a[2] for a in at], fmt="none", ecolor="black", capsize=2
        )
    for v, mean, deviation in zip(y, figures["mean"], figures["deviation"], strict=True):
        _write_figure(ax, v, mean, deviation)


def _write_figure(ax: Axes, y: float, mean: float, deviation: float) -> None:
    """The figure itself beyond the end of its bar."""
    known = not isnan(deviation)
    text = _written(mean, 3) + (f" ± {_written(deviation, 2)}" if known else "")
    end = mean + (deviation if known else 0.0) * (1 if mean >= 0 else -1)
    side = 1 if mean >= 0 else -1
    ax.annotate(
        text,
        (end, y),
        (4 * side, 0),
        textcoords="offset points",
        fontsize=7,
        va="center",
        ha="left" if side > 0 else "right",
    )


def _written(number: float, digits: int) -> str:
    text = f"{number:,.0f}" if abs(number) >= 100 else f"{number:.{digits}g}"
    return text.replace("-", "\N{MINUS SIGN}")


def _look(number: int) -> dict[str, Any]:
    i = number % len(FILLS)
    return {"facecolor": FILLS[i], "hatch": HATCHES[i], "edgecolor": "black"}


def _swatch(number: int) -> Patch:
    return Patch(linewidth=0.7, **_look(number))


def _set_scale(ax: Axes, means: pd.DataFrame, log_x: bool) -> None:
    reach = means["deviation"].fillna(0.0)
    low, high = float((means["mean"] - reach).min()), float((means["mean"] + reach).max())
    if log_x:
        floor = float(means["mean"].min()) / 3
        ax.set_xscale("log")
        ax.set_xlim(floor, high * (high / floor) ** 0.2)
        ax.xaxis.set_major_locator(LogLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.xaxis.set_minor_locator(NullLocator())
    else:
        # Room for the figures beyond the bars.
        room = 0.17 * (max(high, 0.0) - min(low, 0.0) or 1.0)
        ax.set_xlim(min(low, 0.0) - (room if low < 0 else 0.0), max(high, 0.0) + (room if high > 0 else 0.0))


def _name_rows(ax: Axes, rows: Sequence[_Row], height: float) -> None:
    names = [shortened(row.group if row.item is None else row.item, 40) for row in rows]
    ax.set_yticks([row.y for row in rows], names)
    for label, row in zip(ax.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if row.item is None else "normal")
    ax.set_ylim(-height - BETWEEN / 2, BETWEEN / 2)
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")
