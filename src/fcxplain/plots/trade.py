"""Methods as numbered points: how much success each has, against what it asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator
from numpy.typing import NDArray

from ..errors import DataError, Fault
from .frame import BEHIND, add_title, settle
from .lettering import plain, shortened
from .style import figure_of, new_figure, our_style

# Points nearer to each other than this share of a panel are drawn side by side.
NEAR = 0.05


def trade_off(
    table: pd.DataFrame,
    *,
    y: str,
    xs: Mapping[str, str],
    logarithmic: Sequence[str] = (),
    own: Sequence[str] = (),
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure:
    """Draw one panel for each figure in `xs` (column to words), with `y` upwards and a numbered point per method.

    table: a line per method with the columns `method`, `y` and those of `xs`; a point without a figure is left out of
        its panel. `own`: methods that are drawn filled. Numbers and a key tell methods apart, so print needs no colour.
    ax: axes of your own, for one figure in `xs`.
    """
    absent = [c for c in ("method", y, *xs) if c not in table.columns]
    if absent:
        raise DataError(f"the table has no column {absent[0]!r}")
    if ax is not None and len(xs) != 1:
        raise DataError("", [Fault("ax", f"is one axis for {len(xs)} figures", "Leave it out, or draw one at a time.")])
    with our_style():
        panels = _panels(len(xs)) if ax is None else [ax]
        for panel, (column, words) in zip(panels, xs.items(), strict=True):
            _draw(panel, table, column, y, words, own, log=column in logarithmic)
        panels[0].set_ylabel(f"{plain(y)}, percent")
        panels[0].set_ylim(-6, 106)
        _key(panels[0], table, own=ax is None)
        add_title(panels[0], title, own=ax is None)
        if ax is None:
            settle(figure_of(panels[0]))
        return figure_of(panels[0])


def _panels(count: int) -> list[Axes]:
    figure = new_figure(3.2 * count + 1.9, 3.4, layout="constrained")
    return list(figure.subplots(1, count, sharey=True, squeeze=False)[0])


def _draw(ax: Axes, table: pd.DataFrame, x: str, y: str, words: str, own: Sequence[str], *, log: bool) -> None:
    ax.set_xlabel(plain(words))
    known = table[[x, y]].notna().all(axis=1) & ((table[x] > 0) | (not log))
    if log and known.any():
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        ax.xaxis.set_minor_locator(NullLocator())
    numbers, found = np.flatnonzero(known) + 1, table[known]
    across, up = (found[name].to_numpy(float) for name in (x, y))
    across = _beside(np.log10(across), up) if log else _beside(across, up)
    for number, method, left, height in zip(numbers, found["method"], across, up, strict=True):
        inside, edge = ("black", "white") if method in own else ("white", "black")
        circle = {"boxstyle": "circle,pad=0.25", "fc": inside, "ec": edge, "lw": 0.8}
        place = (10**left if log else left, height)
        ax.plot(*place, linestyle="")
        ax.annotate(str(number), place, ha="center", va="center", fontsize=7, color=edge, bbox=circle)
    ax.margins(x=0.12)


def _beside(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """The places across, some moved a little to the right, so that no point hides another."""
    width = NEAR * max(float(np.ptp(x)), 1e-9) if len(x) else 0.0
    shown = x.copy()
    for turn, i in enumerate(order := np.argsort(x, kind="stable")):
        for j in order[:turn]:
            if abs(y[i] - y[j]) < 100 * NEAR and shown[i] < shown[j] + width:
                shown[i] = shown[j] + width
    return shown


def _key(ax: Axes, table: pd.DataFrame, *, own: bool) -> None:
    """Right of the panels on a figure of our own; in the axes on one that is not."""
    lines = [f"{i}  {shortened(str(name), 22)}" for i, name in enumerate(table["method"], start=1)]
    nothing = [Line2D([], [], linestyle="") for _ in lines]
    look: dict[str, Any] = {"handlelength": 0, "handletextpad": 0, "fontsize": 8}
    if own:
        figure_of(ax).legend(nothing, lines, loc="outside right upper", **look)
    else:
        ax.legend(nothing, lines, loc="best", **look, **BEHIND)
