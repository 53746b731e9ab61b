"""The cost of answers above the optimum, for tasks in which every legal row can be tried."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..explanation import ChangeCosts, Explanation
from ..explanation.lof import sampled
from ..proof.enumeration import AskedRows
from ..region.region import Points, Region
from ..task import Task
from .answers import Figure, absent, first, unit_notes

Floats = NDArray[np.float64]

# Legal rows checked against the rules at a time.
CHUNK = 65_536
# The most legal rows, over all rows to explain, that the model is queried on.
LEGAL_ROWS = 2_000_000
# The most rows to explain for which the optimum is searched.
ROWS = 200
# Counts from here on are written as a power of ten.
HUGE = 10**12
# Two sums of the same prices may differ by rounding.
ROUNDING = 1e-9


def optimality_gap(answer: Explanation, task: Task, *, limit: int = LEGAL_ROWS, rows: int = ROWS) -> float:
    """Mean cost above that of the cheapest counterfactual, in percent of the latter.

    The cost is the one that the answers were chosen by, if they have it (`Explanation.costs`), else `Checks.cost`. The
    extra cost of changing several features is left out for rows that no single change can solve.

    Every legal row that keeps the immutables is tried, so the metric exists only if there are at most `limit` of them
    over all rows compared. These are the rows whose answer of rank 1 passed every check, at most `rows` of them, drawn
    with the task's seed.
    """
    answer = answer.under(task)
    solved = first(answer)[answer.checks.passed[first(answer)]]
    asked, notes = int(answer.asked.sum()), list[str]()
    if len(solved) < asked:
        left_out = f"{asked - len(solved):,} of {asked:,} rows to explain"
        notes.append(f"optimality_gap: left out {left_out}, whose answer failed")
    if len(solved) > rows:
        notes.append(f"optimality_gap: a sample of {rows:,} of {len(solved):,} rows")
    if not len(solved):
        return absent("no answer passed every check", notes)
    solved = sampled(solved, rows, task.seed)
    before = task.schema.natural(answer.before.iloc[solved])
    # Without the other rules, so that rows share queries of the model.
    region = task.relaxed(rules=[rule for rule in task.rules if rule.freezes]).region(before)
    spaces = _shared_spaces(region, task)
    total = sum(math.prod(map(int, region.sizes[sharing[0]].tolist())) for sharing in spaces)
    if total > limit:
        # A product over many features has too many digits to print, and may not fit in a float.
        many = f"{total:,}" if total < HUGE else f"{Decimal(total):.1e}"
        return absent(f"{many} legal rows are too many to try them all (limit {limit:,})")
    prices = answer.costs or ChangeCosts()
    cost = prices.total(task, before, task.schema.natural(answer.answers.iloc[solved]))
    best = _cheapest(task, prices, region, spaces, answer.checks.wanted[solved], cost)
    necessary = np.where(best >= prices.several, prices.several, 0.0) if prices.several else 0.0
    cost, best, notes = cost - necessary, best - necessary, [*notes, *unit_notes(task)]
    # Only a row that needs no change has an optimum of 0, as when the task has another model than the answers had.
    moves = best > 0
    if not moves.all():
        notes.append(f"optimality_gap: left out {(~moves).sum():,} of {len(moves):,} rows, which need no change")
    if not moves.any():
        return absent("no row needs a change", notes)
    return Figure(100 * float(np.mean((cost[moves] - best[moves]) / best[moves])), notes=notes)


def _shared_spaces(region: Region, task: Task) -> list[list[int]]:
    """The rows, grouped by the legal rows that they have in common."""
    before = region.before
    off_grid = [n for n in task.schema.numbers if n not in task.frozen]
    keys = [before[n] for n in region.fixed]
    keys += [np.where(task.schema[n].on_grid(before[n]), np.nan, before[n]) for n in off_grid]
    found: dict[tuple[str, ...], list[int]] = {}
    for row in range(len(region)):
        found.setdefault(tuple(str(key[row]) for key in keys), []).append(row)
    return list(found.values())


def _cheapest(
    task: Task, prices: ChangeCosts, space: Region, spaces: list[list[int]], wanted: NDArray[Any], cost: Floats
) -> Floats:
    """The cost of the cheapest counterfactual of each row; `cost` is that of its answer."""
    best, outcomes, region = cost.copy(), task.outcomes(wanted), task.region(space.before)
    memory = AskedRows(task, space.before)
    for rows in spaces:
        points = space.points(rows[0])
        said = memory.predictions(len(points), points.natural)
        for row in rows:
            priced = _priced(task, prices, points, row)
            met = outcomes[np.full(len(said.choice), row)].met(said.probabilities, said.choice)
            left = np.flatnonzero(met & (priced < cost[row] - ROUNDING))
            while len(left) and best[row] == cost[row]:
                # The cheapest come first.
                order = np.argpartition(priced[left], CHUNK) if len(left) > CHUNK else np.arange(len(left))
                part, left = left[order[:CHUNK]], left[order[CHUNK:]]
                kept = part[region.contains(points.natural(part), np.full(len(part), row))]
                best[row] = priced[kept].min(initial=cost[row])
    return best


def _priced(task: Task, prices: ChangeCosts, points: Points, row: int) -> Floats:
    """The cost of each point of a space for one row."""
    total, count = np.zeros(1), np.zeros(1, dtype=np.int8)
    for choice, table in zip(points.region.choices, points.tables, strict=True):
        (name,) = choice.names
        feature = task.schema[name]
        price, changed = prices.of_feature(task, feature, points.region.before[name][row], table[:, 0])
        total, count = np.add.outer(total, price).ravel(), np.add.outer(count, changed.astype(np.int8)).ravel()
    return np.asarray(total + prices.several * (count > 1))
