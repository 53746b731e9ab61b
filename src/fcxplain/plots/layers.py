"""Layers of a drawn graph (Sugiyama, Tagawa & Toda 1981): which row a vertex stands in, and where in its row.

Vertices are whole numbers and every edge goes down. An edge that spans several rows passes each row between in a
vertex of its own, so that what follows sees edges between neighbouring rows only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

Pair = tuple[int, int]
Rows = list[list[int]]
Order = NDArray[np.int_]
Matrix = NDArray[np.float32]
STARTS = 6
MANY = 1_000
"""With more vertices than these, one start has to do."""


@dataclass(frozen=True)
class Sweep:
    """What is done to each row in turn."""

    sorts: bool
    exchanges: bool


BOTH, SORT, EXCHANGE = Sweep(True, True), Sweep(True, False), Sweep(False, True)
SCHEDULES = ((BOTH,) * 10, (SORT, SORT, EXCHANGE, EXCHANGE) * 4)
"""Neither is always better, and both are quick."""


@dataclass(frozen=True)
class Chains:
    """Vertices in rows. The first ones are the nodes; `chains` has the vertices that each edge passes, ends included.

    `carriers` are the vertices on which the edges' labels sit, none if there is no place for labels.
    """

    row_of: tuple[int, ...]
    chains: tuple[tuple[int, ...], ...]
    carriers: tuple[int, ...]

    @property
    def segments(self) -> list[Pair]:
        """The parts of edges between neighbouring rows, from the upper end to the lower."""
        return [pair for chain in self.chains for pair in pairwise(chain)]


def chained(n: int, edges: Sequence[Pair], labelled: bool) -> Chains:
    """Nodes 0 to n - 1 in rows; between two rows of nodes there is one for labels, if there are any."""
    step = 2 if labelled else 1
    row_of = [row * step for row in heights(n, edges)]
    carried = dict.fromkeys(range(max(row_of, default=0) + 1), 0)
    chains, carriers = [], []
    for a, b in sorted(edges, key=lambda e: (row_of[e[1]] - row_of[e[0]], e)):
        between = list(range(row_of[a] + 1, row_of[b]))
        chain = (a, *range(len(row_of), len(row_of) + len(between)), b)
        if labelled:
            # Short edges have no choice and come first; long ones take the row with the fewest labels so far.
            middle = (row_of[a] + row_of[b]) / 2
            chosen = min(between[::2], key=lambda row: (carried[row], abs(row - middle)))
            carried[chosen] += 1
            carriers.append(chain[chosen - row_of[a]])
        row_of += between
        chains.append(chain)
    return _as_given(edges, Chains(tuple(row_of), tuple(chains), tuple(carriers)))


def _as_given(edges: Sequence[Pair], chains: Chains) -> Chains:
    place = {(chain[0], chain[-1]): i for i, chain in enumerate(chains.chains)}
    order = [place[edge] for edge in edges]
    carriers = tuple(chains.carriers[i] for i in order) if chains.carriers else ()
    return Chains(chains.row_of, tuple(chains.chains[i] for i in order), carriers)


def heights(n: int, edges: Sequence[Pair]) -> list[int]:
    """A row for each node, causes above effects, such that edges are as short as they can be in all."""
    if not edges:
        return [0] * n
    ends = np.array(edges)
    cost = np.bincount(ends[:, 1], minlength=n) - np.bincount(ends[:, 0], minlength=n)
    found = linprog(cost, A_ub=differences(n, ends), b_ub=-np.ones(len(ends)), bounds=(0, n), method="highs-ds")
    # The matrix is totally unimodular, so that the optimum is whole up to rounding.
    rows = np.rint(found.x).astype(int)
    return [int(row) for row in rows - rows.min()]


def differences(n: int, pairs: NDArray[np.int_]) -> csr_array:
    """The matrix that takes values to `value[first] - value[second]`, one line per pair."""
    line = np.arange(len(pairs))
    values = np.concatenate([np.ones(len(pairs)), -np.ones(len(pairs))])
    return csr_array((values, (np.concatenate([line, line]), pairs.T.ravel())), shape=(len(pairs), n))


# Where in its row


@dataclass(frozen=True)
class Ordering:
    """The vertices of each row from left to right, and how often edges cross."""

    rows: Rows
    crossings: int


def orderings(chains: Chains) -> list[Ordering]:
    """Orders with few crossings, one for each of several starts."""
    rows: Rows = [[] for _ in range(max(chains.row_of) + 1)]
    for vertex, row in enumerate(chains.row_of):
        rows[row].append(vertex)
    links = _links(chains, rows)
    # The matrices are too small for threads to pay.
    with threadpool_limits(limits=1):
        starts = [[np.argsort(guess[row], kind="stable") for row in rows] for guess in _guesses(chains)]
        return [_settled(rows, links, start, sweeps) for start in starts for sweeps in SCHEDULES]


def _guesses(chains: Chains) -> list[NDArray[np.float64]]:
    """First places along the rows: slow waves over the graph, on which neighbours stand close together."""
    n = len(chains.row_of)
    if n > MANY:
        return [np.arange(n, dtype=np.float64)]
    ends = np.array(chains.segments)
    laplacian = np.zeros((n, n))
    laplacian[ends[:, 0], ends[:, 1]] = laplacian[ends[:, 1], ends[:, 0]] = -1
    laplacian -= np.diag(laplacian.sum(axis=1))
    waves = np.linalg.eigh(laplacian)[1][:, 1 : 1 + STARTS].T
    return [wave * np.sign(wave[np.abs(wave).argmax()]) for wave in waves]


def _settled(rows: Rows, links: list[Matrix], start: list[Order], sweeps: Sequence[Sweep]) -> Ordering:
    orders, best, fewest = list(start), list(start), _crossings(start, links)
    for number, sweep in enumerate(sweeps):
        _go_through(orders, links, sweep, downwards=number % 2 == 0)
        count = _crossings(orders, links)
        if count < fewest:
            best, fewest = list(orders), count
    return Ordering([[row[i] for i in order] for row, order in zip(rows, best, strict=True)], fewest)


def _links(chains: Chains, rows: Rows) -> list[Matrix]:
    """For each row but the last, which of its vertices are joined to which of the next row."""
    place = {vertex: i for row in rows for i, vertex in enumerate(row)}
    links = [np.zeros((len(a), len(b)), dtype=np.float32) for a, b in pairwise(rows)]
    for a, b in chains.segments:
        links[chains.row_of[a]][place[a], place[b]] = 1
    return links


def _beside(orders: list[Order], links: list[Matrix], row: int) -> tuple[Matrix | None, Matrix | None]:
    """The links of a row's vertices, as they are now ordered, to the rows above and below."""
    above = links[row - 1][np.ix_(orders[row - 1], orders[row])].T if row else None
    below = links[row][np.ix_(orders[row], orders[row + 1])] if row + 1 < len(orders) else None
    return above, below


def _crossings(orders: list[Order], links: list[Matrix]) -> int:
    return sum(int(np.triu(_costs(link[np.ix_(orders[i], orders[i + 1])]), 1).sum()) for i, link in enumerate(links))


def _costs(beside: Matrix) -> Matrix:
    """How often the edges of two vertices of a row cross if the first stands left of the second."""
    return np.asarray(beside @ (beside.cumsum(axis=1) - beside).T)


def _go_through(orders: list[Order], links: list[Matrix], sweep: Sweep, *, downwards: bool) -> None:
    """Go through the rows; sort each by the mean place of its neighbours in the row before, or exchange, or both."""
    for row in range(len(orders)) if downwards else range(len(orders) - 1, -1, -1):
        before = _beside(orders, links, row)[0 if downwards else 1]
        if sweep.sorts and before is not None:
            orders[row] = orders[row][np.argsort(_means(before), kind="stable")]
        if sweep.exchanges:
            sides = [side for side in _beside(orders, links, row) if side is not None]
            costs = sum((_costs(side) for side in sides), np.zeros((len(orders[row]),) * 2, dtype=np.float32))
            orders[row] = orders[row][_exchanged(costs)]


def _means(beside: Matrix) -> NDArray[np.float64]:
    """The mean place of each vertex's neighbours, from 0 to 1; its own where it has none."""
    degree = beside.sum(axis=1)
    mean = beside @ np.linspace(0, 1, beside.shape[1]) / np.maximum(degree, 1)
    return np.asarray(np.where(degree > 0, mean, np.linspace(0, 1, len(beside))))


def _exchanged(costs: Matrix) -> Order:
    """An order in which no exchange of two neighbours saves a crossing."""
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
