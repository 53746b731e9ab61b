"""How pictures look: colours that everyone can tell apart, strokes that survive black and white, text as text.

Pictures are drawn in a style of their own, whatever the user's settings are, and leave those settings alone.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..errors import DataError

# Okabe & Ito (2008), the ones that are dark enough for a line on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
STROKES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# White first: a bar that is hatched on white, and one that is filled, differ in every print.
FILLS = ("#FFFFFF", "#56B4E9", "#E69F00", "#F0E442", "#CC79A7", "#009E73", "#BBBBBB")
HATCHES = ("////", "", "....", "xxxx", "----", "\\\\\\\\", "++")
QUIET = "#6B6B6B"
FONT = "DejaVu Sans"
SCREEN = 110
"""Dots per inch in a notebook."""

# The keys' type is a closed list that differs from release to release.
SETTINGS: Any = {
    "font.family": "sans-serif",
    # matplotlib brings the first; who shows an SVG without it takes the next, which is as wide.
    "font.sans-serif": [FONT, "Verdana", "Bitstream Vera Sans"],
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.6,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "savefig.dpi": 200,
    # Names of features are text, never formulas; in an SVG they can be searched and read aloud.
    "text.usetex": False,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "fcxplain",
}


@contextmanager
def our_style() -> Iterator[None]:
    """Our settings within, the user's again after."""
    with style.context(["default", SETTINGS]):
        yield


class Picture(Figure):
    """A figure that a notebook shows by itself, although pyplot does not know of it."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with our_style():
            self.savefig(buffer, format="png", dpi=SCREEN)
        return buffer.getvalue()


def new_figure(width: float, height: float, **settings: Any) -> Figure:
    """A figure of so many inches that pyplot does not know of."""
    figure = Picture(figsize=(width, height), **settings)
    FigureCanvasAgg(figure)
    return figure


def figure_of(ax: Axes) -> Figure:
    """The whole figure that axes stand in."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise DataError("ax stands in no figure: it was removed from its own")
    return figure
