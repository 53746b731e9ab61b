"""What moves together along the edges of a causal graph: an effect does not rise by itself.

Seen between rows, not within one: of two rows the one with the higher effect mostly has the higher cause too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..causal import CausalGraph
from .columns import Column, generator
from .suggestion import Candidate
from .writing import Writer

# Of pairs of rows that differ in both, this share must move the same way (or the other way).
LEAST_AGREEMENT = 0.6
# Standard errors by which agreement must differ from chance.
LEAST_SURPRISE = 5.0


def edge_rules(
    graph: CausalGraph, columns: Mapping[str, Column], writer: Writer, seed: int
) -> Iterator[tuple[Candidate, str]]:
    """Rules that edges between numbers and ordinals speak for, each with the reason."""
    known = {n: c for n, c in columns.items() if c.is_ordered and c.feature.mutable}
    both_ways = [(b, a) for a, b in graph.undirected]
    for cause, effect in (*graph.directed, *graph.undirected, *both_ways):
        if cause in known and effect in known:
            rising, falling = _moves(known[cause], known[effect], seed)
            if _is_clear(rising, falling):
                yield _told(Edge(cause, effect, (cause, effect) in graph.directed, rising, falling), writer)


@dataclass(frozen=True)
class Edge:
    """Two features joined in the graph, and how pairs of rows move: in so many of them the cause rises, or falls."""

    cause: str
    effect: str
    is_arrow: bool
    rising: int
    falling: int

    def __str__(self) -> str:
        return (
            f"{self.cause} -> {self.effect}" if self.is_arrow else f"{self.cause} -- {self.effect}, direction unknown"
        )


def _moves(cause: Column, effect: Column, seed: int) -> tuple[int, int]:
    """Among pairs of rows of which the second has the higher effect, those in which the cause rises, and falls."""
    names = (cause.feature.name, effect.feature.name)
    drawn = generator("\n".join(names), seed).permutation(np.flatnonzero(cause.known & effect.known))
    first, second = drawn[: len(drawn) // 2 * 2].reshape(2, -1)
    steps = [np.sign(column.values[second] - column.values[first]) for column in (cause, effect)]
    return int((steps[0] * steps[1] > 0).sum()), int((steps[0] * steps[1] < 0).sum())


def _is_clear(rising: int, falling: int) -> bool:
    """Whether one way is much more usual than the other, and not by chance."""
    both = rising + falling
    is_surprising = abs(rising - falling) > LEAST_SURPRISE * both**0.5
    return is_surprising and max(rising, falling) >= LEAST_AGREEMENT * both


def _told(edge: Edge, writer: Writer) -> tuple[Candidate, str]:
    up = edge.rising > edge.falling
    # Where the direction is unknown, less is claimed: not that the other one moves, only that it does not go against.
    sign = (">" if up else "<") + "=" * (not edge.is_arrow)
    premise = f"{writer.name(edge.effect)} > {writer.name(edge.effect, primed=False)}"
    text = f"{premise} => {writer.name(edge.cause)} {sign} {writer.name(edge.cause, primed=False)}"
    most = max(edge.rising, edge.falling)
    share = f"{100 * most / (edge.rising + edge.falling):.0f} of 100 pairs"
    seen = f"of two rows that with more {edge.effect} has {'more' if up else 'less'} {edge.cause} in {share}"
    names = frozenset((edge.cause, edge.effect))
    return Candidate(text, "moves with", names, most, 0.0, 0.0), f"the graph has {edge}; {seen}"
