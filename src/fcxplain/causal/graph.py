"""CausalGraph: which feature causes which, as far as is known; it can be read from many formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, Fault, also, did_you_mean
from . import formats, orientation, soundness
from .soundness import Edge, Support


@dataclass(frozen=True)
class EdgeScore:
    """Agreement of a graph with the true one, for adjacencies and for arrowheads.

    Precision is 1 if nothing was claimed, recall is 1 if there was nothing to find.
    """

    precision: float
    recall: float
    f1: float
    arrow_precision: float
    arrow_recall: float
    arrow_f1: float


@dataclass(frozen=True)
class CausalGraph:
    """Features and the edges between them; the order in which edges are given does not matter for equality.

    Parameters
    ----------
    nodes : tuple of str
        The features.
    directed, undirected : tuple of pairs
        Edges (cause, effect), and edges whose direction is not known.
    support : mapping, optional
        Support of some or all edges, from 0 to 1; it is stored as pairs.

    Raises
    ------
    DataError
        If the graph has a cycle, a duplicate edge or an unknown name. It lists every fault.

    Examples
    --------
    >>> from fcxplain import CausalGraph
    >>> CausalGraph(("age", "degree", "income"), directed=(("age", "income"), ("degree", "income"))).parents("income")
    ('age', 'degree')
    """

    nodes: tuple[str, ...]
    directed: tuple[Edge, ...] = ()
    undirected: tuple[Edge, ...] = ()
    support: Mapping[Edge, float] | Support = ()

    def __post_init__(self) -> None:
        settle = partial(object.__setattr__, self)
        shapes = soundness.shape_faults(self.nodes, (*self.directed, *self.undirected), self.support)
        if shapes:
            raise DataError("this is not a causal graph", shapes)
        settle("nodes", tuple(self.nodes))
        settle("directed", tuple((a, b) for a, b in self.directed))
        settle("undirected", tuple((a, b) for a, b in self.undirected))
        given = soundness.items(self.support)
        faults = list(soundness.faults(self.nodes, self.edges, given))
        if not faults:
            settle("directed", tuple(sorted(self.directed, key=self._place)))
            in_order = (tuple(sorted(edge, key=self._index.__getitem__)) for edge in self.undirected)
            settle("undirected", tuple(sorted(in_order, key=self._place)))
            as_drawn = {frozenset(edge): edge for edge in self.edges}
            shares = {as_drawn[frozenset(edge)]: float(share) for edge, share in given}
            settle("support", tuple(sorted(shares.items(), key=lambda pair: self._place(pair[0]))))
            cycle = orientation.cycle(self._arrows)
            faults = [soundness.cycle_fault([self.nodes[i] for i in cycle])] if cycle else []
        if faults:
            raise DataError("the causal graph has mistakes", faults)

    def _place(self, edge: Edge) -> tuple[int, int]:
        return self._index[edge[0]], self._index[edge[1]]

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Every edge, the directed ones first."""
        return self.directed + self.undirected

    @property
    def is_dag(self) -> bool:
        """Whether every edge has a direction."""
        return not self.undirected

    def __len__(self) -> int:
        return len(self.nodes)

    def __str__(self) -> str:
        arrows = [f"{a} -> {b}" for a, b in self.directed] + [f"{a} -- {b}" for a, b in self.undirected]
        return "\n".join(arrows) or f"{len(self.nodes)} features, no edges"

    def __repr__(self) -> str:
        return formats.glance(self).text()

    def _repr_html_(self) -> str:
        return formats.glance(self).html()

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.nodes)}

    @cached_property
    def _matrix(self) -> NDArray[np.bool_]:
        a = np.zeros((len(self.nodes),) * 2, dtype=bool)
        for edge in self.edges:
            a[self._place(edge)] = True
        for c, b in self.undirected:
            a[self._place((b, c))] = True
        a.flags.writeable = False
        return a

    @property
    def _arrows(self) -> NDArray[np.bool_]:
        return np.asarray(self._matrix & ~self._matrix.T)

    def _at(self, name: str) -> int:
        if name not in self._index:
            fault = Fault(f"node {name!r}", "is not known", did_you_mean(name, self.nodes))
            raise also(DataError, KeyError)("causal graph", [fault])
        return self._index[name]

    def _named(self, mask: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(self.nodes[i] for i in np.flatnonzero(mask))

    # Neighbourhoods

    def parents(self, node: str) -> tuple[str, ...]:
        """Return the direct causes of a feature.

        Parameters
        ----------
        node : str
            A feature.

        Returns
        -------
        tuple of str

        Raises
        ------
        DataError
            If the feature does not exist. The error is also a `KeyError`.
        """
        return self._named(self._arrows[:, self._at(node)])

    def children(self, node: str) -> tuple[str, ...]:
        """Return the direct effects of a feature.

        Parameters
        ----------
        node : str
            A feature.

        Returns
        -------
        tuple of str
        """
        return self._named(self._arrows[self._at(node)])

    def neighbours(self, node: str) -> tuple[str, ...]:
        """Return the features joined to a feature by an undirected edge.

        Parameters
        ----------
        node : str
            A feature.

        Returns
        -------
        tuple of str
        """
        return self._named((self._matrix & self._matrix.T)[self._at(node)])

    def adjacent(self, a: str, b: str) -> bool:
        """Return whether two features are joined by an edge of either kind.

        Parameters
        ----------
        a, b : str
            Features.

        Returns
        -------
        bool
        """
        i, j = self._at(a), self._at(b)
        return bool(self._matrix[i, j] or self._matrix[j, i])

    def pairs(self) -> NDArray[np.int64]:
        """Return joined pairs as indices in `nodes`, in both directions.

        Returns
        -------
        array of int
            `2 edges x 2`.
        """
        return np.argwhere(self._matrix | self._matrix.T).astype(np.int64)

    def support_of(self, a: str, b: str) -> float | None:
        """Return the support of the edge between two features.

        Parameters
        ----------
        a, b : str
            Features.

        Returns
        -------
        float or None
            None if there is none.
        """
        support = dict(soundness.items(self.support))
        return support.get((a, b), support.get((b, a)))

    # What follows from the graph

    def dag(self) -> CausalGraph:
        """Direct every edge, by a consistent extension of this graph if there is one.

        A consistent extension (Dor & Tarsi 1992) adds no collider. If there is none, as may happen for a graph learnt
        from few rows, the remaining edges follow a topological order of the known arrows.

        Returns
        -------
        CausalGraph
        """
        extended = orientation.extension(self._matrix)
        return _of(self.nodes, orientation.forced(self._matrix) if extended is None else extended, self.support)

    def order(self) -> tuple[str, ...]:
        """Return the features in a topological order of `dag()`, causes before effects.

        Returns
        -------
        tuple of str
        """
        return tuple(self.nodes[i] for i in orientation.order(self.dag()._arrows))

    def cpdag(self) -> CausalGraph:
        """Return the CPDAG of a DAG: only the directions that all Markov equivalent DAGs share.

        Returns
        -------
        CausalGraph
        """
        self._need_dag("cpdag")
        return _of(self.nodes, orientation.cpdag(self._matrix), self.support)

    def d_separated(self, a: str, b: str, given: Iterable[str] = ()) -> bool:
        """Return whether two features of a DAG are d-separated given some others.

        Parameters
        ----------
        a, b : str
            Features.
        given : iterable of str
            Features to condition on.

        Returns
        -------
        bool
        """
        self._need_dag("d_separated")
        return orientation.separated(self._matrix, self._at(a), self._at(b), {self._at(g) for g in given})

    def _need_dag(self, what: str) -> None:
        if not self.is_dag:
            problem = f"needs a graph without undirected edges; there are {len(self.undirected)}"
            raise DataError("causal graph", [Fault(what, problem, "Use graph.dag() first.")])

    def compare(self, truth: CausalGraph) -> EdgeScore:
        """Score the agreement of this graph with the true one.

        Parameters
        ----------
        truth : CausalGraph
            A DAG or its `cpdag()`.

        Returns
        -------
        EdgeScore
            Scores of adjacencies and of arrowheads.
        """
        unshared = [Fault(f"node {n!r}", "is in one graph only") for n in set(self.nodes) ^ set(truth.nodes)]
        if unshared:
            raise DataError("these graphs have different features", sorted(unshared, key=str))
        joined = _score({frozenset(e) for e in self.edges}, {frozenset(e) for e in truth.edges})
        return EdgeScore(*joined, *_score(set(self.directed), set(truth.directed)))

    # In other forms

    def to_matrix(self) -> NDArray[np.int64]:
        """Return the adjacency matrix: `a[i, j] = 1` and `a[j, i] = 0` is i -> j; both 1 is undirected.

        Returns
        -------
        array of int
            `nodes x nodes`.
        """
        return self._matrix.astype(np.int64)

    @classmethod
    def from_matrix(cls, matrix: Any, nodes: Sequence[str]) -> CausalGraph:
        """Read an adjacency matrix; the inverse of `to_matrix`.

        Parameters
        ----------
        matrix : array
            `nodes x nodes`.
        nodes : sequence of str
            The features.

        Returns
        -------
        CausalGraph
        """
        a = np.asarray(matrix)
        if a.shape != (len(nodes), len(nodes)):
            shape = " x ".join(map(str, a.shape)) or "a single number"
            raise DataError(f"{len(nodes)} nodes need an adjacency matrix {len(nodes)} x {len(nodes)}, not {shape}")
        if not (np.isin(a, (0, 1)).all() and a.dtype.kind in "biuf"):
            raise DataError("an adjacency matrix holds 0 and 1 only; a[i, j] = 1 and a[j, i] = 0 is i -> j")
        return _of(tuple(nodes), a.astype(bool))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that can be written as JSON.

        Returns
        -------
        dict
        """
        return formats.to_dict(self)

    @classmethod
    def from_dict(cls, data: Any) -> CausalGraph:
        """Read plain data; the inverse of `to_dict`.

        Parameters
        ----------
        data : mapping
            Plain data.

        Returns
        -------
        CausalGraph
        """
        return cls(*formats.from_dict(data))

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return CSV text with columns `from,to,kind,support`, and one row of kind `node` per feature.

        Parameters
        ----------
        path : str or Path, optional
            Where to write it.

        Returns
        -------
        str
        """
        return formats.saved(formats.to_csv(self), path)

    @classmethod
    def from_csv(cls, source: str | Path, nodes: Sequence[str] | None = None) -> CausalGraph:
        """Read a CSV file (a path) or CSV text (a string with a line break).

        Rows of kind `node` are optional: features are in the order of `nodes`, or of their first occurrence.

        Parameters
        ----------
        source : str or Path
            A file, or text (a string with a line break).
        nodes : sequence of str, optional
            The features, if some have no edges.

        Returns
        -------
        CausalGraph
        """
        return cls(*formats.from_csv(*formats.loaded(source), nodes))

    def to_dot(self, path: str | Path | None = None) -> str:
        """Return DOT text for Graphviz.

        Parameters
        ----------
        path : str or Path, optional
            Where to write it.

        Returns
        -------
        str
        """
        return formats.saved(formats.to_dot(self), path)

    @classmethod
    def from_dot(cls, source: str | Path) -> CausalGraph:
        """Read a graph in DOT, the language of Graphviz; `dir=none` and `--` are undirected.

        Parameters
        ----------
        source : str or Path
            A file, or text (a string with a line break).

        Returns
        -------
        CausalGraph

        Raises
        ------
        FormatError
            If it is not valid DOT.
        """
        return cls(*formats.from_dot(*formats.loaded(source)))

    def to_networkx(self) -> Any:
        """Return a networkx graph; undirected edges are in it in both directions.

        Returns
        -------
        networkx.DiGraph
        """
        return formats.to_networkx(self)

    @classmethod
    def from_networkx(cls, graph: Any) -> CausalGraph:
        """Read a networkx graph.

        Parameters
        ----------
        graph : networkx.DiGraph or networkx.Graph
            Edges of a `DiGraph` in both directions are undirected.

        Returns
        -------
        CausalGraph
        """
        return cls(*formats.from_networkx(graph))


def _of(nodes: tuple[str, ...], a: NDArray[np.bool_], support: Mapping[Edge, float] | Support = ()) -> CausalGraph:
    both = a & a.T
    directed = [(nodes[i], nodes[j]) for i, j in np.argwhere(a & ~both)]
    # The diagonal is included, so that a self loop is found and reported.
    undirected = [(nodes[i], nodes[j]) for i, j in np.argwhere(np.triu(both))]
    return CausalGraph(nodes, tuple(directed), tuple(undirected), support)


def _score(claimed: set[Any], true: set[Any]) -> tuple[float, float, float]:
    right = len(claimed & true)
    precision = right / len(claimed) if claimed else 1.0
    recall = right / len(true) if true else 1.0
    f1 = 2 * right / (len(claimed) + len(true)) if claimed or true else 1.0
    return precision, recall, f1


def as_graph(given: Any, names: Sequence[str]) -> CausalGraph:
    """A graph over the features from a graph, an adjacency matrix, a networkx graph, or a CSV or DOT file."""
    graph = _read_given(given, names)
    unknown = [n for n in graph.nodes if n not in names]
    if unknown:
        faults = [Fault(f"node {n!r}", "is not a feature of the table", did_you_mean(n, names)) for n in unknown]
        raise DataError("the causal graph does not fit the table", faults)
    return graph


def _read_given(given: Any, names: Sequence[str]) -> CausalGraph:
    match given:
        case CausalGraph():
            return given
        case str() | Path():
            is_dot = str(given).endswith((".dot", ".gv"))
            return CausalGraph.from_dot(given) if is_dot else CausalGraph.from_csv(given)
        case np.ndarray() | list() | tuple():
            return CausalGraph.from_matrix(given, names)
        # A data frame, recognised without importing pandas.
        case object(columns=columns):
            return CausalGraph.from_matrix(np.asarray(given), [str(c) for c in columns])
        case _:
            return CausalGraph.from_networkx(given)
