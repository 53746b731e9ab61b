"""Checks of a causal graph: names, pairs of names, no duplicate edges, no cycles. They return every fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..errors import Fault, did_you_mean

Edge = tuple[str, str]
Support = tuple[tuple[Edge, float], ...]


def items(support: Mapping[Edge, float] | Support) -> Support:
    """Support as pairs, in whatever form it was given."""
    return tuple(support.items() if isinstance(support, Mapping) else support)


def shape_faults(nodes: Any, edges: Iterable[Any], support: Any) -> list[Fault]:
    """Faults of anything that is not a name or a pair of names."""
    if isinstance(nodes, str):
        return [Fault("nodes", "is one text, not a list of names")]
    odd = [n for n in nodes if not isinstance(n, str) or not n]
    faults = [Fault(f"node {n!r:.80}", "is not a name", "Write a text.") for n in odd]
    for edge in (*edges, *(e for e, _ in items(support))):
        if not isinstance(edge, list | tuple) or len(edge) != 2 or not all(isinstance(n, str) for n in edge):
            faults.append(Fault(f"edge {edge!r:.80}", "is not a pair of names"))
    return faults


def node_faults(nodes: tuple[str, ...]) -> list[Fault]:
    """Faults of duplicate names."""
    return [Fault(f"node {n!r:.80}", "is named twice") for n, count in Counter(nodes).items() if count > 1]


def edge_faults(nodes: tuple[str, ...], edges: tuple[Edge, ...]) -> list[Fault]:
    """Faults of edges between unknown nodes, self loops, and pairs that are joined twice."""
    known, faults, seen = set(nodes), [], dict[frozenset[str], Edge]()
    for a, b in edges:
        place = f"edge {a!r:.80} to {b!r:.80}"
        for n in dict.fromkeys((a, b)):
            if n not in known:
                faults.append(Fault(place, f"no node {n!r:.80}", did_you_mean(n, nodes)))
        if a == b:
            faults.append(Fault(place, "joins a feature with itself"))
        elif frozenset((a, b)) in seen:
            same = seen[frozenset((a, b))] == (a, b)
            faults.append(Fault(place, "stands twice" if same else "is given in both directions", "Keep one."))
        seen.setdefault(frozenset((a, b)), (a, b))
    return faults


def support_faults(given: Iterable[tuple[Edge, Any]], edges: tuple[Edge, ...]) -> list[Fault]:
    """Faults of support for edges that do not exist, and of support that is not a share."""
    faults, joined = [], set(map(frozenset, edges))
    for (a, b), share in given:
        place = f"support of {a!r:.80} to {b!r:.80}"
        if frozenset((a, b)) not in joined:
            faults.append(Fault(place, "there is no such edge"))
        if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 <= share <= 1:
            faults.append(Fault(place, f"is {share!r:.80}, not a share from 0 to 1"))
    return faults


def cycle_fault(names: list[str]) -> Fault:
    """The fault of a cycle."""
    shown = names if len(names) <= 12 else [*names[:10], "...", names[-1]]
    return Fault("directed edges", f"form a cycle: {' -> '.join([*shown, names[0]])}", "Remove or reverse one of them.")
