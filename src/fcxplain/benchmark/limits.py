"""Which figures can be had together: answers of any method, chosen freely for each row, held against wishes.

A linear program over the fronts of the rows. It may give a row a mixture of answers, so that what it cannot reach no
method can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array

from ..errors import DataError, Fault, did_you_mean
from . import published
from .comparison import ENOUGH
from .fronts import Floats, Fronts, fronts
from .measuring import chosen_rows, prepare
from .plan import RULE_SETS

Bounds = dict[str, float | None]

# What the paper calls the figures of a wish.
FIGURES = ("sparsity", "continuous_proximity", "categorical_proximity")
# Bounds are told with two decimals.
ROUNDING = 5e-3


@dataclass(frozen=True)
class Wish:
    """Means that answers are to have at most; None where anything will do.

    one_first: rows that a single change suffices for are to have one.
    """

    name: str
    changes: float | None = None
    continuous: float | None = None
    categorical: float | None = None
    one_first: bool = False


@dataclass(frozen=True)
class Limit:
    """What can be had of a wish.

    categories: the fewest categories changed, on average, where the rest of the wish holds; None where that alone
        cannot be. reachable: whether the whole wish can hold.
    two_changes: of the rows that two changes suffice for, the largest share, in percent, that can have no more where
        the wish holds; None where legal rows were not tried or the wish cannot hold.
    """

    wish: Wish
    categories: float | None
    reachable: bool
    two_changes: float | None


@dataclass(frozen=True)
class Limits:
    """The limits of some rows of a data set; `possible` counts those that have an answer."""

    data: str
    rules: str
    seed: int
    rows: int
    possible: int
    is_exact: bool
    lines: tuple[Limit, ...]


def limits(
    data: str,
    rules: str,
    wishes: Sequence[Wish] = (),
    *,
    rows: int | None = None,
    explained: int = 100,
    seed: int = 0,
    classifier: str = "paper",
    on_row: Callable[[int], None] = lambda done: None,
) -> Limits:
    """What can be had on the refused test rows of a data set; by default of the rows of the paper's table."""
    if rules not in RULE_SETS:
        raise DataError("", [Fault(f"rules {rules!r}", "is no set of rules", did_you_mean(rules, RULE_SETS))])
    prepared = prepare(data, seed, rows, classifier)
    asked = chosen_rows(prepared.refused, data, seed, explained)
    found = fronts(prepared.tasks[rules], asked, on_row=on_row)
    if not found.possible.any():
        raise DataError(f"none of the {len(asked):,} rows has an answer at all. Take more rows, or another seed.")
    lines = tuple(limit(found, wish) for wish in (wishes or paper_wishes(data)))
    return Limits(data, rules, seed, len(asked), int(found.possible.sum()), found.is_exact, lines)


def paper_wishes(data: str) -> list[Wish]:
    """Every row of the paper's table whose validity is enough, and the best of each of their figures at once."""
    names = [m for m in published.methods(data) if (published.figure(data, m, "validity") or 0.0) >= ENOUGH]
    figures = [[published.figure(data, m, f) for f in FIGURES] for m in names]
    least = [min((abs(v) for v in column if v is not None), default=None) for column in zip(*figures, strict=True)]
    least = least or [None] * len(FIGURES)
    return [_wish(m, found) for m, found in zip((*names, "all of them at once"), (*figures, least), strict=True)]


def _wish(name: str, figures: Sequence[float | None]) -> Wish:
    """Proximities are told as negative distances."""
    changes, continuous, categorical = (None if v is None else abs(v) for v in figures)
    return Wish(name, changes, continuous, categorical)


def limit(found: Fronts, wish: Wish) -> Limit:
    """What can be had of one wish."""
    options = _Options.of(found, wish.one_first)
    bounds = {"changes": wish.changes, "continuous": wish.continuous}
    categories = options.least("categorical", bounds)
    bound = np.inf if wish.categorical is None else wish.categorical
    reachable = categories is not None and categories <= bound + ROUNDING
    two = options.two_changes({**bounds, "categorical": wish.categorical}) if reachable and found.is_exact else None
    return Limit(wish, categories, reachable, two)


@dataclass(frozen=True)
class _Options:
    """Every kind of answer of every row that has any, one below the other."""

    row: NDArray[np.int64]
    figures: dict[str, Floats]

    @classmethod
    def of(cls, found: Fronts, one_first: bool) -> _Options:
        """One option for each number of categories and of numbers that change."""
        allowed = np.isfinite(found.least)
        if one_first:
            single = np.add.outer(*(np.arange(n) for n in allowed.shape[1:])) == 1
            needs_one = (allowed & single).any(axis=(1, 2), keepdims=True)
            allowed &= single | ~needs_one
        row, categories, numbers = np.nonzero(allowed)
        continuous = found.least[row, categories, numbers]
        # A bound that needs no number to move after all is no change of one.
        moves = numbers * (continuous > 0) if not found.is_exact else numbers
        figures = {"changes": categories + moves, "continuous": continuous, "categorical": categories}
        return cls(np.unique(row, return_inverse=True)[1], {n: v.astype(np.float64) for n, v in figures.items()})

    def least(self, figure: str, bounds: Bounds) -> float | None:
        """The smallest mean of a figure where the means of others keep their bounds; None where they cannot."""
        return self._program(self.figures[figure], bounds)

    def two_changes(self, bounds: Bounds) -> float | None:
        """Of the rows that two changes suffice for, the largest share that can have no more, in percent."""
        few = self.figures["changes"] <= 2
        suffice = np.isin(self.row, self.row[few])
        if not suffice.any():
            return None
        more = self._program((suffice & ~few).astype(np.float64), bounds)
        return None if more is None else 100 * (1 - more * self._rows / len(np.unique(self.row[few])))

    @property
    def _rows(self) -> int:
        return int(self.row.max()) + 1

    def _program(self, cost: Floats, bounds: Bounds) -> float | None:
        kept = {name: bound for name, bound in bounds.items() if bound is not None}
        each = csr_array((np.ones(len(self.row)), (self.row, np.arange(len(self.row)))))
        solved = linprog(
            cost / self._rows,
            A_ub=np.array([self.figures[name] / self._rows for name in kept]) if kept else None,
            b_ub=np.array([bound + ROUNDING for bound in kept.values()]) if kept else None,
            A_eq=each,
            b_eq=np.ones(self._rows),
        )
        return float(solved.fun) if solved.status == 0 else None
