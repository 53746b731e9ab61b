"""Where the nodes and edges of a graph in rows stand, in points, y upwards: boxes for nodes, routes for edges.

Edges cross rows upright, at a place that is theirs, and bend between rows only; so no edge runs through a box, and
no label sits on one. Along a row, places are chosen as Graphviz does (Gansner et al. 1993): the sum of sideways
distances is as small as it can be, long edges weighing most, so that they run straight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, vstack

from ..errors import DataError, Fault
from .layers import Chains, Pair, Rows, chained, differences, orderings

Point = tuple[float, float]
Size = tuple[float, float]
Ports = dict[Pair, tuple[float, float]]
"""How far from the middle of its upper and of its lower vertex a segment starts and ends."""
Reals = NDArray[np.float64]

PORT, PORT_AT_MOST = 8.0, 14.0
"""The distance between two edges where they meet a box."""
CORNER = 5.0
MOST_VERTICES = 10_000
"""Beyond these, a picture takes minutes and nobody can read it."""
HEAD = 9.0
"""The last piece of an edge is upright for so long, as an arrowhead is."""
NODE_APART, EDGE_APART = 14.0, 8.0
BENDING = np.array([1.0, 2.0, 8.0])
"""What a sideways point costs between two nodes, at an end of a long edge, and amid one; a point of width costs 1."""
GAP, GAP_AT_MOST, SLOPE = 14.0, 90.0, 0.2
"""The gap between rows: the farther edges go sideways, the wider it is."""


@dataclass(frozen=True)
class Box:
    """A rectangle around its centre."""

    x: float
    y: float
    width: float
    height: float

    def moved(self, dx: float, dy: float) -> Box:
        """The same box elsewhere."""
        return replace(self, x=self.x + dx, y=self.y + dy)


@dataclass(frozen=True)
class Route:
    """An edge: upright pieces from top to bottom, to be joined by curves. `label` is where its label sits."""

    pieces: tuple[tuple[Point, Point], ...]
    label: Point | None = None

    def moved(self, dx: float, dy: float) -> Route:
        """The same route elsewhere."""
        pieces = tuple(((ax + dx, ay + dy), (bx + dx, by + dy)) for (ax, ay), (bx, by) in self.pieces)
        return Route(pieces, None if self.label is None else (self.label[0] + dx, self.label[1] + dy))


@dataclass(frozen=True)
class Placement:
    """Boxes by node and routes by edge, between (0, 0) and (width, height)."""

    boxes: Mapping[int, Box]
    routes: Mapping[Pair, Route]
    width: float
    height: float

    def moved(self, dx: float, dy: float) -> Placement:
        """The same placement elsewhere."""
        boxes = {node: box.moved(dx, dy) for node, box in self.boxes.items()}
        return replace(self, boxes=boxes, routes={e: route.moved(dx, dy) for e, route in self.routes.items()})


@dataclass(frozen=True)
class _Drawing:
    """What is known while a graph is placed: `sizes` are of all vertices, `nodes` says how many of them are nodes."""

    chains: Chains
    rows: Rows
    ports: Ports
    sizes: Reals
    nodes: int


def placed(sizes: Sequence[Size], edges: Sequence[Pair], label: Size | None) -> Placement:
    """Place nodes of these sizes, joined by edges that go down and in no circle; each carries a label of one size."""
    chains = chained(len(sizes), edges, label is not None)
    if len(chains.row_of) > MOST_VERTICES:
        place, remedy = f"{len(edges):,} edges between {len(sizes)} features", "Draw the surest of them, or a part."
        raise DataError("causal graph", [Fault(place, "are too many for a picture", remedy)])
    drawing = _drawn(chains, _vertex_sizes(sizes, chains, label), len(sizes))
    x = _across(drawing)
    levels = _down(drawing, x)
    middles = levels.middles[list(chains.row_of)]
    boxes = {i: Box(float(x[i]), float(middles[i]), *map(float, drawing.sizes[i])) for i in range(len(sizes))}
    routes = {}
    for number, edge in enumerate(edges):
        carrier = chains.carriers[number] if label else None
        at = None if carrier is None else (float(x[carrier]), float(middles[carrier]))
        routes[edge] = Route(_pieces(drawing, chains.chains[number], x, levels, boxes), at)
    return Placement(boxes, routes, float((x + drawing.sizes[:, 0] / 2).max()), float(levels.tops[0]))


def _drawn(chains: Chains, sizes: Reals, nodes: int) -> _Drawing:
    """Of the orders with few crossings, the one in which edges go the least far sideways."""
    found = orderings(chains)
    few = 1.05 * min(order.crossings for order in found) + 1
    rows = [order.rows for order in found if order.crossings <= few]
    drawings = [_Drawing(chains, r, _ports(chains, r, sizes, nodes), sizes, nodes) for r in rows]
    return min(drawings, key=lambda d: _leftmost(d)[1]) if len(drawings) > 1 else drawings[0]


def _vertex_sizes(sizes: Sequence[Size], chains: Chains, label: Size | None) -> Reals:
    """Nodes are wide enough for the edges that meet them; the rest is a line's width, or a label's."""
    found = np.zeros((len(chains.row_of), 2))
    found[: len(sizes)] = np.reshape(sizes, (-1, 2))
    ends = np.array([(c[0], c[-1]) for c in chains.chains])
    meeting = np.maximum(*(np.bincount(ends[:, side], minlength=len(sizes)) for side in (0, 1)))
    found[: len(sizes), 0] = np.maximum(found[: len(sizes), 0], (meeting - 1) * PORT + 2 * CORNER)
    if label is not None:
        found[list(chains.carriers)] = label
    return found


def _ports(chains: Chains, rows: Rows, sizes: Reals, nodes: int) -> Ports:
    """Edges meet a box side by side, in the order of where they come from."""
    place = {vertex: i for row in rows for i, vertex in enumerate(row)}
    found: dict[Pair, list[float]] = {segment: [0.0, 0.0] for segment in chains.segments}
    for side in (0, 1):
        for node in range(nodes):
            meeting = sorted((s for s in found if s[side] == node), key=lambda s: place[s[1 - side]])
            apart = min(PORT_AT_MOST, (sizes[node, 0] - 2 * CORNER) / max(len(meeting) - 1, 1))
            for i, segment in enumerate(meeting):
                found[segment][side] = float((i - (len(meeting) - 1) / 2) * apart)
    return {segment: (upper, lower) for segment, (upper, lower) in found.items()}


# Along a row


def _across(drawing: _Drawing) -> Reals:
    """Places along the rows: midway between the leftmost best and the rightmost best, which is as good as either."""
    x = (_leftmost(drawing)[0] - _leftmost(drawing, mirrored=True)[0]) / 2
    return np.asarray(np.round(x - (x - drawing.sizes[:, 0] / 2).min(), 2))


def _leftmost(drawing: _Drawing, *, mirrored: bool = False) -> tuple[Reals, float]:
    """Places and their cost: a linear program in places, sideways distances of segments, and the whole width."""
    segments, n = np.array(drawing.chains.segments), len(drawing.sizes)
    m, sign = len(segments), -1 if mirrored else 1
    pairs = np.array([p for row in drawing.rows for p in pairwise(row)], dtype=int).reshape(-1, 2)
    offsets = sign * np.array([lower - upper for upper, lower in (drawing.ports[a, b] for a, b in segments)])
    sideways, half = differences(n, segments), drawing.sizes[:, 0] / 2
    limits = [
        # A segment's distance is no less than the difference of its ends, either way.
        hstack([sideways, -eye_array(m), csr_array((m, 1))]),
        hstack([-sideways, -eye_array(m), csr_array((m, 1))]),
        hstack([sign * differences(n, pairs), csr_array((len(pairs), m + 1))]),
        hstack([eye_array(n), csr_array((n, m)), csr_array(-np.ones((n, 1)))]),
    ]
    found = linprog(
        np.concatenate([np.full(n, 0.1 / n), BENDING[(segments >= drawing.nodes).sum(axis=1)], [1.0]]),
        A_ub=vstack(limits, format="csr"),
        b_ub=np.concatenate([offsets, -offsets, -_distances(drawing, pairs), -half]),
        bounds=np.column_stack([np.concatenate([half, np.zeros(m + 1)]), np.full(n + m + 1, np.inf)]),
        method="highs-ds",
    )
    return np.asarray(found.x[:n]), float(found.fun)


def _distances(drawing: _Drawing, pairs: NDArray[np.int_]) -> Reals:
    """How far apart the middles of neighbours in a row must be."""
    room = np.where((pairs < drawing.nodes).all(axis=1), NODE_APART, EDGE_APART)
    return np.asarray(drawing.sizes[pairs, 0].sum(axis=1) / 2 + room)


# From row to row


@dataclass(frozen=True)
class _Levels:
    """Of each row: where edges that come from above turn upright, where they cease to be, and the boxes' middle."""

    tops: Reals
    bottoms: Reals
    middles: Reals


def _down(drawing: _Drawing, x: Reals) -> _Levels:
    """Rows below each other. In a row of labels alone an edge may slant: it is upright nowhere."""
    tops, bottoms, middles = [], [], []
    y, farthest = 0.0, _farthest(drawing, x)
    for row, vertices in enumerate(drawing.rows):
        height = max(float(drawing.sizes[v, 1]) for v in vertices)
        has_boxes = min(vertices) < drawing.nodes
        head = HEAD if has_boxes and row else 0.0
        middles.append(y - head - height / 2)
        tops.append(y if has_boxes else middles[-1])
        bottoms.append(y - head - height if has_boxes else middles[-1])
        y -= head + height + float(np.clip(SLOPE * farthest[row], GAP, GAP_AT_MOST))
    lowest = bottoms[-1]
    return _Levels(np.array(tops) - lowest, np.array(bottoms) - lowest, np.array(middles) - lowest)


def _farthest(drawing: _Drawing, x: Reals) -> Reals:
    far = np.zeros(len(drawing.rows))
    for (a, b), (upper, lower) in drawing.ports.items():
        row = drawing.chains.row_of[a]
        far[row] = max(far[row], abs(x[a] + upper - x[b] - lower))
    return far


def _pieces(
    drawing: _Drawing, chain: tuple[int, ...], x: Reals, levels: _Levels, boxes: Mapping[int, Box]
) -> tuple[tuple[Point, Point], ...]:
    ports, rows = drawing.ports, [drawing.chains.row_of[vertex] for vertex in chain]
    tops, bottoms = levels.tops[rows].tolist(), levels.bottoms[rows].tolist()
    places = x[list(chain)].tolist()
    places[0] += ports[chain[0], chain[1]][0]
    places[-1] += ports[chain[-2], chain[-1]][1]
    tops[0] = boxes[chain[0]].y - boxes[chain[0]].height / 2
    bottoms[-1] = boxes[chain[-1]].y + boxes[chain[-1]].height / 2
    return tuple(((at, top), (at, bottom)) for at, top, bottom in zip(places, tops, bottoms, strict=True))
