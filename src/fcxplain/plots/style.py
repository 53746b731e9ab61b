"""The style of plots: colours for all readers, safe text, key and title; and how to save them."""

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

# Okabe & Ito (2008), those dark enough for a line on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
STROKES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# White first: bars that are hatched on white and filled bars differ in any print.
FILLS = ("#FFFFFF", "#56B4E9", "#E69F00", "#F0E442", "#CC79A7", "#009E73", "#BBBBBB")
HATCHES = ("////", "", "....", "xxxx", "----", "\\\\\\\\", "++")
QUIET = "#6B6B6B"
FONT = "DejaVu Sans"
SCREEN = 110
"""Dots per inch in a notebook."""
MISSING_LETTER = "Glyph .* missing from font"

# Any, since the type of the keys differs between releases of matplotlib.
SETTINGS: Any = {
    "font.family": "sans-serif",
    # matplotlib ships the first; viewers of an SVG without it use the next, which is equally wide.
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
    # Feature names are text, never formulas; in an SVG they stay searchable and readable by screen readers.
    "text.usetex": False,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "fcxplain",
}


# A context manager and decorator: our settings inside, the user's again afterwards.
our_style = partial(style.context, ["default", SETTINGS])


class Picture(Figure):
    """A figure that notebooks display although pyplot does not know it."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with our_style():
            self.savefig(buffer, format="png", dpi=SCREEN)
        return buffer.getvalue()


def new_figure(width: float, height: float, **settings: Any) -> Figure:
    """A figure of this size in inches, unknown to pyplot."""
    figure = Picture(figsize=(width, height), **settings)
    FigureCanvasAgg(figure)
    return figure


def figure_of(ax: Axes) -> Figure:
    """The figure of some axes."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise DataError("ax has no figure: it was removed from its figure")
    return figure


LONGEST_LINE, MOST_LINES = 22, 3
LEADING = 1.2
"""The line spacing, in units of the font size."""
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def plain(text: object) -> str:
    """Text that every format can hold: unprintable characters are replaced, line breaks become spaces."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def name_lines(name: str) -> list[str]:
    """A name in lines of similar length, broken after punctuation if possible; shortened in the middle if too long."""
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
    """A name as plain text, shortened in the middle if too long, quoted if blank."""
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
    """The width of a line, in points. Characters that our font lacks count as wide: another font will supply them."""
    known = "".join(c if ord(c) in _letters() else "W" for c in text)
    width, _, _ = text_to_path.get_text_width_height_descent(known, FontProperties(family=FONT, size=size), False)
    return float(width)


@cache
def _letters() -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties(family=FONT))).get_charmap())


ACROSS = 3
"""The maximum number of panels in a row."""
PER_PANEL = 3
BESIDE = 52.0
"""The space that an entry of a key needs in addition to its text, in points."""
BEHIND: dict[str, Any] = {"frameon": True, "facecolor": "white", "framealpha": 0.85, "edgecolor": "none"}
"""A background for a key that covers part of the drawing."""


def line_look(number: int) -> dict[str, Any]:
    """The style of a series' line."""
    i = number % len(COLOURS)
    return {"color": COLOURS[i], "linestyle": STROKES[i], "marker": MARKERS[i]}


def fill_look(number: int) -> dict[str, Any]:
    """The style of a series' bars."""
    i = number % len(FILLS)
    return {"facecolor": FILLS[i], "hatch": HATCHES[i], "edgecolor": "black", "linewidth": 0.7}


def name_rows(ax: Axes, places: ArrayLike, names: Sequence[str], ends: tuple[float, float]) -> None:
    """Label rows with names, without ticks and grid lines."""
    ax.set_yticks(np.asarray(places), names)
    ax.set_ylim(*ends)
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")


def panels_of(ax: Axes | None, width: float, height: float, *, count: int = 1, margin: float = 0.0) -> list[Axes]:
    """The user's axes, or panels on a new figure: `width` of a single panel, `height` of each row."""
    if ax is not None:
        return [ax]
    across = min(count, ACROSS)
    down = ceil(count / across)
    figure = new_figure(width if across == 1 else 3.3 * across, height * down + margin, layout="constrained")
    return [figure.add_subplot(down, across, i + 1) for i in range(count)]


def finished(
    panels: Sequence[Axes], key: Sequence[tuple[Artist, str]], title: str | None, *, ax: Axes | None
) -> Figure:
    """The figure with key and title: around the panels on our own figure, inside the user's axes otherwise."""
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
    """The number of entries that fit side by side: all, or as many of the widest."""
    widths = [text_width(label, SETTINGS["legend.fontsize"]) + BESIDE for label in labels]
    return len(labels) if sum(widths) <= 72 * inches else max(1, int(72 * inches / max(widths)))


def settle(figure: Figure) -> None:
    """Compute the layout once: repeating it for each drawing would shift things slightly."""
    with warnings.catch_warnings():
        # Missing glyphs matter when a file is written, not here.
        warnings.filterwarnings("ignore", message=MISSING_LETTER, category=UserWarning)
        figure.draw_without_rendering()
    figure.set_layout_engine("none")


# No dates and versions, so that the same plot gives the same file.
METADATA: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None, "Creator": "fcxplain"},
    ".png": {"Software": "fcxplain"},
    ".pdf": {"CreationDate": None, "Creator": "fcxplain", "Producer": "fcxplain"},
}


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format of the file name.

    Parameters
    ----------
    figure
        The result of any function of `fcxplain.plots`.
    path
        A file name that ends in .svg (text stays text), .png (200 dpi) or .pdf.

    Raises
    ------
    DataError
        If the name has another extension, or the file cannot be written.

    Examples
    --------
    >>> from fcxplain import plots
    >>> plots.save(plots.change_frequencies(fcx.explain(rows)), "changes.svg")  # doctest: +SKIP
    """
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in METADATA:
        problem = f"has the unknown extension {target.suffix!r:.20}" if kind else "has no extension"
        raise DataError("plot", [Fault(str(path), problem, f"Use {', '.join(METADATA)}.")])
    buffer = io.BytesIO()
    with our_style(), warnings.catch_warnings():
        if kind == ".svg":
            # The text is kept, and viewers have other fonts.
            warnings.filterwarnings("ignore", message=MISSING_LETTER, category=UserWarning)
        figure.savefig(buffer, format=kind[1:], metadata=METADATA[kind])
    try:
        write_whole(target, buffer.getvalue())
    except (OSError, ValueError) as error:
        raise DataError(f"cannot write the plot {path}: {error}") from error
