"""How pictures look: colours that everyone can tell apart, safe text, key and title; and how they are saved."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Sequence
from functools import cache, partial
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.textpath import text_to_path
from numpy.typing import ArrayLike

from ..errors import DataError, Fault
from ..files import write_whole

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
MISSING_LETTER = "Glyph .* missing from font"

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


# Our settings within, the user's again after; also a decorator of what draws.
our_style = partial(style.context, ["default", SETTINGS])


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


LONGEST_LINE, MOST_LINES = 22, 3
LEADING = 1.2
"""From one line of text to the next, in units of the font's size."""
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def plain(text: object) -> str:
    """Text that every format can hold: what cannot be printed becomes a replacement character, a break a space."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def name_lines(name: str) -> list[str]:
    """A name in lines of much the same length, broken after a sign where one is near; too long, it loses its middle."""
    text = shortened(name, LONGEST_LINE * MOST_LINES)
    words = re.findall(rf"[^\W_]{{1,{LONGEST_LINE}}}[\W_]?|[\W_]", text)
    fewest = len(_filled(words, LONGEST_LINE))
    widths = range(len(text) // fewest, LONGEST_LINE + 1)
    return next(lines for lines in (_filled(words, width) for width in widths) if len(lines) <= fewest)


def _filled(words: list[str], width: int) -> list[str]:
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) > width:
            lines.append(word)
        else:
            lines[-1] += word
    return lines


def shortened(name: object, longest: int) -> str:
    """A name as plain text; if it is too long, without its middle; if it is blank, in quotes."""
    text = plain(name) if str(name).strip() else repr(str(name))
    if len(text) <= longest:
        return text
    tail = longest // 3
    return text[: longest - tail - 1] + ELLIPSIS + text[-tail:]


def sentence_lines(text: str, size: float, width: float) -> list[str]:
    """A title in lines of about this width, in points."""
    letters = max(20, int(width / text_width("n", size)))
    return textwrap.wrap(plain(text), letters) or [""]


def text_width(text: str, size: float) -> float:
    """How wide a line is, in points. Letters that our font lacks count as wide ones: some other font will have them."""
    known = "".join(c if ord(c) in _letters() else "W" for c in text)
    width, _, _ = text_to_path.get_text_width_height_descent(known, FontProperties(family=FONT, size=size), False)
    return float(width)


@cache
def _letters() -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties(family=FONT))).get_charmap())


ACROSS = 3
"""So many panels stand side by side."""
PER_PANEL = 3
BESIDE = 52.0
"""What an entry of a key needs beside its words, in points."""
BEHIND: dict[str, Any] = {"frameon": True, "facecolor": "white", "framealpha": 0.85, "edgecolor": "none"}
"""So that a key can be read where it has to stand on what is drawn."""


def line_look(number: int) -> dict[str, Any]:
    """How the line of a series is drawn."""
    i = number % len(COLOURS)
    return {"color": COLOURS[i], "linestyle": STROKES[i], "marker": MARKERS[i]}


def fill_look(number: int) -> dict[str, Any]:
    """How the bars of a series are drawn."""
    i = number % len(FILLS)
    return {"facecolor": FILLS[i], "hatch": HATCHES[i], "edgecolor": "black", "linewidth": 0.7}


def name_rows(ax: Axes, places: ArrayLike, names: Sequence[str], ends: tuple[float, float]) -> None:
    """Write names beside rows, without ticks and lines."""
    ax.set_yticks(np.asarray(places), names)
    ax.set_ylim(*ends)
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")


def panels_of(ax: Axes | None, width: float, height: float, *, count: int = 1, margin: float = 0.0) -> list[Axes]:
    """The user's axes, or panels on a figure of our own; a single one is so wide, and each row so high."""
    if ax is not None:
        return [ax]
    across = min(count, ACROSS)
    down = ceil(count / across)
    figure = new_figure(width if across == 1 else 3.3 * across, height * down + margin, layout="constrained")
    return [figure.add_subplot(down, across, i + 1) for i in range(count)]


def finished(
    panels: Sequence[Axes], key: Sequence[tuple[Artist, str]], title: str | None, *, ax: Axes | None
) -> Figure:
    """The figure, with key and title: around the panels on a figure of our own, else in the user's axes."""
    figure, own = figure_of(panels[0]), ax is None
    handles, labels = [handle for handle, _ in key], [label for _, label in key]
    if key and own:
        columns = min(len(key), PER_PANEL * len(panels), _columns(labels, figure.get_size_inches()[0]))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, handlelength=3)
    elif key:
        panels[0].legend(handles, labels, loc="best", handlelength=3, **BEHIND)
    if title and own:
        figure.suptitle(plain(title), fontsize=11)
    elif title:
        panels[0].set_title(plain(title))
    if own:
        settle(figure)
    return figure


def _columns(labels: Sequence[str], inches: float) -> int:
    """How many entries fit side by side: all of them, or so many of the widest."""
    widths = [text_width(label, SETTINGS["legend.fontsize"]) + BESIDE for label in labels]
    return len(labels) if sum(widths) <= 72 * inches else max(1, int(72 * inches / max(widths)))


def settle(figure: Figure) -> None:
    """Find room for everything once and for all: to do it again at each drawing would move things by a hair."""
    with warnings.catch_warnings():
        # Whether letters are missing matters when a file is written, not here.
        warnings.filterwarnings("ignore", message=MISSING_LETTER, category=UserWarning)
        figure.draw_without_rendering()
    figure.set_layout_engine("none")


# No dates and no versions, so that the same picture is the same file.
METADATA: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None, "Creator": "fcxplain"},
    ".png": {"Software": "fcxplain"},
    ".pdf": {"CreationDate": None, "Creator": "fcxplain", "Producer": "fcxplain"},
}


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format that the name ends in.

    Parameters
    ----------
    figure
        What any function of `fcxplain.plots` returned.
    path
        A file name that ends in .svg (text stays text), .png (200 dpi) or .pdf.

    Raises
    ------
    DataError
        If the name has another ending, or the file cannot be written.
    """
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in METADATA:
        problem = f"ends in {target.suffix!r:.20}, which is not a format of ours" if kind else "has no ending"
        raise DataError("picture", [Fault(str(path), problem, f"End it in {', '.join(METADATA)}.")])
    buffer = io.BytesIO()
    with our_style(), warnings.catch_warnings():
        if kind == ".svg":
            # The text is kept, and who shows it has other fonts than ours.
            warnings.filterwarnings("ignore", message=MISSING_LETTER, category=UserWarning)
        figure.savefig(buffer, format=kind[1:], metadata=METADATA[kind])
    try:
        write_whole(target, buffer.getvalue())
    except (OSError, ValueError) as error:
        raise DataError(f"cannot write the picture {path}: {error}") from error
