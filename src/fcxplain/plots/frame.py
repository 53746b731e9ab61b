"""What stands around a picture: its key and its title, on a figure of ours or in axes of the user's."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .lettering import plain, text_width
from .style import SETTINGS, figure_of

PER_PANEL = 3
BESIDE = 52.0
"""What an entry of a key needs beside its words, in points."""
BEHIND: dict[str, Any] = {"frameon": True, "facecolor": "white", "framealpha": 0.85, "edgecolor": "none"}
"""So that a key can be read where it has to stand on what is drawn."""


def add_key(panels: Sequence[Axes], key: Sequence[tuple[Artist, str]], *, own: bool) -> None:
    """Below the panels on a figure of our own; in the axes on one that is not."""
    handles, labels = [handle for handle, _ in key], [label for _, label in key]
    if key and own:
        figure = figure_of(panels[0])
        columns = min(len(key), PER_PANEL * len(panels), _columns(labels, figure.get_size_inches()[0]))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, handlelength=3)
    elif key:
        panels[0].legend(handles, labels, loc="best", handlelength=3, **BEHIND)


def _columns(labels: Sequence[str], inches: float) -> int:
    """How many entries fit side by side: all of them, or so many of the widest."""
    widths = [text_width(label, SETTINGS["legend.fontsize"]) + BESIDE for label in labels]
    return len(labels) if sum(widths) <= 72 * inches else max(1, int(72 * inches / max(widths)))


def add_title(ax: Axes, title: str | None, *, own: bool) -> None:
    """Above the whole on a figure of our own; above the axes on one that is not."""
    if title and own:
        figure_of(ax).suptitle(plain(title), fontsize=11)
    elif title:
        ax.set_title(plain(title))


def settle(figure: Figure) -> None:
    """Find room for everything once and for all: to do it again at each drawing would move things by a hair."""
    with warnings.catch_warnings():
        # Whether letters are missing matters when a file is written, not here.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        figure.draw_without_rendering()
    figure.set_layout_engine("none")
