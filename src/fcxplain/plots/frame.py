"""What stands around a picture: its key and its title, on a figure of ours or in axes of the user's."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .lettering import plain
from .style import figure_of

PER_PANEL = 3


def add_key(panels: Sequence[Axes], key: Sequence[tuple[Artist, str]], *, own: bool) -> None:
    """Below the panels on a figure of our own; in the axes on one that is not."""
    handles, labels = [handle for handle, _ in key], [label for _, label in key]
    if key and own:
        columns = min(len(key), PER_PANEL * len(panels))
        figure_of(panels[0]).legend(handles, labels, loc="outside lower center", ncols=columns, handlelength=3)
    elif key:
        panels[0].legend(handles, labels, loc="best", handlelength=3)


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
