"""FACE: the counterfactual is a training row that a path of short, feasible steps between training rows leads to.

Poyiadzi, Sokol, Santos-Rodriguez, De Bie and Flach (2020). Steps through dense regions are cheap, and the endpoint is
the one with the cheapest path from the row. No gradients are needed: the user's own model is asked about nodes only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import block_array, csr_array
from scipy.sparse.csgraph import dijkstra
from sklearn.base import BaseEstimator

from ..errors import DataError
from ..explanation import Explanation
from ..model_view import layout
from ..rules import holds
from ..schema import Natural
from ..task import Task
from .base import Asked, Outputs, answered, asked, fitted
from .settings import between, one_of, refuse, whole
from .terrain import Codes, Form, Kernel, Steps, Terrain

# Rows whose paths are searched at a time, where more than one answer is wanted.
ROWS = 256
NO_START = "no training row can be reached from it in one feasible step"
NO_END = "no training row gets the class wanted with enough probability and density"
NO_PATH = "no path of feasible steps leads from it to a training row that gets the class wanted"


@dataclass(frozen=True)
class Path:
    """The way to one answer: places in `FACE.nodes_`, the endpoint last, and what all its steps cost."""

    nodes: tuple[int, ...]
    cost: float


class FACE(BaseEstimator):  # type: ignore[misc]
    """The cheapest path over training rows to one with the class wanted.

    graph: "knn" joins each row to its nearest `neighbours`; "epsilon" and "kde" join rows no further apart than
        `epsilon`. A step of length d costs d (1 - log p), where p is the density on the way: 1 / d for "knn" and
        "epsilon", as in the paper up to a factor, and for "kde" a Gaussian kernel estimate halfway. It counts as a
        share of the largest density in the graph, so that no step costs less than its length.
    epsilon: by default the median distance from a node to the last of its neighbours. The paper's values are for points
        in a plane; here another category is a step of length 1.4.
    bandwidth: of the kernel; by default Scott's rule.
    probability: an endpoint has the class wanted, and with at least this probability.
    density: this share of the nodes, the least dense, are no endpoints.
    respect_rules: whether every step must keep the task's rules, from each row of a path to the next, as the paper's
        conditions function would have it. What may not change stays the same along every path in any case.
    max_nodes: training rows in the graph, all different; drawn at random where there are more.

    `explain` leaves the paths in `paths_`, by position of the row and rank of the answer; `path` shows one.
    """

    def __init__(
        self,
        *,
        graph: Form = "knn",
        neighbours: int = 50,
        epsilon: float | None = None,
        bandwidth: float | None = None,
        probability: float = 0.5,
        density: float = 0.05,
        respect_rules: bool = False,
        max_nodes: int = 5_000,
        seed: int = 0,
    ) -> None:
        self.graph, self.neighbours, self.epsilon, self.bandwidth = graph, neighbours, epsilon, bandwidth
        self.probability, self.density, self.respect_rules = probability, density, respect_rules
        self.max_nodes, self.seed = max_nodes, seed

    @property
    def reads_rules(self) -> bool:
        """Whether the answers depend on the task's rules."""
        return self.respect_rules

    def fit(self, task: Task) -> Self:
        """Build the graph, and find the cheapest way from each node to an endpoint of each class."""
        self._check()
        self.nodes_ = self._drawn(task)
        self.task_, self.natural_ = task, task.schema.natural(self.nodes_)
        x = task.encoder.encode(self.nodes_).double()
        kernel = Kernel(x, len(task.schema), self.bandwidth, self.seed) if self.graph == "kde" else None
        self.terrain_ = Terrain(x, self.graph, self.neighbours, self.epsilon, kernel)
        self.edges_ = self._edges()
        self.ends_ = self._endpoints()
        # Backwards from all endpoints at once: one search tells the cheapest way from every node.
        back = self.edges_.T.tocsr()
        self.ways_ = {
            c: dijkstra(back, indices=ends, min_only=True, return_predecessors=True)
            for c, ends in enumerate(self.ends_)
            if len(ends)
        }
        return self

    def explain(self, rows: pd.DataFrame, k: int = 1) -> Explanation:
        """The endpoints of the `k` cheapest paths of each row that does not have the class wanted."""
        fitted(self, "edges_")
        refuse(self, whole("k", k, 1))
        question = asked(self.task_, rows)
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
        """The training rows on the way to an answer, for the row at a position of the table explained last."""
        fitted(self, "paths_")
        return self.nodes_.iloc[list(self.paths_[position, rank].nodes)]

    def _drawn(self, task: Task) -> pd.DataFrame:
        distinct = task.train.drop_duplicates()
        if len(distinct) < 2:
            raise DataError("FACE needs at least two different training rows")
        order = np.random.default_rng(self.seed).permutation(len(distinct))
        return distinct.iloc[np.sort(order[: self.max_nodes])]

    def _edges(self) -> csr_array:
        """What each feasible step from node to node costs; a neighbour's neighbour is one's own."""
        kinds, _ = self._kinds(self.natural_)
        row, node, length = self.terrain_.steps(self.terrain_.x, kinds, kinds, own=True)
        row, node, length = np.concatenate([row, node]), np.concatenate([node, row]), np.concatenate([length, length])
        first = np.unique(row * len(kinds) + node, return_index=True)[1]
        steps = self._allowed(self.natural_, (row[first], node[first], length[first]))
        cost = self.terrain_.cost(self.terrain_.x, steps, own=True)
        return csr_array((cost, steps[:2]), shape=(len(kinds), len(kinds)))

    def _starts(self, question: Asked) -> csr_array:
        """What each feasible step from the rows asked to nodes costs, `n x nodes`."""
        now, x = question.natural, question.x.double()
        of_node, kinds = self._kinds(now)
        steps = self._allowed(now, self.terrain_.steps(x, kinds, of_node))
        return csr_array((self.terrain_.cost(x, steps), steps[:2]), shape=(len(x), len(of_node)))

    def _kinds(self, now: Natural) -> tuple[Codes, Codes]:
        """A number for each combination of what may not change: of the nodes, and of some rows."""
        frozen = [f.name for f, may in zip(self.task_.schema, layout(self.task_).mutable, strict=True) if not may]
        nodes = len(self.nodes_)
        if not frozen:
            return np.zeros(nodes, dtype=np.int64), np.zeros(len(next(iter(now.values()))), dtype=np.int64)
        values = np.stack([np.concatenate([self.natural_[n], now[n]]).astype(np.float64) for n in frozen], axis=1)
        kinds = np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
        return kinds[:nodes], kinds[nodes:]

    def _allowed(self, now: Natural, steps: Steps) -> Steps:
        """The steps that keep the rules, where that is wanted."""
        if not self.respect_rules or not self.task_.rules:
            return steps
        row, node, length = steps
        before, after = ({n: v[which] for n, v in side.items()} for side, which in ((now, row), (self.natural_, node)))
        kept = holds(self.task_.rules, before, after)
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
        """The one cheapest path of each row: a first step, and the known way from there."""
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
        """The cheapest paths of each row to `k` different endpoints, searched from the rows."""
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

    def _check(self) -> None:
        wide = {"epsilon": self.epsilon, "bandwidth": self.bandwidth}
        respect: Any = self.respect_rules
        refuse(
            self,
            one_of("graph", self.graph, ("knn", "epsilon", "kde")),
            whole("neighbours", self.neighbours, 1),
            *(between(name, value, 0, open_low=True) for name, value in wide.items() if value is not None),
            between("probability", self.probability, 0, 1),
            between("density", self.density, 0, 1),
            one_of("respect_rules", respect, (True, False)),
            whole("max_nodes", self.max_nodes, 2),
            whole("seed", self.seed, 0),
        )


def _followed(first: Codes, onwards: NDArray[np.int32]) -> list[tuple[int, ...]]:
    """Paths from some nodes, each followed to where it goes no further."""
    next_ = np.maximum(onwards, -1).astype(np.int64)
    lines, here = [first], next_[first]
    while (here >= 0).any():
        lines.append(here)
        here = np.where(here >= 0, next_[here], -1)
    return [tuple(node for node in path if node >= 0) for path in np.stack(lines, axis=1).tolist()]
