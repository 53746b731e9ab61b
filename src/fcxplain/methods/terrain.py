"""The ground that FACE's paths run over: which rows lie near each other, how dense it is there, and what a step costs.

Rows are points in encoded columns. Nothing depends on the batch that a row comes in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Form = Literal["knn", "epsilon", "kde"]
Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Steps = tuple[Codes, Codes, Floats]
"""From which row, to which node, and how far."""
# Distances, and products of kernels, held at a time.
CELLS = 4_000_000
# Nodes that a kernel density is estimated from.
REFERENCES = 2_000
# A density of 0 would make a step infinitely dear, and a step that costs nothing is none in a sparse matrix.
SPARSEST, CHEAPEST = 1e-300, 1e-12


class Terrain:
    """Nodes `x`, `N x d`, all different, and the ways between them.

    `density`, `N`, is one over the distance to the last of the neighbours, the number of nodes within the radius, or
    a kernel estimate: each form's own, up to a factor.
    """

    def __init__(self, x: Tensor, form: Form, neighbours: int, epsilon: float | None, kernel: Kernel | None) -> None:
        self.x, self.form, self.kernel = x, form, kernel
        self.neighbours = min(neighbours, len(x) - 1)
        near = torch.cat([part.topk(self.neighbours, largest=False).values for _, part in self._apart(x, own=True)])
        # Different rows may be the same point where columns are rounded.
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
        """Short steps from rows to nodes of the same kind; `own` says that the rows are the nodes themselves."""
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
        """What steps from rows cost: their length times 1 - log p, where p is a share of the largest density."""
        length = steps[2]
        if self.kernel is None:
            share = np.log(np.maximum(length, self.closest) / self.closest)
        else:
            share = np.maximum(np.log(self.density.max()) - self.kernel.halfway(x, steps, own=own), 0)
        return np.asarray(np.maximum(length * (1 + share), CHEAPEST))

    def _apart(self, x: Tensor, *, own: bool) -> Iterator[tuple[int, Tensor]]:
        """Distances from rows to all nodes, some rows at a time, and where these begin; a node is not near itself."""
        size = max(1, CELLS // len(self.x))
        for start in range(0, max(len(x), 1), size):
            # A matrix product would round differently in batches of another size.
            part = torch.cdist(x[start : start + size], self.x, compute_mode="donot_use_mm_for_euclid_dist")
            if own:
                part.diagonal(offset=start).fill_(torch.inf)
            yield start, part


class Kernel:
    """A Gaussian kernel density estimate from some of the nodes, in which no row counts for itself."""

    def __init__(self, x: Tensor, features: int, bandwidth: float | None, seed: int) -> None:
        chosen = np.sort(np.random.default_rng(seed).permutation(len(x))[:REFERENCES])
        self.references = x[chosen]
        self.is_reference = np.isin(np.arange(len(x)), chosen)
        # Scott's rule, in which a feature is a dimension whatever its columns.
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
        """The log of the density halfway between rows and nodes, `own` as in `Terrain.steps`.

        By the parallelogram law the kernel at a midpoint is the product of the roots at both ends, times a factor
        that depends on their distance alone.
        """
        row, node, length = steps
        roots, bend = self.roots if own else self._roots(x), length**2 / (8 * self.h**2)
        size = max(1, CELLS // roots.shape[1])
        parts = [slice(start, start + size) for start in range(0, len(row), size)]
        products = [np.einsum("ij,ij->i", roots[row[part]], self.roots[node[part]]) for part in parts]
        product = np.concatenate([np.empty(0), *products])
        ends = self.is_reference[node].astype(int) + (self.is_reference[row] if own else 0)
        # Products too small for a float say nothing, however far apart the ends are.
        whole = np.where(product > SPARSEST, bend + np.log(np.maximum(product, SPARSEST)), -np.inf)
        counted = np.exp(whole) - ends * np.exp(-bend)
        return np.asarray(np.log(np.maximum(counted / np.maximum(roots.shape[1] - ends, 1), SPARSEST)))
