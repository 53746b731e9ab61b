"""Layered graph layout (Sugiyama, Tagawa & Toda 1981): layers, order, coordinates, and components side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, vstack
from threadpoolctl import threadpool_limits

from ..errors import DataError, Fault

Pair = tuple[int, int]
Rows = list[list[int]]
Order = NDArray[np.int_]
Matrix = NDArray[np.float32]
STARTS = 6
MANY = 1_000
"""Above this number of vertices, only one start is used."""


Sweep = tuple[bool, bool]
"""Whether to sort each row, and whether to exchange neighbours in it."""
SCHEDULES: tuple[tuple[Sweep, ...], ...] = (
    ((True, True),) * 10,
    ((True, False), (True, False), (False, True), (False, True)) * 4,
)
"""Neither is always better, and both are fast."""


@dataclass(frozen=True)
class Chains:
    """Vertices in rows. The first ones are the nodes; `chains` has the vertices along each edge, ends included.

    `carriers` are the vertices that hold the edges' labels; empty without labels.
    """

    row_of: tuple[int, ...]
    chains: tuple[tuple[int, ...], ...]
    carriers: tuple[int, ...]

    @property
    def segments(self) -> list[Pair]:
        """The segments of edges between neighbouring rows, from the upper end to the lower."""
        return [pair for chain in self.chains for pair in pairwise(chain)]


def chained(n: int, edges: Sequence[Pair], labelled: bool) -> Chains:
    """Nodes 0 to n - 1 in rows, with a row for labels between two rows of nodes if edges are labelled."""
    step = 2 if labelled else 1
    row_of = [row * step for row in heights(n, edges)]
    carried = dict.fromkeys(range(max(row_of, default=0) + 1), 0)
    chains, carriers = [], []
    for a, b in sorted(edges, key=lambda e: (row_of[e[1]] - row_of[e[0]], e)):
        between = list(range(row_of[a] + 1, row_of[b]))
        chain = (a, *range(len(row_of), len(row_of) + len(between)), b)
        if labelled:
            # Short edges have only one choice and come first; long ones take the row with the fewest labels so far.
            middle = (row_of[a] + row_of[b]) / 2
            chosen = min(between[::2], key=lambda row: (carried[row], abs(row - middle)))
            carried[chosen] += 1
            carriers.append(chain[chosen - row_of[a]])
        row_of += between
        chains.append(chain)
    place = {(chain[0], chain[-1]): i for i, chain in enumerate(chains)}
    order = [place[edge] for edge in edges]
    return Chains(tuple(row_of), tuple(chains[i] for i in order), tuple(carriers[i] for i in order if labelled))


def heights(n: int, edges: Sequence[Pair]) -> list[int]:
    """A row for each node, causes above effects, that minimises the total length of edges."""
    if not edges:
        return [0] * n
    ends = np.array(edges)
    cost = np.bincount(ends[:, 1], minlength=n) - np.bincount(ends[:, 0], minlength=n)
    found = linprog(cost, A_ub=differences(n, ends), b_ub=-np.ones(len(ends)), bounds=(0, n), method="highs-ds")
    # The matrix is totally unimodular, so the optimum is integral up to rounding.
    rows = np.rint(found.x).astype(int)
    return [int(row) for row in rows - rows.min()]


def differences(n: int, pairs: NDArray[np.int_]) -> csr_array:
    """The matrix that maps values to `value[first] - value[second]`, one row per pair."""
    line = np.arange(len(pairs))
    values = np.concatenate([np.ones(len(pairs)), -np.ones(len(pairs))])
    return csr_array((values, (np.concatenate([line, line]), pairs.T.ravel())), shape=(len(pairs), n))


# Order within rows


def orderings(chains: Chains) -> list[tuple[Rows, int]]:
    """The vertices of each row from left to right, with few crossings, and their number; for several starts."""
    rows: Rows = [[] for _ in range(max(chains.row_of) + 1)]
    for vertex, row in enumerate(chains.row_of):
        rows[row].append(vertex)
    links = _links(chains, rows)
    # The matrices are too small for threads to pay off.
    with threadpool_limits(limits=1):
        starts = [[np.argsort(guess[row], kind="stable") for row in rows] for guess in _guesses(chains)]
        return [_settled(rows, links, start, sweeps) for start in starts for sweeps in SCHEDULES]


def _guesses(chains: Chains) -> list[NDArray[np.float64]]:
    """Initial positions along the rows: low eigenvectors of the Laplacian, which keep neighbours close together."""
    n = len(chains.row_of)
    if n > MANY:
        return [np.arange(n, dtype=np.float64)]
    ends = np.array(chains.segments)
    laplacian = np.zeros((n, n))
    laplacian[ends[:, 0], ends[:, 1]] = laplacian[ends[:, 1], ends[:, 0]] = -1
    laplacian -= np.diag(laplacian.sum(axis=1))
    waves = np.linalg.eigh(laplacian)[1][:, 1 : 1 + STARTS].T
    return [wave * np.sign(wave[np.abs(wave).argmax()]) for wave in waves]


def _settled(rows: Rows, links: list[Matrix], start: list[Order], sweeps: Sequence[Sweep]) -> tuple[Rows, int]:
    orders, best, fewest = list(start), list(start), _crossings(start, links)
    for number, sweep in enumerate(sweeps):
        _go_through(orders, links, sweep, downwards=number % 2 == 0)
        count = _crossings(orders, links)
        if count < fewest:
            best, fewest = list(orders), count
    return [[row[i] for i in order] for row, order in zip(rows, best, strict=True)], fewest


def _links(chains: Chains, rows: Rows) -> list[Matrix]:
    """For each row but the last, which of its vertices are linked to which of the next row."""
    place = {vertex: i for row in rows for i, vertex in enumerate(row)}
    links = [np.zeros((len(a), len(b)), dtype=np.float32) for a, b in pairwise(rows)]
    for a, b in chains.segments:
        links[chains.row_of[a]][place[a], place[b]] = 1
    return links


def _beside(orders: list[Order], links: list[Matrix], row: int) -> tuple[Matrix | None, Matrix | None]:
    """The links of a row's vertices, in the current order, to the rows above and below."""
    above = links[row - 1][np.ix_(orders[row - 1], orders[row])].T if row else None
    below = links[row][np.ix_(orders[row], orders[row + 1])] if row + 1 < len(orders) else None
    return above, below


def _crossings(orders: list[Order], links: list[Matrix]) -> int:
    return sum(int(np.triu(_costs(link[np.ix_(orders[i], orders[i + 1])]), 1).sum()) for i, link in enumerate(links))


def _costs(beside: Matrix) -> Matrix:
    """The number of crossings of the edges of two vertices of a row if the first is left of the second."""
    return np.asarray(beside @ (beside.cumsum(axis=1) - beside).T)


def _go_through(orders: list[Order], links: list[Matrix], sweep: Sweep, *, downwards: bool) -> None:
    """For each row, sort by the mean position of neighbours in the previous row, or swap neighbours, or both."""
    sorts, exchanges = sweep
    for row in range(len(orders)) if downwards else range(len(orders) - 1, -1, -1):
        before = _beside(orders, links, row)[0 if downwards else 1]
        if sorts and before is not None:
            orders[row] = orders[row][np.argsort(_means(before), kind="stable")]
        if exchanges:
            sides = [side for side in _beside(orders, links, row) if side is not None]
            costs = sum((_costs(side) for side in sides), np.zeros((len(orders[row]),) * 2, dtype=np.float32))
            orders[row] = orders[row][_exchanged(costs)]


def _means(beside: Matrix) -> NDArray[np.float64]:
    """The mean position of each vertex's neighbours, from 0 to 1; its own if it has none."""
    degree = beside.sum(axis=1)
    mean = beside @ np.linspace(0, 1, beside.shape[1]) / np.maximum(degree, 1)
    return np.asarray(np.where(degree > 0, mean, np.linspace(0, 1, len(beside))))


def _exchanged(costs: Matrix) -> Order:
    """An order in which no swap of two neighbours removes a crossing."""
    order, saving = np.arange(len(costs)), costs - costs.T
    changed = True
    while changed:
        changed = False
        for first in (0, 1):
            left = np.arange(first, len(order) - 1, 2)
            swap = left[saving[order[left], order[left + 1]] > 0]
            order[swap], order[swap + 1] = order[swap + 1], order[swap]
            changed |= len(swap) > 0
    return order


Size = tuple[float, float]
Ports = dict[Pair, tuple[float, float]]
"""The offsets from the centres of the upper and lower vertex at which a segment starts and ends."""
Reals = NDArray[np.float64]

PORT, PORT_AT_MOST = 8.0, 14.0
"""The distance between two edges where they meet a box."""
CORNER = 5.0
MOST_VERTICES = 10_000
"""Above this number, a drawing takes minutes and is unreadable."""
HEAD = 9.0
"""The length of the vertical end of an edge, for the arrowhead."""
NODE_APART, EDGE_APART = 14.0, 8.0
BENDING = np.array([1.0, 2.0, 8.0])
"""The cost of sideways distance between two nodes, at an end of a long edge, and inside one; width costs 1."""
GAP, GAP_AT_MOST, SLOPE = 14.0, 90.0, 0.2
"""The gap between rows, which grows with the sideways distance of edges."""


@dataclass(frozen=True)
class NodeBox:
    """A rectangle around its centre."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Route:
    """An edge: vertical pieces from top to bottom, to be joined by curves, and the position of its label.

    `pieces` is `n x 2 x 2`: the upper and the lower end of each.
    """

    pieces: Reals
    label: Reals | None = None


@dataclass(frozen=True)
class Placement:
    """Boxes by node and routes by edge, between (0, 0) and (width, height)."""

    boxes: Mapping[int, NodeBox]
    routes: Mapping[Pair, Route]
    width: float
    height: float

    def moved(self, dx: float, dy: float) -> Placement:
        """The same placement elsewhere."""
        by = np.array([dx, dy])
        boxes = {node: replace(box, x=box.x + dx, y=box.y + dy) for node, box in self.boxes.items()}
        routes = {e: Route(r.pieces + by, None if r.label is None else r.label + by) for e, r in self.routes.items()}
        return replace(self, boxes=boxes, routes=routes)


@dataclass(frozen=True)
class _Drawing:
    """The state of a layout: `sizes` of all vertices; the first `nodes` of them are nodes."""

    chains: Chains
    rows: Rows
    ports: Ports
    sizes: Reals
    nodes: int


def _placed(nodes: list[int], sizes: Sequence[Size], edges: Sequence[Pair], label: Size | None) -> Placement:
    """Place connected nodes of these sizes; their edges go down, each with a label of the given size."""
    local = {node: i for i, node in enumerate(nodes)}
    own = [(local[a], local[b]) for a, b in edges if a in local]
    chains = chained(len(nodes), own, label is not None)
    if len(chains.row_of) > MOST_VERTICES:
        edges_there = f"{len(own):,} edges between {len(nodes)} features"
        fault = Fault(edges_there, "are too many to draw", "Draw those with most support, or a part.")
        raise DataError("causal graph", [fault])
    drawing = _drawn(chains, _vertex_sizes([sizes[node] for node in nodes], chains, label), len(nodes))
    # Midway between the leftmost and the rightmost optimum, which is also optimal.
    x = (_leftmost(drawing)[0] - _leftmost(drawing, mirrored=True)[0]) / 2
    x = np.asarray(np.round(x - (x - drawing.sizes[:, 0] / 2).min(), 2))
    tops, bottoms, row_middles = _down(drawing, x)
    middles = row_middles[list(chains.row_of)]
    boxes = [NodeBox(float(x[i]), float(middles[i]), *map(float, drawing.sizes[i])) for i in range(len(nodes))]
    routes = {}
    for number, ((a, b), chain) in enumerate(zip(own, chains.chains, strict=True)):
        carrier = chains.carriers[number] if label else None
        at = None if carrier is None else np.array([x[carrier], middles[carrier]])
        pieces = _pieces(drawing, chain, x, tops, bottoms)
        pieces[0, 0, 1] = boxes[a].y - boxes[a].height / 2
        pieces[-1, 1, 1] = boxes[b].y + boxes[b].height / 2
        routes[nodes[a], nodes[b]] = Route(pieces, at)
    width, height = float((x + drawing.sizes[:, 0] / 2).max()), float(tops[0])
    return Placement(dict(zip(nodes, boxes, strict=True)), routes, width, height)


def _drawn(chains: Chains, sizes: Reals, nodes: int) -> _Drawing:
    """Of the orders with few crossings, the one with the least sideways distance of edges."""
    found = orderings(chains)
    few = 1.05 * min(crossings for _, crossings in found) + 1
    rows = [rows for rows, crossings in found if crossings <= few]
    drawings = [_Drawing(chains, r, _ports(chains, r, sizes, nodes), sizes, nodes) for r in rows]
    return min(drawings, key=lambda d: _leftmost(d)[1]) if len(drawings) > 1 else drawings[0]


def _vertex_sizes(sizes: Sequence[Size], chains: Chains, label: Size | None) -> Reals:
    """Widen nodes for the edges that meet them; other vertices are as wide as a line or a label."""
    found = np.zeros((len(chains.row_of), 2))
    found[: len(sizes)] = np.reshape(sizes, (-1, 2))
    ends = np.array([(c[0], c[-1]) for c in chains.chains])
    meeting = np.maximum(*(np.bincount(ends[:, side], minlength=len(sizes)) for side in (0, 1)))
    found[: len(sizes), 0] = np.maximum(found[: len(sizes), 0], (meeting - 1) * PORT + 2 * CORNER)
    if label is not None:
        found[list(chains.carriers)] = label
    return found


def _ports(chains: Chains, rows: Rows, sizes: Reals, nodes: int) -> Ports:
    """Edges meet a box side by side, ordered by their other ends."""
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


def _leftmost(drawing: _Drawing, *, mirrored: bool = False) -> tuple[Reals, float]:
    """Positions and their cost, by a linear program in positions, sideways distances of segments, and total width."""
    segments, n = np.array(drawing.chains.segments), len(drawing.sizes)
    m, sign = len(segments), -1 if mirrored else 1
    pairs = np.array([p for row in drawing.rows for p in pairwise(row)], dtype=int).reshape(-1, 2)
    offsets = sign * np.array([lower - upper for upper, lower in (drawing.ports[a, b] for a, b in segments)])
    sideways, half = differences(n, segments), drawing.sizes[:, 0] / 2
    apart = half[pairs].sum(axis=1) + np.where((pairs < drawing.nodes).all(axis=1), NODE_APART, EDGE_APART)
    limits = [
        # A segment's distance is at least the absolute difference of its ends.
        hstack([sideways, -eye_array(m), csr_array((m, 1))]),
        hstack([-sideways, -eye_array(m), csr_array((m, 1))]),
        hstack([sign * differences(n, pairs), csr_array((len(pairs), m + 1))]),
        hstack([eye_array(n), csr_array((n, m)), csr_array(-np.ones((n, 1)))]),
    ]
    found = linprog(
        np.concatenate([np.full(n, 0.1 / n), BENDING[(segments >= drawing.nodes).sum(axis=1)], [1.0]]),
        A_ub=vstack(limits, format="csr"),
        b_ub=np.concatenate([offsets, -offsets, -apart, -half]),
        bounds=np.column_stack([np.concatenate([half, np.zeros(m + 1)]), np.full(n + m + 1, np.inf)]),
        method="highs-ds",
    )
    return np.asarray(found.x[:n]), float(found.fun)


# From row to row


def _down(drawing: _Drawing, x: Reals) -> tuple[Reals, Reals, Reals]:
    """For each row: where edges from above become vertical, where that ends, and the centre of the boxes.

    In a row with only labels, edges may slant: they are nowhere vertical.
    """
    tops, bottoms, middles = [], [], []
    y, farthest = 0.0, np.zeros(len(drawing.rows))
    for (a, b), (upper, lower) in drawing.ports.items():
        row = drawing.chains.row_of[a]
        farthest[row] = max(farthest[row], abs(x[a] + upper - x[b] - lower))
    for row, vertices in enumerate(drawing.rows):
        height = max(float(drawing.sizes[v, 1]) for v in vertices)
        has_boxes = min(vertices) < drawing.nodes
        head = HEAD if has_boxes and row else 0.0
        middles.append(y - head - height / 2)
        tops.append(y if has_boxes else middles[-1])
        bottoms.append(y - head - height if has_boxes else middles[-1])
        y -= head + height + float(np.clip(SLOPE * farthest[row], GAP, GAP_AT_MOST))
    lowest = bottoms[-1]
    return np.array(tops) - lowest, np.array(bottoms) - lowest, np.array(middles) - lowest


def _pieces(drawing: _Drawing, chain: tuple[int, ...], x: Reals, tops: Reals, bottoms: Reals) -> Reals:
    ports, rows = drawing.ports, [drawing.chains.row_of[vertex] for vertex in chain]
    ends = np.stack([tops[rows], bottoms[rows]], axis=1)
    places = x[list(chain)]
    places[0] += ports[chain[0], chain[1]][0]
    places[-1] += ports[chain[-2], chain[-1]][1]
    return np.stack([np.broadcast_to(places[:, None], ends.shape), ends], axis=2)


PARTS_APART = 30.0
PAGE = 1.5
"""The aspect ratio of the page on which components are arranged."""


def place(sizes: Sequence[Size], edges: Sequence[Pair], label: Size | None = None) -> Placement:
    """Place nodes of these sizes; edges go from cause to effect without cycles, and have labels of the given size."""
    graph = nx.Graph()
    graph.add_nodes_from(range(len(sizes)))
    graph.add_edges_from(edges)
    parts = [sorted(part) for part in nx.connected_components(graph)]
    joined = [_placed(part, sizes, edges, label) for part in parts if len(part) > 1]
    joined.sort(key=lambda part: (-part.height, -part.width, min(part.boxes)))
    upper = shelved(joined, _page_width(joined), PARTS_APART)
    single = [
        Placement({node: NodeBox(sizes[node][0] / 2, sizes[node][1] / 2, *sizes[node])}, {}, *sizes[node])
        for node, *others in parts
        if not others
    ]
    lower = shelved(single, max(upper.width, _page_width(single)), NODE_APART)
    return shelved([part for part in (upper, lower) if part.boxes], 0.0, PARTS_APART)


def _page_width(parts: Sequence[Placement]) -> float:
    area = sum((p.width + NODE_APART) * (p.height + NODE_APART) for p in parts)
    return max([float(np.sqrt(area * PAGE)), *(p.width for p in parts)])


def shelved(parts: Sequence[Placement], width: float, apart: float) -> Placement:
    """Components side by side up to the width, then on the next shelf below; each shelf is centred."""
    shelves: list[list[Placement]] = []
    for part in parts:
        if shelves and _length([*shelves[-1], part], apart) <= width:
            shelves[-1].append(part)
        else:
            shelves.append([part])
    whole = max((_length(shelf, apart) for shelf in shelves), default=0.0)
    tallest = [max(part.height for part in shelf) for shelf in shelves]
    height = sum(tallest) + apart * max(len(shelves) - 1, 0)
    top, moved = height, []
    for shelf, tall in zip(shelves, tallest, strict=True):
        left = (whole - _length(shelf, apart)) / 2
        for part in shelf:
            moved.append(part.moved(left, top - part.height))
            left += part.width + apart
        top -= tall + apart
    boxes = {node: box for part in moved for node, box in part.boxes.items()}
    return Placement(boxes, {e: route for part in moved for e, route in part.routes.items()}, whole, height)


def _length(shelf: Sequence[Placement], apart: float) -> float:
    return sum(part.width for part in shelf) + apart * (len(shelf) - 1)
