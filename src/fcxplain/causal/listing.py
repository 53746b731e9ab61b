"""A causal graph for people to look over: how large it is, and its surest edges."""

from __future__ import annotations

from ..markup import Glance, Grid, counted, remainder
from .exchange import Parts
from .soundness import Edge

SHOWN = 10
"""So many edges are named."""


def glance(graph: Parts) -> Glance:
    """Nodes and edges counted, and the edges with the most support; without support, the first ones."""
    edges = [*graph.directed, *graph.undirected]
    edges.sort(key=lambda edge: -graph.support.get(edge, -1.0))
    return Glance(f"CausalGraph: {_counts(graph)}", _alone(graph), grids=(_edges(graph, edges),))


def _counts(graph: Parts) -> str:
    directed, undirected = len(graph.directed), len(graph.undirected)
    edges = counted(directed + undirected, "edge")
    return f"{counted(len(graph.nodes), 'feature')}, {edges}" + (f" ({undirected:,} undirected)" if undirected else "")


def _alone(graph: Parts) -> tuple[str, ...]:
    joined = {node for edge in (*graph.directed, *graph.undirected) for node in edge}
    alone = len(graph.nodes) - len(joined)
    return (f"{counted(alone, 'feature')} joined to nothing",) if joined and alone else ()


def _edges(graph: Parts, edges: list[Edge]) -> Grid:
    sure, arrows = graph.support, set(graph.directed)
    rows = [(f"{a} {'->' if (a, b) in arrows else '--'} {b}", _share(sure.get((a, b)))) for a, b in edges[:SHOWN]]
    rest = remainder(len(edges) - SHOWN, "edge")
    if sure:
        return Grid(("surest edges", "support"), tuple(rows), rest)
    return Grid(("edges",), tuple((edge,) for edge, _ in rows), rest)


def _share(support: float | None) -> str:
    return "" if support is None else f"{support:.0%}"
