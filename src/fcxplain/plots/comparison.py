"""Comparisons of methods: bars, and numbered points of success against effort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator
from numpy.typing import NDArray

from ..errors import DataError, Fault, did_you_mean
from .style import BEHIND, figure_of, fill_look, finished, name_rows, new_figure, our_style, panels_of, plain, shortened


def figures_in(table: pd.DataFrame, columns: Sequence[str], figure: str) -> pd.DataFrame:
    """The lines of a table with a value; raises an error if columns or all values are missing."""
    needed, absent = f"The table needs {', '.join(columns)}.", [name for name in columns if name not in table]
    faults = [Fault(f"column {n!r}", "is missing", did_you_mean(n, table.columns) or needed) for n in absent]
    if not faults and table[figure].isna().all():
        faults = [Fault(f"column {figure!r}", "has no values")]
    if faults:
        raise DataError("nothing can be drawn", faults)
    return table[table[figure].notna()]


THICKNESS, BETWEEN, HEADING = 0.17, 0.12, 0.28
"""The height of a bar, of the space between items, and of a heading, in inches, the units of the vertical axis."""


@our_style()
def bars(table: pd.DataFrame, *, x: str, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw horizontal bars: one per item and series, hatched and filled so that prints need no colour.

    Parameters
    ----------
    table
        One line per bar, with the columns `item`, `series` (the source, such as paper and ours), `mean` and
        `deviation`; items of a `group` (such as a data set) get a heading. The order is that of the table; a missing
        value has no bar.
    x
        The label of the axis.
    ax, title
        Your own axes, and a title.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        If a column is missing, or no line has a value.

    Examples
    --------
    >>> import pandas as pd
    >>> from fcxplain import plots
    >>> table = pd.DataFrame({"item": ["A", "B"], "series": "ours", "mean": [90.0, 70.0], "deviation": [1.0, 2.0]})
    >>> figure = plots.bars(table, x="verified, per cent")
    """
    means = figures_in(table, ("item", "series", "mean", "deviation"), "mean")
    means = means if "group" in means else means.assign(group="")
    series = list(dict.fromkeys(means["series"]))
    rows, height = _rows(means, len(series))
    (panel,) = panels_of(ax, 6.4, height + 1.1)
    for number, source in enumerate(series):
        _draw_series(panel, means[means["series"] == source], rows, number, len(series))
    _set_limits(panel, means)
    names = [shortened(group if item is None else item, 40) for group, item in rows]
    name_rows(panel, list(rows.values()), names, (-height - BETWEEN / 2, BETWEEN / 2))
    for label, (_, item) in zip(panel.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if item is None else "normal")
    panel.set_xlabel(plain(x))
    key = [(Patch(**fill_look(i)), plain(name)) for i, name in enumerate(series)]
    return finished([panel], key if len(key) > 1 else [], title, ax=ax)


def _rows(means: pd.DataFrame, thick: int) -> tuple[dict[tuple[Any, Any], float], float]:
    """The middle of each row by group and item (none for a heading), from the top down; and how high all are."""
    rows, y, item_height = {}, 0.0, thick * THICKNESS + BETWEEN
    for group, part in means.groupby("group", sort=False, dropna=False):
        if group != "":
            rows[group, None] = y - HEADING / 2
            y -= HEADING
        for item in dict.fromkeys(part["item"]):
            rows[group, item] = y - item_height / 2
            y -= item_height
    return rows, -y


def _draw_series(
    ax: Axes, figures: pd.DataFrame, rows: Mapping[tuple[Any, Any], float], number: int, count: int
) -> None:
    shift = ((count - 1) / 2 - number) * THICKNESS
    y = np.array([rows[key] + shift for key in zip(figures["group"], figures["item"], strict=True)])
    mean, deviation = figures["mean"].to_numpy(), figures["deviation"].to_numpy()
    ax.barh(y, mean, height=THICKNESS * 0.88, zorder=2, **fill_look(number))
    known = ~np.isnan(deviation)
    if known.any():
        ax.errorbar(mean[known], y[known], xerr=deviation[known], fmt="none", ecolor="black", capsize=2)
    for at, middle, spread in zip(y, mean, deviation, strict=True):
        # The number goes after the end of its bar.
        text = _written(middle, 3) + ("" if np.isnan(spread) else f" ± {_written(spread, 2)}")
        side, align = (1, "left") if middle >= 0 else (-1, "right")
        end = (middle + side * np.nan_to_num(spread), at)
        ax.annotate(text, end, (4 * side, 0), textcoords="offset points", fontsize=7, va="center", ha=align)


def _written(number: float, digits: int) -> str:
    text = f"{number:,.0f}" if abs(number) >= 100 else f"{number:.{digits}g}"
    return text.replace("-", "\N{MINUS SIGN}")


def _set_limits(ax: Axes, means: pd.DataFrame) -> None:
    deviation = means["deviation"].fillna(0.0)
    low, high = float((means["mean"] - deviation).min()), float((means["mean"] + deviation).max())
    # Space for the numbers after the bars.
    room = 0.17 * (max(high, 0.0) - min(low, 0.0) or 1.0)
    ax.set_xlim(min(low, 0.0) - (room if low < 0 else 0.0), max(high, 0.0) + (room if high > 0 else 0.0))


Floats = NDArray[np.float64]
# In points: half a number, half a dot, distances that a number may have from its dot, and the panel's edge.
NUMBER, DOT, AWAY, EDGE = 6.0, 3.0, (9.0, 15.0, 22.0, 30.0, 40.0, 52.0), 4.0
ANGLES = np.deg2rad(np.arange(90, 450, 15))


def numbered(ax: Axes, places: Floats, numbers: Sequence[int], filled: Sequence[bool]) -> None:
    """Draw numbered points at places in data units, `n x 2`; the axes must have their limits and scales."""
    points = 72 / figure_of(ax).dpi
    at = ax.transData.transform(places) * points if len(places) else places
    frame = ax.get_window_extent().get_points() * points
    for (x, y), number, own, (left, up) in zip(places, numbers, filled, _offsets(at, frame), strict=True):
        ax.plot(x, y, "o", ms=2 * DOT, mfc="black" if own else "white", mec="black", mew=0.8)
        line = {"arrowstyle": "-", "lw": 0.5, "shrinkA": 0, "shrinkB": DOT}
        ax.annotate(
            str(number), (x, y), (left, up), textcoords="offset points", ha="center", va="center", fontsize=7,
            fontweight="bold" if own else "normal", arrowprops=line,
            bbox={"boxstyle": "circle,pad=0.15", "fc": "white", "ec": "none"},
        )  # fmt: skip


def _offsets(at: Floats, frame: Floats) -> Floats:
    """The offset of each number from its dot, in points; the most crowded dots are placed first."""
    found, taken = np.zeros_like(at), np.empty((0, 2))
    crowd = (np.linalg.norm(at[:, None] - at, axis=2) < AWAY[2]).sum(axis=1) if len(at) else np.empty(0)
    for i in np.lexsort((at[:, 0], -crowd)) if len(at) else ():
        found[i] = _offset(at, int(i), taken, frame)
        taken = np.vstack([taken, at[i] + found[i]])
    return found


def _offset(at: Floats, i: int, taken: Floats, frame: Floats) -> Floats:
    """The nearest free offset, or else the best one."""
    tried = np.array([(r * np.cos(a), r * np.sin(a)) for r, a in product(AWAY, ANGLES)])
    spots = at[i] + tried
    from_numbers = np.linalg.norm(spots[:, None] - taken, axis=2).min(axis=1, initial=np.inf)
    from_dots = np.linalg.norm(spots[:, None] - at, axis=2).min(axis=1)
    inside = ((spots > frame[0] + EDGE) & (spots < frame[1] - EDGE)).all(axis=1)
    room = np.minimum(from_numbers / (2 * NUMBER), from_dots / (NUMBER + DOT)) - 10 * ~inside
    free = np.flatnonzero(room >= 1)
    return np.asarray(tried[free[0] if len(free) else room.argmax()])


# Space for numbers above 100 per cent.
LOWEST, HIGHEST = -6, 114


@our_style()
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
    """Draw a numbered point for each method, `y` (in per cent) against other measures, with a key.

    Parameters
    ----------
    table
        One line per method with the columns `method`, `y` and those of `xs`; a point without a value is left out.
    y
        The column of the vertical axis.
    xs
        Columns of the horizontal axes and their labels: one panel each.
    by
        A column whose values each get a row of panels; a method has the same number in all.
    logarithmic
        Columns of `xs` with a logarithmic axis.
    own
        Methods that are drawn filled.
    ax
        Your own axes, for one column in `xs`.
    title
        The title of the figure.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        If a column is missing, or `ax` is given for several panels.

    Examples
    --------
    >>> import pandas as pd
    >>> from fcxplain import plots
    >>> table = pd.DataFrame({"method": ["A", "B"], "success": [90.0, 70.0], "sparsity": [2.0, 3.0]})
    >>> figure = plots.trade_off(table, y="success", xs={"sparsity": "features changed"}, own=["A"])
    """
    figures_in(table, ("method", y, *xs, *([by] if by else [])), y)
    if ax is not None and (len(xs) != 1 or by is not None):
        raise DataError("", [Fault("ax", f"is one axis for {len(xs)} panels", "Leave it out, or draw one at a time.")])
    parts = {"": table} if by is None else dict(tuple(table.groupby(by, sort=False)))
    numbers = {name: i for i, name in enumerate(dict.fromkeys(table["method"]), start=1)}
    if ax is None:
        own_figure = new_figure(3.2 * len(xs) + 1.7, 3.2 * len(parts) + 0.2, layout="constrained")
        panels = own_figure.subplots(len(parts), len(xs), sharex="col", sharey=True, squeeze=False)
    else:
        panels = np.array([[ax]])
    for line, name in zip(panels, parts, strict=True):
        for panel, (column, words) in zip(line, xs.items(), strict=True):
            _axes(panel, table, column, words, log=column in logarithmic)
        label = f"{plain(y)}, percent"
        line[0].set_ylabel(f"{plain(str(name))}\n{label}" if by else label)
    _add_names(panels[0, 0], list(numbers), own=ax is None)
    figure = finished(panels[0], [], title, ax=ax)
    for line, part in zip(panels, parts.values(), strict=True):
        for panel, column in zip(line, xs, strict=True):
            _draw(panel, part, (column, y), numbers, own)
    return figure


def _axes(ax: Axes, table: pd.DataFrame, x: str, words: str, *, log: bool) -> None:
    """Set the limits and scale of a panel, the same for all panels of a figure."""
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


def _add_names(ax: Axes, names: Sequence[str], *, own: bool) -> None:
    """Add the key: right of the panels on our own figure, inside the user's axes otherwise."""
    lines = [f"{i}  {shortened(str(name), 22)}" for i, name in enumerate(names, start=1)]
    nothing = [Line2D([], [], linestyle="") for _ in lines]
    look: dict[str, Any] = {"handlelength": 0, "handletextpad": 0, "fontsize": 8}
    if own:
        figure_of(ax).legend(nothing, lines, loc="outside right upper", **look)
    else:
        ax.legend(nothing, lines, loc="best", **look, **BEHIND)
