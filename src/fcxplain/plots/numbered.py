"""Numbered points: a dot where each belongs, and its number beside it where it hides neither dot nor number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from .style import figure_of

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
