"""FACE: the counterfactual is a training row at the end of a path of short, feasible steps between training rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.sparse import block_array, csr_array
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

from ..errors import DataError, Fault, between
from ..explanation import Explanation
from ..schema import Natural
from ..task import Task
from .base import BaseMethod, BatchSize, Count, Outputs, RowsAsked, Share, answered
from .grid import keeps

Form = Literal["knn", "epsilon", "kde"]
Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Steps = tuple[Codes, Codes, Floats]
"""Row, node and length of each step."""
# Distances, or products of kernels, held in memory at a time.
CELLS = 4_000_000
# Nodes that a kernel density is estimated from.
REFERENCES = 2_000
# A density of 0 would make a step infinitely expensive; a step of cost 0 would be no entry of a sparse matrix.
SPARSEST, CHEAPEST = 1e-300, 1e-12


class Terrain:
    """Distinct nodes `x`, `N x d`, and the steps between them.

    `density`, `N`, depends on the form: the inverse distance to the last neighbour, the number of nodes within the
    radius, or a kernel estimate, each up to a factor.
    """

    def __init__(self, x: Tensor, form: Form, neighbours: int, epsilon: float | None, kernel: Kernel | None) -> None:
        self.x, self.form, self.kernel = x, form, kernel
        self.neighbours = min(neighbours, len(x) - 1)
        near = torch.cat([part.topk(self.neighbours, largest=False).values for _, part in self._apart(x, own=True)])
        # Different rows may be the same point after rounding.
        last = np.maximum(near[:, -1].numpy(), CHEAPEST)
        self.closest = max(float(near[near > 0].min()) if (near > 0).any() else 1.0, CHEAPEST)
        self.radius = float(np.median(last)) if epsilon is None else epsilon
        self.density: Floats = 1 / last
        if form == "epsilon":
            within = [(part <= self.radius).sum(dim=1).numpy() for _, part in self._apart(x, own=True)]
            self.density = np.concatenate(within).astype(np.float64)
        elif kernel is not None:
            self.density = kernel.at_nodes

    def steps(self, x: Tensor, kind: Codes, kind_of_node: Codes, *, own: bool = False) -> Steps:
        """Short steps from rows to nodes of the same kind; `own` means that the rows are the nodes themselves."""
        found = []
        for start, apart in self._apart(x, own=own):
            same = torch.from_numpy(kind[start : start + len(apart), None] == kind_of_node)
            part = torch.where(same, apart, torch.inf)
            if self.form == "knn":
                length, node = part.topk(min(self.neighbours, len(self.x)), largest=False)
                row, place = torch.nonzero(length.isfinite(), as_tuple=True)
                found.append((row + start, node[row, place], length[row, place]))
            else:
                row, near = torch.nonzero(part <= self.radius, as_tuple=True)
                found.append((row + start, near, part[row, near]))
        rows, nodes, lengths = (torch.cat(columns).numpy() for columns in zip(*found, strict=True))
        return rows, nodes, lengths

    def cost(self, x: Tensor, steps: Steps, *, own: bool = False) -> Floats:
        """Costs of steps from rows: length times 1 - log p, where p is the density as a share of the largest."""
        length = steps[2]
        if self.kernel is None:
            share = np.log(np.maximum(length, self.closest) / self.closest)
        else:
            share = np.maximum(np.log(self.density.max()) - self.kernel.halfway(x, steps, own=own), 0)
        return np.asarray(np.maximum(length * (1 + share), CHEAPEST))

    def _apart(self, x: Tensor, *, own: bool) -> Iterator[tuple[int, Tensor]]:
        """Distances from rows to all nodes, in chunks with their first row; a node is infinitely far from itself."""
        size = max(1, CELLS // len(self.x))
        for start in range(0, max(len(x), 1), size):
            # The rounding of a matrix product would depend on the batch size.
            part = torch.cdist(x[start : start + size], self.x, compute_mode="donot_use_mm_for_euclid_dist")
            if own:
                part.diagonal(offset=start).fill_(torch.inf)
            yield start, part


class Kernel:
    """A Gaussian kernel density estimate from some of the nodes, which leaves out the row itself."""

    def __init__(self, x: Tensor, features: int, bandwidth: float | None, seed: int) -> None:
        chosen = np.sort(np.random.default_rng(seed).permutation(len(x))[:REFERENCES])
        self.references = x[chosen]
        self.is_reference = np.isin(np.arange(len(x)), chosen)
        # Scott's rule, where a feature counts as one dimension however many columns it has.
        spread = float((x.var(dim=0).sum() / features).sqrt()) or 1.0
        self.h = len(x) ** (-1 / (features + 4)) * spread if bandwidth is None else bandwidth
        self.roots = self._roots(x)
        counted = (self.roots**2).sum(axis=1) - self.is_reference
        self.at_nodes = np.maximum(counted / np.maximum(len(chosen) - self.is_reference, 1), SPARSEST)

    def _roots(self, x: Tensor) -> Floats:
        """Square roots of the kernels between rows and references, `n x references`."""
        apart = torch.cdist(x, self.references, compute_mode="donot_use_mm_for_euclid_dist")
        return np.asarray(torch.exp(-(apart**2) / (4 * self.h**2)).numpy())

    def halfway(self, x: Tensor, steps: Steps, *, own: bool) -> Floats:
        """Log density at the midpoints between rows and nodes; `own` as in `Terrain.steps`.

        By the parallelogram law, the kernel at a midpoint is the product of the roots at both ends, times a factor
        that depends only on their distance.
        """
        row, node, length = steps
        roots, bend = self.roots if own else self._roots(x), length**2 / (8 * self.h**2)
        size = max(1, CELLS // roots.shape[1])
        parts = [slice(start, start + size) for start in range(0, len(row), size)]
        products = [np.einsum("ij,ij->i", roots[row[part]], self.roots[node[part]]) for part in parts]
        product = np.concatenate([np.empty(0), *products])
        ends = self.is_reference[node].astype(int) + (self.is_reference[row] if own else 0)
        # Products that underflow carry no information, however far apart the ends are.
        whole = np.where(product > SPARSEST, bend + np.log(np.maximum(product, SPARSEST)), -np.inf)
        counted = np.exp(whole) - ends * np.exp(-bend)
        return np.asarray(np.log(np.maximum(counted / np.maximum(roots.shape[1] - ends, 1), SPARSEST)))


# Rows whose paths are searched at a time, for more than one answer per row.
ROWS = 256
NO_START = "no training row can be reached from it in one feasible step"
NO_END = "no training row gets the target class with enough probability and density"
NO_PATH = "no path of feasible steps leads from it to a training row that gets the target class"


@dataclass(frozen=True)
class Path:
    """The path to one answer: indices in `FACE.nodes_`, the endpoint last, and the total cost of its steps."""

    nodes: tuple[int, ...]
    cost: float


def _radius_faults(name: str, radius: float | None) -> list[Fault]:
    return [] if radius is None else between(name, radius, 0, open_low=True)


@dataclass(kw_only=True, eq=False, repr=False)
class FACE(BaseMethod):
    """Find the cheapest path over training rows to one with the target class.

    Parameters
    ----------
    graph : {"knn", "epsilon", "kde"}
        "knn" joins each row to its nearest `neighbours`; "epsilon" and "kde" join rows at most `epsilon` apart. A step
        of length d costs d (1 - log p), where p is the density along the step: 1 / d for "knn" and "epsilon", as in the
        paper up to a factor, and a Gaussian kernel estimate at the midpoint for "kde". p is a share of the largest
        density in the graph, so that no step costs less than its length.
    neighbours : int
        Neighbours of a node, see `graph`.
    epsilon : float, optional
        Radius, see `graph`; by default the median distance from a node to the last of its neighbours. The paper's
        values are for points in a plane; here a change of category is a step of length 1.4.
    bandwidth : float, optional
        Bandwidth of the kernel; by default Scott's rule.
    probability, density : float
        The least probability of the target class at an endpoint, and the share of least dense nodes that cannot be
        endpoints.
    max_nodes : int
        The most training rows in the graph. They are distinct, and drawn at random if there are more.
    seed : int
        Seed of all randomness.

    Attributes
    ----------
    paths_ : dict
        The paths of the last `explain`, by position of the row and rank of the answer; `path` returns one as a table.

    Notes
    -----
    | topic | the original (Poyiadzi et al. 2020) | here |
    |---|---|---|
    | conditions function | any condition on a step from one row to the next | every rule of the task, at each step; immutable features stay the same |
    | weight of a step | its length times -log density | its length times 1 - log p, where p is a share of the largest density: no step is free |
    | graph | k-NN, epsilon or KDE, with values for points in a plane | the same three; epsilon comes from the rows |
    | nodes | all rows | 5,000 distinct training rows |
    | endpoints | enough probability and density | at least 0.5, and not among the 5 % least dense |
    """  # noqa: E501

    _learnt, reads_rules = "edges_", True

    graph: Form = "knn"
    neighbours: Count = 50
    epsilon: Annotated[float | None, _radius_faults] = None
    bandwidth: Annotated[float | None, _radius_faults] = None
    probability: Share = 0.5
    density: Share = 0.05
    max_nodes: BatchSize = 5_000

    def fit(self, task: Task) -> Self:
        """Build the graph, and find the cheapest path from each node to an endpoint of each class."""
        self._check()
        self.nodes_ = self._drawn(task)
        self.task_, self.natural_ = task, task.schema.natural(self.nodes_)
        x = task.encoder.encode(self.nodes_).double()
        kernel = Kernel(x, len(task.schema), self.bandwidth, self.seed) if self.graph == "kde" else None
        self.terrain_ = Terrain(x, self.graph, self.neighbours, self.epsilon, kernel)
        self.edges_ = self._edges()
        self.ends_ = self._endpoints()
        # Backwards from all endpoints at once: one search finds the cheapest path from every node.
        back = self.edges_.T.tocsr()
        self.ways_ = {
            c: dijkstra(back, indices=ends, min_only=True, return_predecessors=True)
            for c, ends in enumerate(self.ends_)
            if len(ends)
        }
        return self

    def explain(self, rows: pd.DataFrame, k: int = 1) -> Explanation:
        """Return the endpoints of the `k` cheapest paths of each row that does not have the target class."""
        question = self._asked(rows, k)
        starts, wanted = self._starts(question), question.y_target.numpy()
        found: dict[tuple[int, int], Path] = {}
        for c in np.unique(wanted):
            which = np.flatnonzero(wanted == c)
            if len(self.ends_[c]):
                found |= self._cheapest(starts, which, c) if k == 1 else self._several(starts, which, c, k)
        found = dict(sorted(found.items()))
        self.paths_ = {(int(question.place[row]), rank): path for (row, rank), path in found.items()}
        row = np.asarray([row for row, _ in found], dtype=np.int64)
        x_cf = self.terrain_.x[[path.nodes[-1] for path in found.values()]].to(question.x.dtype)
        missing = np.setdiff1d(np.arange(len(question)), row).tolist()
        reasons = {r: self._reason(starts, r, wanted[r]) for r in missing}
        return answered(question, Outputs(x_cf, row, reasons), "FACE")

    def path(self, position: int, rank: int = 1) -> pd.DataFrame:
        """Return the training rows on the path to an answer, by the row's position in the table explained last."""
        self._check_state("paths_")
        return self.nodes_.iloc[list(self.paths_[position, rank].nodes)]

    def _drawn(self, task: Task) -> pd.DataFrame:
        distinct = task.train.drop_duplicates()
        if len(distinct) < 2:
            raise DataError("FACE needs at least two different training rows")
        order = np.random.default_rng(self.seed).permutation(len(distinct))
        return distinct.iloc[np.sort(order[: self.max_nodes])]

    def _edges(self) -> csr_array:
        """Costs of the feasible steps between nodes; being neighbours is symmetric."""
        kinds, _ = self._kinds(self.natural_)
        row, node, length = self.terrain_.steps(self.terrain_.x, kinds, kinds, own=True)
        row, node, length = np.concatenate([row, node]), np.concatenate([node, row]), np.concatenate([length, length])
        first = np.unique(row * len(kinds) + node, return_index=True)[1]
        steps = self._allowed(self.natural_, (row[first], node[first], length[first]))
        cost = self.terrain_.cost(self.terrain_.x, steps, own=True)
        return csr_array((cost, steps[:2]), shape=(len(kinds), len(kinds)))

    def _starts(self, question: RowsAsked) -> csr_array:
        """Costs of the feasible steps from the rows to explain to nodes, `n x nodes`."""
        now, x = question.natural, question.x.double()
        of_node, kinds = self._kinds(now)
        steps = self._allowed(now, self.terrain_.steps(x, kinds, of_node))
        return csr_array((self.terrain_.cost(x, steps), steps[:2]), shape=(len(x), len(of_node)))

    def _kinds(self, now: Natural) -> tuple[Codes, Codes]:
        """A number for each combination of immutable values: those of the nodes, and those of some rows."""
        frozen = [n for n in self.task_.schema.names if n in self.task_.frozen]
        nodes = len(self.nodes_)
        if not frozen:
            return np.zeros(nodes, dtype=np.int64), np.zeros(len(next(iter(now.values()))), dtype=np.int64)
        values = np.stack([np.concatenate([self.natural_[n], now[n]]).astype(np.float64) for n in frozen], axis=1)
        kinds = np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
        return kinds[:nodes], kinds[nodes:]

    def _allowed(self, now: Natural, steps: Steps) -> Steps:
        """The steps that satisfy the rules."""
        row, node, length = steps
        before, after = ({n: v[which] for n, v in side.items()} for side, which in ((now, row), (self.natural_, node)))
        kept = keeps(self.task_, before, after)
        return row[kept], node[kept], length[kept]

    def _endpoints(self) -> list[Codes]:
        """For each class, the nodes where a path may end."""
        decided = self.task_.classifier.decide(self.nodes_)
        known, answers = decided.probabilities, decided.choice
        dense = self.terrain_.density >= np.quantile(self.terrain_.density, self.density)
        return [
            np.flatnonzero((answers == c) & (known[:, c] >= self.probability) & dense)
            for c in range(len(self.task_.classes))
        ]

    def _cheapest(self, starts: csr_array, which: Codes, wanted: int) -> dict[tuple[int, int], Path]:
        """The cheapest path of each row: a first step, and the known path from there."""
        cost, onwards, _ = self.ways_[wanted]
        some = starts[which].tocoo()
        total = some.data + cost[some.col]
        order = np.lexsort((some.col, total, some.row))
        order = order[np.isfinite(total[order])]
        best = order[np.flatnonzero(np.diff(some.row[order], prepend=-1))]
        paths = _followed(some.col[best].astype(np.int64), onwards)
        return {
            (int(which[row]), 1): Path(path, float(length))
            for row, path, length in zip(some.row[best], paths, total[best], strict=True)
        }

    def _several(self, starts: csr_array, which: Codes, wanted: int, k: int) -> dict[tuple[int, int], Path]:
        """The cheapest paths from each row to `k` different endpoints."""
        found, nodes, ends = {}, len(self.nodes_), self.ends_[wanted]
        for part in np.array_split(which, -(-len(which) // ROWS)):
            graph = block_array([[self.edges_, None], [starts[part], csr_array((len(part), len(part)))]], format="csr")
            cost, back = dijkstra(graph, indices=nodes + np.arange(len(part)), return_predecessors=True)
            cost = cost[:, ends]
            best = np.argsort(cost, axis=1, kind="stable")[:, :k]
            for row, rank in np.argwhere(np.isfinite(np.take_along_axis(cost, best, axis=1))):
                walked = _followed(ends[best[row, [rank]]], np.where(back[row] < nodes, back[row], -1))[0]
                found[int(part[row]), int(rank) + 1] = Path(walked[::-1], float(cost[row, best[row, rank]]))
        return found

    def _reason(self, starts: csr_array, row: int, wanted: int) -> str:
        if not len(self.ends_[wanted]):
            return NO_END
        return NO_PATH if starts.indptr[row + 1] > starts.indptr[row] else NO_START


def _followed(first: Codes, onwards: NDArray[np.int32]) -> list[tuple[int, ...]]:
    """Paths from some nodes, each followed to its end."""
    next_ = np.maximum(onwards, -1).astype(np.int64)
    lines, here = [first], next_[first]
    while (here >= 0).any():
        lines.append(here)
        here = np.where(here >= 0, next_[here], -1)
    return [tuple(node for node in path if node >= 0) for path in np.stack(lines, axis=1).tolist()]
