"""A whole graph on a page: parts that hang together beside each other, nodes that stand alone below them."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np

from .coordinates import NODE_APART, Box, Placement, Size, placed
from .layers import Pair

PARTS_APART = 30.0
PAGE = 1.5
"""Width over height of the page on which parts are laid out."""


def place(sizes: Sequence[Size], edges: Sequence[Pair], label: Size | None = None) -> Placement:
    """Place nodes of these sizes; edges go from cause to effect, in no circle, and each carries a label of one size."""
    graph = nx.Graph()
    graph.add_nodes_from(range(len(sizes)))
    graph.add_edges_from(edges)
    parts = [sorted(part) for part in nx.connected_components(graph)]
    joined = [_part(part, sizes, edges, label) for part in parts if len(part) > 1]
    joined.sort(key=lambda part: (-part.height, -part.width, min(part.boxes)))
    upper = shelved(joined, _page_width(joined), PARTS_APART)
    single = [_alone(part[0], sizes[part[0]]) for part in parts if len(part) == 1]
    lower = shelved(single, max(upper.width, _page_width(single)), NODE_APART)
    return shelved([part for part in (upper, lower) if part.boxes], 0.0, PARTS_APART)


def _part(nodes: list[int], sizes: Sequence[Size], edges: Sequence[Pair], label: Size | None) -> Placement:
    local = {node: i for i, node in enumerate(nodes)}
    own = [(local[a], local[b]) for a, b in edges if a in local]
    found = placed([sizes[node] for node in nodes], own, label)
    boxes = {nodes[i]: box for i, box in found.boxes.items()}
    routes = {(nodes[a], nodes[b]): route for (a, b), route in found.routes.items()}
    return Placement(boxes, routes, found.width, found.height)


def _alone(node: int, size: Size) -> Placement:
    return Placement({node: Box(size[0] / 2, size[1] / 2, *size)}, {}, *size)


def _page_width(parts: Sequence[Placement]) -> float:
    area = sum((p.width + NODE_APART) * (p.height + NODE_APART) for p in parts)
    return max([float(np.sqrt(area * PAGE)), *(p.width for p in parts)])


def shelved(parts: Sequence[Placement], width: float, apart: float) -> Placement:
    """Parts side by side as far as the width goes, then on the next shelf below; each shelf is centred."""
    shelves: list[list[Placement]] = []
    for part in parts:
        if shelves and _length([*shelves[-1], part], apart) <= width:
            shelves[-1].append(part)
        else:
            shelves.append([part])
    whole = max((_length(shelf, apart) for shelf in shelves), default=0.0)
    height = sum(_height(shelf) for shelf in shelves) + apart * max(len(shelves) - 1, 0)
    top, moved = height, []
    for shelf in shelves:
        left = (whole - _length(shelf, apart)) / 2
        for part in shelf:
            moved.append(part.moved(left, top - part.height))
            left += part.width + apart
        top -= _height(shelf) + apart
    boxes = {node: box for part in moved for node, box in part.boxes.items()}
    return Placement(boxes, {e: route for part in moved for e, route in part.routes.items()}, whole, height)


def _length(shelf: Sequence[Placement], apart: float) -> float:
    return sum(part.width for part in shelf) + apart * (len(shelf) - 1)


def _height(shelf: Sequence[Placement]) -> float:
    return max(part.height for part in shelf)
