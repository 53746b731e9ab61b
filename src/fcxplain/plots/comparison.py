"""Methods and sources beside each other: bars of figures, and numbered points of success against effort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import isnan
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from ..errors import DataError, Fault, did_you_mean, some
from .style import (
    BEHIND,
    FILLS,
    HATCHES,
    add_key,
    add_title,
    figure_of,
    new_figure,
    our_style,
    plain,
    settle,
    shortened,
)


def averaged(table: pd.DataFrame, keys: Sequence[str], optional: Sequence[str], what: str) -> pd.DataFrame:
    """One line per key, in the order of their first lines, with `mean` and `deviation`; missing figures are left out.

    Keys that are `optional` may be missing from the table, and are empty text then. One seed has no deviation.
    """
    if not isinstance(table, pd.DataFrame):
        raise DataError(f"{what} is a {type(table).__name__}, not a DataFrame in long form")
    numbers = ["value"] if "value" in table else ["mean", "deviation"]
    _check(table, keys, numbers, what)
    own = table.assign(**{name: "" for name in optional if name not in table})
    by = [*keys, *optional]
    own = own[own[numbers[0]].notna()]
    if numbers == ["value"]:
        found = own.groupby(by, sort=False, dropna=False)["value"].agg(mean="mean", deviation="std").reset_index()
    else:
        found = own.reindex(columns=[*by, *numbers])
        twice = found[found.duplicated(by)][by].itertuples(index=False, name=None)
        faults = [Fault(f"{what}, {some(key)}", "stands in two lines", "Give one mean, or `value`.") for key in twice]
        if faults:
            raise DataError("", faults)
    return found.astype({"mean": float, "deviation": float})


def _check(table: pd.DataFrame, keys: Sequence[str], numbers: Sequence[str], what: str) -> None:
    faults = [
        Fault(f"{what}, column {name!r}", "is missing", did_you_mean(name, table.columns) or _form(keys))
        for name in (*keys, numbers[0])
        if name not in table
    ]
    for name in numbers:
        if name in table and not pd.api.types.is_numeric_dtype(table[name]):
            faults.append(Fault(f"{what}, column {name!r}", f"holds {table[name].dtype}, not numbers"))
    if not faults and table[numbers[0]].notna().sum() == 0:
        faults.append(Fault(what, "has no figures"))
    if faults:
        raise DataError("nothing can be drawn", faults)


def _form(keys: Sequence[str]) -> str:
    return f"Needed are {', '.join(keys)}, and value, or mean and deviation."


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


Floats = NDArray[np.float64]
# In points: half a number, half a dot, how far away numbers may stand, and the panel's edge.
NUMBER, DOT, AWAY, EDGE = 6.0, 3.0, (9.0, 15.0, 22.0, 30.0, 40.0, 52.0), 4.0
ANGLES = np.deg2rad(np.arange(90, 450, 15))


def numbered(ax: Axes, places: Floats, numbers: Sequence[int], filled: Sequence[bool]) -> None:
    """Draw points at places in data units, `n x 2`; the axes must have their limits and their scales by now."""
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
    """Where each number stands from its dot, all in points; the most crowded dots choose first."""
    found, taken = np.zeros_like(at), np.empty((0, 2))
    crowd = (np.linalg.norm(at[:, None] - at, axis=2) < AWAY[2]).sum(axis=1) if len(at) else np.empty(0)
    for i in np.lexsort((at[:, 0], -crowd)) if len(at) else ():
        found[i] = _offset(at, int(i), taken, frame)
        taken = np.vstack([taken, at[i] + found[i]])
    return found


def _offset(at: Floats, i: int, taken: Floats, frame: Floats) -> Floats:
    """The nearest place that is free, or else the least bad one."""
    tried = np.array([(r * np.cos(a), r * np.sin(a)) for r, a in product(AWAY, ANGLES)])
    spots = at[i] + tried
    from_numbers = np.linalg.norm(spots[:, None] - taken, axis=2).min(axis=1, initial=np.inf)
    from_dots = np.linalg.norm(spots[:, None] - at, axis=2).min(axis=1)
    inside = ((spots > frame[0] + EDGE) & (spots < frame[1] - EDGE)).all(axis=1)
    room = np.minimum(from_numbers / (2 * NUMBER), from_dots / (NUMBER + DOT)) - 10 * ~inside
    free = np.flatnonzero(room >= 1)
    return np.asarray(tried[free[0] if len(free) else room.argmax()])


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
