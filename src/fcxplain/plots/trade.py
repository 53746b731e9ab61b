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
from .numbered import numbered
from .style import figure_of, new_figure, our_style

# Above 100 percent there is room for numbers.
LOWEST, HIGHEST = -6, 114


def trade_off(
    table: pd.DataFrame,
    *,
    y: str,
    xs: Mapping[str, str],
    by: str | None = None,
    logarithmic: Sequence[str] = (),
    own: Sequence[str] = (),
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure:
    """Draw one panel for each figure in `xs` (column to words), with `y` upwards and a numbered point per method.

    table: a line per method with the columns `method`, `y` and those of `xs`; a point without a figure is left out of
        its panel. `own`: methods that are drawn filled. Numbers and a key tell methods apart, so print needs no colour.
    by: a column whose values each get panels of their own, below each other; a method has the same number in all.
    ax: axes of your own, for one figure in `xs`.
    """
    absent = [c for c in ("method", y, *xs, *([by] if by else [])) if c not in table.columns]
    if absent:
        raise DataError(f"the table has no column {absent[0]!r}")
    if ax is not None and (len(xs) != 1 or by is not None):
        raise DataError("", [Fault("ax", f"is one axis for {len(xs)} figures", "Leave it out, or draw one at a time.")])
    parts = {"": table} if by is None else dict(tuple(table.groupby(by, sort=False)))
    numbers = {name: i for i, name in enumerate(dict.fromkeys(table["method"]), start=1)}
    with our_style():
        panels = _panels(len(parts), len(xs)) if ax is None else np.array([[ax]])
        for line, name in zip(panels, parts, strict=True):
            for panel, (column, words) in zip(line, xs.items(), strict=True):
                _axes(panel, table, column, words, log=column in logarithmic)
            label = f"{plain(y)}, percent"
            line[0].set_ylabel(f"{plain(str(name))}\n{label}" if by else label)
        _key(panels[0, 0], list(numbers), own=ax is None)
        add_title(panels[0, 0], title, own=ax is None)
        if ax is None:
            settle(figure_of(panels[0, 0]))
        for line, part in zip(panels, parts.values(), strict=True):
            for panel, column in zip(line, xs, strict=True):
                _draw(panel, part, (column, y), numbers, own)
        return figure_of(panels[0, 0])


def _panels(rows: int, columns: int) -> NDArray[Any]:
    figure = new_figure(3.2 * columns + 1.7, 3.2 * rows + 0.2, layout="constrained")
    panels: NDArray[Any] = figure.subplots(rows, columns, sharex="col", sharey=True, squeeze=False)
    return panels


def _axes(ax: Axes, table: pd.DataFrame, x: str, words: str, *, log: bool) -> None:
    """Limits and scale of a panel, the same for all panels of a figure."""
    spec = ax.get_subplotspec()
    if spec is None or spec.is_last_row():
        ax.set_xlabel(plain(words))
    known = table.loc[table[x].notna() & ((table[x] > 0) | (not log)), x].to_numpy(float)
    low, high = (known.min(), known.max()) if len(known) else (1.0, 2.0)
    if log:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        ax.xaxis.set_minor_locator(NullLocator())
        edge = max((high / low) ** 0.1, 1.2)
        ax.set_xlim(low / edge, high * edge)
    else:
        edge = max((high - low) * 0.1, 0.1)
        ax.set_xlim(low - edge, high + edge)
    ax.set_ylim(LOWEST, HIGHEST)
    ax.set_yticks(range(0, 101, 20))


def _draw(
    ax: Axes, table: pd.DataFrame, columns: tuple[str, str], numbers: Mapping[str, int], own: Sequence[str]
) -> None:
    known = table[table[list(columns)].notna().all(axis=1)]
    if ax.get_xscale() == "log":
        known = known[known[columns[0]] > 0]
    names = known["method"].tolist()
    numbered(ax, known[list(columns)].to_numpy(float), [numbers[n] for n in names], [n in own for n in names])


def _key(ax: Axes, names: Sequence[str], *, own: bool) -> None:
    """Right of the panels on a figure of our own; in the axes on one that is not."""
    lines = [f"{i}  {shortened(str(name), 22)}" for i, name in enumerate(names, start=1)]
    nothing = [Line2D([], [], linestyle="") for _ in lines]
    look: dict[str, Any] = {"handlelength": 0, "handletextpad": 0, "fontsize": 8}
    if own:
        figure_of(ax).legend(nothing, lines, loc="outside right upper", **look)
    else:
        ax.legend(nothing, lines, loc="best", **look, **BEHIND)
