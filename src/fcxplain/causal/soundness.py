"""Checks of a causal graph: names, pairs of names, no duplicate edges, no cycles. They return every fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import Fault, did_you_mean

Edge = tuple[str, str]
Support = tuple[tuple[Edge, float], ...]


def items(support: Mapping[Edge, float] | Support) -> Support:
    """Support as pairs, in whatever form it was given."""
    return tuple(support.items() if isinstance(support, Mapping) else support)


def is_edge(value: object) -> bool:
    """Whether this is a pair of names."""
    return isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(n, str) for n in value)


def shape_faults(nodes: Any, edges: Iterable[Any], support: Any) -> list[Fault]:
    """Faults of anything that is not a name or a pair of names."""
    if isinstance(nodes, str):
        return [Fault("nodes", "is one text, not a list of names")]
    odd = [n for n in nodes if not isinstance(n, str) or not n]
    faults = [Fault(f"node {n!r:.80}", "is not a name", "Write a text.") for n in odd]
    for edge in (*edges, *(e for e, _ in items(support))):
        if not is_edge(edge):
            faults.append(Fault(f"edge {edge!r:.80}", "is not a pair of names"))
    return faults


def faults(nodes: tuple[str, ...], edges: tuple[Edge, ...], support: Support) -> Iterator[Fault]:
    """Faults of duplicate names, of edges (unknown nodes, self loops, joined twice), and of support."""
    yield from (Fault(f"node {n!r:.80}", "is named twice") for n, count in Counter(nodes).items() if count > 1)
    known, seen = set(nodes), dict[frozenset[str], Edge]()
    for a, b in edges:
        place = f"edge {a!r:.80} to {b!r:.80}"
        unknown = [n for n in dict.fromkeys((a, b)) if n not in known]
        yield from (Fault(place, f"no node {n!r:.80}", did_you_mean(n, nodes)) for n in unknown)
        if a == b:
            yield Fault(place, "joins a feature with itself")
        elif frozenset((a, b)) in seen:
            same = seen[frozenset((a, b))] == (a, b)
            yield Fault(place, "stands twice" if same else "is given in both directions", "Keep one.")
        seen.setdefault(frozenset((a, b)), (a, b))
    for (a, b), share in support:
        place = f"support of {a!r:.80} to {b!r:.80}"
        if frozenset((a, b)) not in seen:
            yield Fault(place, "there is no such edge")
        if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 <= share <= 1:
            yield Fault(place, f"is {share!r:.80}, not a share from 0 to 1")


def cycle_fault(names: list[str]) -> Fault:
    """The fault of a cycle."""
    shown = names if len(names) <= 12 else [*names[:10], "...", names[-1]]
    return Fault("directed edges", f"form a cycle: {' -> '.join([*shown, names[0]])}", "Remove or reverse one of them.")
