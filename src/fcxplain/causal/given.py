"""A causal graph in whatever form a person has it: a file, an adjacency matrix, a networkx graph, or ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, Fault, did_you_mean
from .graph import CausalGraph


def as_graph(given: Any, names: Sequence[str]) -> CausalGraph:
    """A graph over the features from a graph, an adjacency matrix, a networkx graph, or a CSV or DOT file."""
    graph = _read(given, names)
    strange = [n for n in graph.nodes if n not in names]
    if strange:
        faults = [Fault(f"node {n!r}", "is no feature of the table", did_you_mean(n, names)) for n in strange]
        raise DataError("the causal graph does not fit the table", faults)
    return graph


def _read(given: Any, names: Sequence[str]) -> CausalGraph:
    match given:
        case CausalGraph():
            return given
        case str() | Path():
            is_dot = str(given).endswith((".dot", ".gv"))
            return CausalGraph.from_dot(given) if is_dot else CausalGraph.from_csv(given)
        case np.ndarray() | list() | tuple():
            return CausalGraph.from_matrix(given, names)
        # A data frame; pandas itself is not needed to know one.
        case object(columns=columns):
            return CausalGraph.from_matrix(np.asarray(given), [str(c) for c in columns])
        case _:
            return CausalGraph.from_networkx(given)
