"""Draw a causal graph: causes above effects, edges with more support darker and thicker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, PathPatch
from matplotlib.path import Path

from ..causal import CausalGraph
from .layout import NodeBox, Pair, Placement, Route, Size, place
from .style import COLOURS, LEADING, QUIET, figure_of, name_lines, new_figure, our_style, sentence_lines, text_width

NAME, LABEL, TITLE, KEY = 9.0, 6.5, 11.0, 7.5
"""Font sizes in points, like all sizes here."""
PADDING, MARGIN = (7.0, 4.0), 12.0
NARROWEST = 30.0
ROUND = 4.0
HALO = 1.2
LABEL_BOX = {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"}
LABEL_LOOK: dict[str, Any] = {"color": "#262626", "ha": "center", "va": "center", "bbox": LABEL_BOX, "zorder": 2.5}
LABELLED = 250
"""Above this number of edges, labels would fill the page and are left out."""
STEEPEST = 1.0
BEND = 1 / 3


@our_style()
def causal_graph(graph: CausalGraph, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw a causal graph, causes above effects; features without edges are in grey at the bottom.

    An arrow goes from cause to effect; a plain line connects features whose direction is unknown. Edges with more
    support are darker and thicker, with a label in per cent (up to 250 edges). Names longer than 22 characters are
    wrapped, and shortened in the middle beyond three lines.

    The figure is as large as the graph needs at a font size of 9 points.

    Parameters
    ----------
    graph
        The graph, from `discover` or `CausalGraph`.
    ax
        Your own axes. The drawing, text included, is scaled down to their current size, so set that first.
    title
        The title of the figure.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        If the graph has too many edges to be readable.

    Examples
    --------
    >>> from fcxplain import CausalGraph, plots
    >>> graph = CausalGraph(("age", "job", "income"), directed=(("age", "income"), ("job", "income")))
    >>> figure = plots.causal_graph(graph, title="Causes of income")
    """
    plan = _planned(graph, title)
    width, height = plan.size
    pen = _within(ax or new_figure(width / 72, height / 72).add_axes((0, 0, 1, 1)), plan)
    for edge, route in plan.placement.routes.items():
        share = plan.support.get(edge)
        _draw_line(pen, curve(route), 1.0 if share is None else share, arrow=edge in plan.arrows)
        if share is not None and route.label is not None:
            x, y = route.label.tolist()
            pen.ax.text(x, y, f"{100 * share:.0f} %", fontsize=LABEL * pen.scale, **LABEL_LOOK)
    joined = {node for edge in plan.placement.routes for node in edge}
    for node, box in plan.placement.boxes.items():
        _draw_node(pen, box, plan.names[node], quiet=node not in joined)
    for i, line in enumerate(plan.title):
        below = (len(plan.title) - i - 0.5) * TITLE * LEADING
        pen.write(pen.centre, plan.placement.height + MARGIN + below, line, TITLE)
    _draw_key(pen, plan.key)
    return figure_of(pen.ax)


@dataclass(frozen=True)
class _Plan:
    """The layout before drawing. `arrows` are the edges with a direction; all edges go down."""

    placement: Placement
    names: list[list[str]]
    arrows: frozenset[Pair]
    support: dict[Pair, float]
    title: list[str]
    key: list[str]

    @property
    def head(self) -> float:
        """The height of the title."""
        return len(self.title) * TITLE * LEADING + MARGIN if self.title else 0.0

    @property
    def foot(self) -> float:
        """The height of the key."""
        return len(self.key) * KEY * LEADING + MARGIN if self.key else 0.0

    @property
    def size(self) -> Size:
        """The total width and height, margins included."""
        texts = [text_width(line, TITLE) for line in self.title] + [text_width(line, KEY) + 30 for line in self.key]
        width = max([self.placement.width, *texts])
        return width + 2 * MARGIN, self.placement.height + self.head + self.foot + 2 * MARGIN


def _planned(graph: CausalGraph, title: str | None) -> _Plan:
    index = {node: i for i, node in enumerate(graph.nodes)}
    down = [(index[a], index[b]) for a, b in graph.dag().directed]
    names = [name_lines(node) for node in graph.nodes]
    shares = {(a, b): graph.support_of(graph.nodes[a], graph.nodes[b]) for a, b in down}
    support = {edge: share for edge, share in shares.items() if share is not None}
    label = (text_width("100 %", LABEL) + 3, LABEL * LEADING + 1) if support and len(down) <= LABELLED else None
    placement = place([_box_size(lines) for lines in names], down, label)
    arrows = frozenset((index[a], index[b]) for a, b in graph.directed)
    heading = sentence_lines(title, TITLE, max(placement.width, 240)) if title else []
    # The key explains plain lines and percentages, if there are any.
    key = ["connected, direction unknown"] * bool(graph.undirected) + ["support of the edge"] * bool(graph.support)
    return _Plan(placement, names, arrows, support, heading, key)


def _box_size(lines: Sequence[str]) -> Size:
    width = max(text_width(line, NAME) for line in lines)
    return max(width + 2 * PADDING[0], NARROWEST), len(lines) * NAME * LEADING + 2 * PADDING[1]


# Pages


@dataclass(frozen=True)
class _Pen:
    """Axes whose units are points, times `scale`."""

    ax: Axes
    scale: float
    centre: float

    def write(self, x: float, y: float, text: str, size: float, colour: str = "black", align: str = "center") -> None:
        """Write a line of text, vertically centred on its lower-case letters."""
        low = y - 0.27 * size
        self.ax.text(x, low, text, fontsize=size * self.scale, color=colour, ha=align, va="baseline", zorder=4)


def _within(ax: Axes, plan: _Plan) -> _Pen:
    """Centre the drawing in the axes, scaled down if necessary, never up."""
    room, dpi = ax.get_window_extent(), figure_of(ax).dpi
    across, up = room.width * 72 / dpi, room.height * 72 / dpi
    width, height = plan.size
    scale = min(1.0, across / width, up / height)
    centre, middle = plan.placement.width / 2, (plan.placement.height + plan.head - plan.foot) / 2
    ax.set_axis_off()
    ax.set_xlim(centre - across / scale / 2, centre + across / scale / 2)
    ax.set_ylim(middle - up / scale / 2, middle + up / scale / 2)
    return _Pen(ax, scale, centre)


# Ink


def _draw_node(pen: _Pen, box: NodeBox, lines: Sequence[str], *, quiet: bool) -> None:
    corner = (box.x - box.width / 2, box.y - box.height / 2)
    face, rim, ink = ("#F4F4F4", "#A8A8A8", QUIET) if quiet else ("#EAF3FA", COLOURS[0], "black")
    look: dict[str, Any] = {"facecolor": face, "edgecolor": rim, "linewidth": 0.9 * pen.scale, "zorder": 3}
    shape = f"round,pad=0,rounding_size={ROUND}"
    pen.ax.add_patch(FancyBboxPatch(corner, box.width, box.height, boxstyle=shape, **look))
    for i, line in enumerate(lines):
        pen.write(box.x, box.y + ((len(lines) - 1) / 2 - i) * NAME * LEADING, line, NAME, ink)


def _draw_line(pen: _Pen, path: Path, share: float, *, arrow: bool) -> None:
    """Draw a line with a white rim, so that crossing lines stay distinct."""
    width, grey = (0.5 + 0.8 * share) * pen.scale, str(round(0.62 - 0.54 * share, 3))
    rim = width + 2 * HALO * pen.scale
    pen.ax.add_patch(PathPatch(path, fill=False, edgecolor="white", linewidth=rim, capstyle="butt", zorder=2))
    style = "-|>,head_length=0.8,head_width=0.32" if arrow else "-"
    shaft = FancyArrowPatch(path=path, arrowstyle=style, mutation_scale=7 * pen.scale, color=grey, linewidth=width)
    shaft.set_zorder(2)
    shaft.set_capstyle("butt")
    shaft.set_joinstyle("miter")
    pen.ax.add_patch(shaft)


def _draw_key(pen: _Pen, key: Sequence[str]) -> None:
    width = max((text_width(line, KEY) for line in key), default=0.0) + 30
    left = pen.centre - width / 2
    for i, line in enumerate(key):
        y = -MARGIN - (i + 0.5) * KEY * LEADING
        if line.startswith("connected"):
            _draw_line(pen, Path([(left, y), (left + 24, y)]), 1.0, arrow=False)
        else:
            pen.write(left + 12, y, "92 %", LABEL, QUIET)
        pen.write(left + 30, y, line, KEY, QUIET, "left")


def curve(route: Route) -> Path:
    """The route's vertical pieces, joined by curves that start vertically and never turn back."""
    pieces, slants = route.pieces.tolist(), _slants(route)
    vertices, codes = list(pieces[0]), [Path.MOVETO, Path.LINETO]
    for (_, (x0, y0)), (end, lower), s0, s1 in zip(pieces, pieces[1:], slants, slants[1:], strict=False):
        reach = BEND * (end[1] - y0)
        vertices += [(x0 + s0 * reach, y0 + reach), (end[0] - s1 * reach, end[1] - reach), end]
        codes += [Path.CURVE4] * 3
        if lower != end:
            vertices.append(lower)
            codes.append(Path.LINETO)
    return Path(vertices, codes)


def _slants(route: Route) -> list[float]:
    """The slope of a curve at each piece, sideways per height: 0 at vertical pieces."""
    pieces = route.pieces.tolist()
    mean = [(c[0] - b[0]) / (c[1] - b[1]) for (_, b), (c, _) in pairwise(pieces)]
    inner = [
        0.0 if top != bottom or before * after <= 0 else max(-STEEPEST, min(STEEPEST, min(before, after, key=abs)))
        for (top, bottom), before, after in zip(pieces[1:-1], mean, mean[1:], strict=False)
    ]
    return [0.0, *inner, 0.0]
