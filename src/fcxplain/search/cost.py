"""The cost of an answer: changes, distance, how much of an outlier it is, and whether effects follow their causes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal, get_args

import numpy as np

from ..causal import CausalGraph
from ..errors import DataError, Fault, did_you_mean
from .candidates import Candidates, within
from .density import USUAL, Density
from .space import Bools, Codes, Floats, Rows, SearchSpace

# Candidates per row whose LOF is measured, and the LOF up to which none is an outlier.
LOOKED_AT, DENSE = 8, 1.0
# More than any other cost.
MOST = 1e6
Prefer = Literal["fewest", "sparse", "balanced", "plausible"]


@dataclass(frozen=True)
class CostWeights:
    """The weight of each part of an answer's cost; see `FCx.explain`.

    Parameters
    ----------
    several : float
        Added once if more than one feature changes.
    change : float
        Each changed feature.
    category : float
        Each changed category, in addition, since it has no distance.
    distance : float
        Each unit (MAD of the training rows) that a number moves.
    density : float
        The logarithm of the answer's local outlier factor (LOF).
    support : float
        A combination of categories that few training rows have, or none.
    coherence : float
        Each effect in the causal graph that does not change although its cause does.
    times : float
        Up to two changes come before more, unless numbers would have to move more than this many times as far. With 0,
        the cost alone decides.

    Examples
    --------
    >>> from fcxplain import CostWeights
    >>> fcx.explain(rows, cost=CostWeights(change=3.0, density=1.0))  # doctest: +SKIP
    """

    several: float = 0.0
    change: float = 1.0
    category: float = 0.0
    distance: float = 1.0
    density: float = 0.0
    support: float = 0.0
    coherence: float = 0.0
    times: float = 0.0

    @property
    def looks_at_data(self) -> bool:
        """Whether the cost depends on training rows."""
        return self.density > 0 or self.support > 0


# `change` is in units of distance. With "sparse", a single change comes before all others, however far a number has to
# move; with "fewest", so do two changes before three, and so on.
PREFERENCES: dict[str, CostWeights] = {
    "fewest": CostWeights(several=MOST, change=1000.0),
    "sparse": CostWeights(several=MOST, change=4.0, category=0.65, times=3.0),
    "balanced": CostWeights(change=2.0, density=1.0, support=0.5, coherence=0.1),
    "plausible": CostWeights(change=1.0, distance=0.5, density=4.0, support=5.0, coherence=0.1),
}


def weights_for(prefer: str, weights: CostWeights | Mapping[str, float] | None) -> CostWeights:
    """The weights of a preference, with the given ones in place of its own."""
    if prefer not in PREFERENCES:
        remedy = did_you_mean(prefer, get_args(Prefer)) or f"Choose one of {', '.join(get_args(Prefer))}."
        raise DataError("", [Fault(f"prefer={prefer!r}", "is not known", remedy)])
    if isinstance(weights, CostWeights):
        return weights
    known = [f.name for f in fields(CostWeights)]
    given = dict(weights or {})
    faults = [Fault(f"weight {n!r}", "is not known", did_you_mean(n, known)) for n in given if n not in known]
    faults += [
        Fault(f"weight {n!r}", f"is {v!r}", "Give a number of at least 0.")
        for n, v in given.items()
        if n in known and not (np.isfinite(v) and v >= 0)
    ]
    if faults:
        raise DataError("these weights cannot be used", faults)
    return replace(PREFERENCES[prefer], **given)


def price(space: SearchSpace, weights: CostWeights, present: Rows, row: Codes, codes: Codes) -> Floats:
    """The cost of changes and distance, `n`: the part that does not depend on training rows."""
    each = weights.change + weights.category * ~space.is_number
    parts = each * space.changed(present, row, codes) + weights.distance * space.distance(present, row, codes)
    # Rounded, so that the order of summation never decides between equals.
    return np.round(parts @ space.difficulty, 9)


def effects_of(space: SearchSpace, graph: CausalGraph | None) -> Bools:
    """Which feature is a cause of which mutable one, `features x features`."""
    effects = np.zeros((len(space.names), len(space.names)), dtype=bool)
    for i, cause in enumerate(space.names):
        known = graph.children(cause) if graph is not None and cause in graph.nodes else ()
        effects[i] = [name in known for name in space.names]
    return np.asarray(effects & space.movable)


def incoherence(changed: Bools, effects: Bools) -> Floats:
    """The number of effects that do not change although their cause does, `n`."""
    return np.asarray(((changed.astype(np.float64) @ effects) * ~changed).sum(axis=1))


def supported(weights: CostWeights, density: Density, present: Rows, pool: Candidates) -> Candidates:
    """Candidates with the cost of unusual categories added."""
    if not weights.support or not len(density.categories):
        return pool
    return replace(
        pool, price=pool.price + weights.support * (density.count(present.legal(pool.row, pool.codes)) <= USUAL)
    )


def measured(weights: CostWeights, density: Density, present: Rows, pool: Candidates, k: int) -> Candidates:
    """Candidates with the cost of their LOF added; they must be in order of price, row by row.

    The cheapest are measured first. The LOF only adds to a price, so a candidate that costs more without it than the
    k-th best with it need not be measured and comes last.
    """
    if not weights.density or not len(pool):
        return pool
    turn, rows = within(pool.row), int(pool.row.max()) + 1
    most, price = int(turn.max()) + 1, np.full(len(pool), np.inf)
    alone = np.bincount(pool.row, minlength=rows) == 1
    limit = np.full(rows, np.inf)
    for first, last in itertools.pairwise(sorted({0, *(t for t in (k, k + 2, k + 5) if t < most), most})):
        # The LOF of a row's only candidate decides nothing.
        which = np.flatnonzero((turn >= first) & (turn < last) & (pool.price < limit[pool.row]) & ~alone[pool.row])
        if not len(which):
            continue
        outlying = np.log(np.maximum(density.lof(present.legal(pool.row[which], pool.codes[which])), DENSE) / DENSE)
        price[which] = np.round(pool.price[which] + weights.density * outlying, 9)
        held = np.full((rows, max(most, k)), np.inf)
        held[pool.row, turn] = price
        limit = np.sort(held, axis=1)[:, k - 1]
    return replace(pool, price=np.where(np.isfinite(price), price, pool.price + MOST))
