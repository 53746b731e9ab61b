"""How much more the answers cost than they need to, where every legal row can be tried."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..explanation import ChangeCosts, Explanation
from ..rules import holds
from ..schema import Feature, Natural, Schema
from ..task import Task
from .distance import unit_notes
from .figure import Figure, Places, absent, first, sampled, taken

# Legal rows handled at a time: shown to the model, or held against the rules.
CHUNK = 65_536


@dataclass(frozen=True)
class LegalRows:
    """All legal rows that share what cannot change: the product of each feature's legal values."""

    schema: Schema
    fixed: dict[str, Any]
    """Natural values that stay."""
    extra: dict[str, Any]
    """Present values off the grid, which are legal as they are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each feature has."""
        return tuple(
            1 if f.name in self.fixed else (f.top or 0) + 1 + (f.name in self.extra) for f in self.schema.features
        )

    @property
    def size(self) -> int:
        """How many rows there are."""
        return math.prod(self.shape)

    @cached_property
    def values(self) -> dict[str, NDArray[Any]]:
        """The natural values of each feature. Only for a space that is small: a grid may have billions."""
        return {f.name: self._values(f) for f in self.schema}

    def _values(self, feature: Feature) -> NDArray[Any]:
        if feature.name in self.fixed:
            return np.asarray([self.fixed[feature.name]])
        grid = feature.at(np.arange((feature.top or 0) + 1))
        return np.append(grid, self.extra[feature.name]) if feature.name in self.extra else grid

    def natural(self, places: Places) -> dict[str, NDArray[Any]]:
        """Natural columns of some of the rows."""
        codes = np.unravel_index(places, self.shape)
        return {n: v[c] for (n, v), c in zip(self.values.items(), codes, strict=True)}


def spaces_of(task: Task, before: Natural) -> list[tuple[LegalRows, list[int]]]:
    """The legal rows, apart for each combination of values that stay, and the rows compared in each."""
    frozen = {*task.schema.immutable, *(r.freezes for r in task.rules if r.freezes)}
    found: dict[tuple[Any, ...], tuple[LegalRows, list[int]]] = {}
    for row in range(len(before[task.schema.names[0]])):
        now = {name: values[row].item() for name, values in before.items()}
        fixed = {name: value for name, value in now.items() if name in frozen}
        extra = {f.name: now[f.name] for f in task.schema if f.name not in frozen and _is_extra(f, now[f.name])}
        key = (*fixed.values(), *extra.items())
        found.setdefault(key, (LegalRows(task.schema, fixed, extra), []))[1].append(row)
    return list(found.values())


def _is_extra(feature: Feature, now: float) -> bool:
    """Whether a present value is legal without being on the grid."""
    if feature.is_category or feature.low is None or feature.high is None:
        return False
    return feature.low <= now <= feature.high and not feature.on_grid(np.asarray([now]))[0]


def classes_in(task: Task, space: LegalRows) -> NDArray[np.int16]:
    """The model's answer to each row of a space, as the place of the class."""
    found = np.empty(space.size, dtype=np.int16)
    for start in range(0, space.size, CHUNK):
        places = np.arange(start, min(start + CHUNK, space.size))
        table = task.table(space.natural(places))
        found[places] = task.classifier.decide(table).choice
    return found


def cheapest_part(left: Places, price: NDArray[np.float64]) -> tuple[Places, Places]:
    """The cheapest of the places left, as many as are handled at a time, and the others."""
    if len(left) <= CHUNK:
        return left, left[:0]
    order = np.argpartition(price[left], CHUNK)
    return left[order[:CHUNK]], left[order[CHUNK:]]


Floats = NDArray[np.float64]

# The model is asked about at most so many legal rows in all.
LEGAL_ROWS = 2_000_000
# The optimum is looked for in at most so many of the rows asked.
ROWS = 200
# From here on, counts are told by their size alone.
HUGE = 10**12
# Two sums of the same prices may differ by rounding.
ROUNDING = 1e-9


def optimality_gap(answer: Explanation, task: Task, *, limit: int = LEGAL_ROWS, rows: int = ROWS) -> float:
    """Mean cost above the cheapest counterfactual there is, in percent of that one's cost.

    The cost is what the answers were chosen by, where they say so (`Explanation.costs`), else `Checks.cost`. That
    several features change at all is left out of it where no single change will do.

    Every legal row is tried that keeps the immutables, so this exists only where there are at most `limit` of
    them over all rows compared. Rows compared are those whose answer of rank 1 passed every check, at most `rows`
    of them, drawn with the task's seed.
    """
    answer = answer.under(task)
    solved = first(answer)[answer.checks.passed[first(answer)]]
    notes = list(_left_out(int(answer.asked.sum()), len(solved), rows))
    if not len(solved):
        return absent("no answer passed every check", notes)
    solved = sampled(solved, rows, task.seed)
    before = task.schema.natural(answer.before.iloc[solved])
    spaces = spaces_of(task, before)
    total = sum(space.size for space, _ in spaces)
    if total > limit:
        # A product over many features is beyond what digits show, or a float holds.
        many = f"{total:,}" if total < HUGE else f"{Decimal(total):.1e}"
        return absent(f"{many} legal rows are too many to try them all (limit {limit:,})")
    prices = answer.costs or ChangeCosts()
    cost = _costs(task, prices, before, task.schema.natural(answer.answers.iloc[solved]))
    best = _cheapest(task, prices, spaces, before, answer.checks.wanted[solved], cost)
    necessary = np.where(best >= prices.several, prices.several, 0.0) if prices.several else 0.0
    return _gap(cost - necessary, best - necessary, notes + list(unit_notes(task)))


def _left_out(asked: int, solved: int, rows: int) -> Iterator[str]:
    if solved < asked:
        yield f"optimality_gap: left out {asked - solved:,} of {asked:,} rows asked, whose answer failed"
    if solved > rows:
        yield f"optimality_gap: a sample of {rows:,} of {solved:,} rows"


def _gap(cost: Floats, best: Floats, notes: list[str]) -> Figure:
    # Only a row that needs no change has an optimum of 0, as when another model is asked than before.
    dear = best > 0
    if not dear.all():
        notes.append(f"optimality_gap: left out {(~dear).sum():,} of {len(dear):,} rows, which need no change")
    if not dear.any():
        return absent("no row needs a change", notes)
    return Figure(100 * float(np.mean((cost[dear] - best[dear]) / best[dear])), notes=notes)


def _cheapest(
    task: Task,
    prices: ChangeCosts,
    spaces: list[tuple[LegalRows, list[int]]],
    before: Natural,
    wanted: NDArray[Any],
    cost: Floats,
) -> Floats:
    """The cost of the cheapest counterfactual of each row; `cost` is what its answer costs."""
    best = cost.copy()
    for space, rows in spaces:
        classes = classes_in(task, space)
        for row in rows:
            priced = _priced(task, prices, space, before, row)
            is_wanted = classes == task.classes.index(wanted[row])
            cheaper = np.flatnonzero(is_wanted & (priced < cost[row] - ROUNDING))
            best[row] = _lowest(task, space, taken(before, np.array([row])), cheaper, priced, cost[row])
    return best


def _priced(task: Task, prices: ChangeCosts, space: LegalRows, before: Natural, row: int) -> Floats:
    """What each row of a space costs one row to become."""
    total, count = np.zeros(1), np.zeros(1, dtype=np.int8)
    for feature in task.schema:
        price, changed = _price(task, prices, feature, before[feature.name][row], space.values[feature.name])
        total, count = np.add.outer(total, price).ravel(), np.add.outer(count, changed.astype(np.int8)).ravel()
    return np.asarray(total + prices.several * (count > 1))


def _costs(task: Task, prices: ChangeCosts, before: Natural, after: Natural) -> Floats:
    """What it costs each row to become its counterfactual."""
    parts = [_price(task, prices, f, before[f.name], after[f.name]) for f in task.schema]
    count = np.sum([changed for _, changed in parts], axis=0)
    return np.asarray(np.sum([price for price, _ in parts], axis=0) + prices.several * (count > 1))


def _price(
    task: Task, prices: ChangeCosts, feature: Feature, now: NDArray[Any], then: NDArray[Any]
) -> tuple[Floats, NDArray[np.bool_]]:
    """What one feature adds, and whether it changes."""
    changed = feature.changed(now, then)
    if feature.is_category:
        price = (prices.change + prices.category) * changed.astype(np.float64)
    else:
        price = prices.change * changed + prices.distance * np.abs(then - now) / task.units[feature.name]
    return price * prices.difficulty.get(feature.name, 1.0), changed


def _lowest(task: Task, space: LegalRows, now: Natural, left: Places, prices: Floats, otherwise: float) -> float:
    """The lowest price among the places left that keep the rules; the cheapest are looked at first."""
    while len(left):
        part, left = cheapest_part(left, prices)
        before = {n: np.broadcast_to(v, len(part)) for n, v in now.items()}
        kept = part[holds(task.rules, before, space.natural(part))]
        if len(kept):
            return float(prices[kept].min())
    return otherwise
