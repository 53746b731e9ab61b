"""Of many candidates, the best distinct ones of each row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def best_of_each(row: NDArray[np.int64], cost: Tensor, x_cf: Tensor, k: int) -> NDArray[np.int64]:
    """The places of the `k` cheapest distinct candidates of each row, row by row, the cheapest first.

    `row` and `cost`, `m`, belong to the candidates `x_cf`, `m x d`; of equal ones the first counts, and what costs
    infinitely much is no candidate.
    """
    costs = cost.detach().cpu().numpy()
    order = np.lexsort((np.arange(len(row)), costs, row))
    order = order[np.isfinite(costs[order])]
    known = np.concatenate([row[order, None].astype(np.float64), x_cf.detach().cpu().double().numpy()[order]], axis=1)
    _, first = np.unique(known, axis=0, return_index=True)
    order = order[np.sort(first)]
    begins = np.searchsorted(row[order], row[order], side="left")
    return np.asarray(order[np.arange(len(order)) - begins < k])
