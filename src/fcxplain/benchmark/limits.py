"""Which figures can be had together: the shortest way of every row, and answers chosen freely among all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array

from ..classifier.reading.networks import ReluNetwork
from ..encoding import TableEncoder
from ..errors import DataError, Fault, did_you_mean
from ..metrics.optimum import LegalSpaces, cheapest_part
from ..proof.reading import own_network
from ..region.region import Points, Region
from ..schema import Natural
from ..task import Task
from .measuring import chosen_rows, prepare
from .plan import RULE_SETS
from .report import published
from .report.comparison import ENOUGH

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

# The model is asked about at most so many legal rows in all.
LEGAL_ROWS = 50_000_000
# A score this much too low may be rounding.
SOLVER_ROUNDING = 1e-6


@dataclass(frozen=True)
class Fronts:
    """For each row, `least[row, c, n]`: the shortest way for the numbers, in their units, where c categories and n
    numbers change; infinite where there is none.

    `is_exact`: whether legal rows were tried. If not, this is a bound, and n = 1 stands for any number of numbers.
    """

    least: Floats
    is_exact: bool

    @property
    def possible(self) -> NDArray[np.bool_]:
        """Rows with any answer at all."""
        return np.asarray(np.isfinite(self.least).any(axis=(1, 2)))


def fronts(task: Task, rows: pd.DataFrame, *, on_row: Callable[[int], None] = lambda done: None) -> Fronts:
    """The fronts of rows that do not get the class wanted; `on_row` hears how many are done."""
    rows = rows[list(task.schema.names)]
    before, wanted = task.schema.checked(rows), task.wanted(task.predict(rows))
    spaces = LegalSpaces(task, before)
    if spaces.size <= LEGAL_ROWS:
        return _by_trying(task, spaces, before, wanted, on_row)
    network, encoder, _ = own_network(task)
    if network is None or len(network.layers) != 1:
        raise DataError(
            f"no limits can be told: there are more than {LEGAL_ROWS:,} legal rows to try, and the model's score is "
            "not linear. Take fewer rows, or another kind of classifier."
        )
    return _by_score(task, network, encoder, before, wanted)


# By trying every legal row


def _by_trying(
    task: Task, spaces: LegalSpaces, before: Natural, wanted: NDArray[np.object_], on_row: Callable[[int], None]
) -> Fronts:
    shape = len(task.schema.categories) + 1, len(task.schema.numbers) + 1
    least, done = np.full((len(wanted), *shape), np.inf), 0
    places, region = task.class_places(wanted), task.region(before)
    for points, classes, rows in spaces:
        for row in rows:
            left = np.flatnonzero(classes == places[row])
            least[row] = _least(task, points, region, row, left, shape)
            done += 1
            on_row(done)
    return Fronts(least, is_exact=True)


def _least(task: Task, points: Points, region: Region, row: int, left: Places, shape: tuple[int, int]) -> Floats:
    """The shortest way of one row for every number of changes, among the places left that keep the rules."""
    key, far = _changes(task, points, region.before, row, shape)
    found = np.full(shape[0] * shape[1], np.inf)
    while len(left):
        part, left = cheapest_part(left, far)
        kept = part[region.contains(points.natural(part), np.full(len(part), row))]
        np.minimum.at(found, key[kept], far[kept])
        # The nearest come first, so that most kinds of change are settled soon.
        left = left[far[left] < found[key[left]]]
    return found.reshape(shape)


def _changes(
    task: Task, points: Points, before: Natural, row: int, shape: tuple[int, int]
) -> tuple[NDArray[np.int16], Floats]:
    """For each point of a space, how many of each kind change (as a place in `shape`) and how far its numbers move."""
    key, far = np.zeros(1, dtype=np.int16), np.zeros(1)
    for choice, table in zip(points.region.choices, points.tables, strict=True):
        (feature,), values = (task.schema[name] for name in choice.names), table[:, 0]
        now = before[feature.name][row]
        step = feature.changed(now, values) * (shape[1] if feature.is_category else 1)
        moved = np.zeros(len(values)) if feature.is_category else np.abs(values - now) / task.units[feature.name]
        key = np.add.outer(key, step.astype(np.int16)).ravel()
        far = np.add.outer(far, moved).ravel()
    return key, far


# By a linear score


def _by_score(
    task: Task, network: ReluNetwork, encoder: TableEncoder, before: Natural, wanted: NDArray[np.object_]
) -> Fronts:
    layer, x = network.layers[0], encoder.encode_natural(before).double().numpy()
    logits, places = network.logits(x), task.class_places(wanted)
    least = np.full((len(x), len(task.schema.categories) + 1, 2), np.inf)
    for row in range(len(x)):
        target, other = places[row], int(logits[row].argmax())
        slopes = layer.weight[target] - layer.weight[other]
        missing = float(logits[row, other] - logits[row, target]) - SOLVER_ROUNDING
        gains = np.append(0.0, _category_gains(task, encoder, slopes, before, row).cumsum())
        rates, rooms = _number_gains(task, encoder, slopes, before, row)
        rest = np.full(least.shape[1], missing)
        rest[: len(gains)] -= gains
        rest[len(gains) :] = rest[len(gains) - 1]
        least[row, :, 0] = np.where(rest <= 0, 0.0, np.inf)
        least[row, :, 1] = _shortest(np.maximum(rest, 0.0), rates, rooms)
    return Fronts(least, is_exact=False)


def _category_gains(task: Task, encoder: TableEncoder, slopes: Floats, before: Natural, row: int) -> Floats:
    """What the best level of each category adds to the score, the most first; none adds less than nothing."""
    free = (n for n in task.schema.categories if n not in task.frozen)
    spans = ((slopes[encoder.span(n)], int(before[n][row])) for n in free)
    return np.sort([float(levels.max() - levels[now]) for levels, now in spans])[::-1]


def _number_gains(
    task: Task, encoder: TableEncoder, slopes: Floats, before: Natural, row: int
) -> tuple[Floats, Floats]:
    """What a unit of each number adds, the most first, and how many units there are up to its bound."""
    found = []
    for feature in (f for f in task.schema if f.is_number and f.name not in task.frozen):
        unit, now = task.units[feature.name], float(before[feature.name][row])
        slope = float(slopes[encoder.span(feature.name)][0]) * unit / encoder.scale_[feature.name][1]
        bound = float((feature.high if slope > 0 else feature.low) or 0.0)
        found.append((abs(slope), abs(bound - now) / unit))
    order = sorted(found, reverse=True)
    return np.array([rate for rate, _ in order]), np.array([room for _, room in order])


def _shortest(missing: Floats, rates: Floats, rooms: Floats) -> Floats:
    """How far numbers must move to make up what is missing, the steepest first; infinite where they cannot."""
    total, rest = np.zeros(len(missing)), missing.copy()
    for rate, room in zip(rates, rooms, strict=True):
        if rate > 0:
            used = np.minimum(rest / rate, room)
            total, rest = total + used, rest - used * rate
    return np.where(rest > SOLVER_ROUNDING, np.inf, total)


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
