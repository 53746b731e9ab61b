"""What any method could answer a row at best: the shortest way to the class wanted for every number of changes.

Exact where all legal rows can be tried. For a wide table whose model has a linear score it is a bound: rules are left
out of it and numbers may take any value between their bounds, so that no method can do better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..encoding import TableEncoder
from ..errors import DataError
from ..metrics.counterfactuals import taken
from ..metrics.spaces import Space, cheapest_part, classes_in, spaces_of
from ..rules import holds
from ..schema import Natural
from ..search.network import Network
from ..search.prove import own_network
from ..task import Task

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

# The model is asked about at most so many legal rows in all.
LEGAL_ROWS = 50_000_000
# A score this much too low may be rounding.
ROUNDING = 1e-6


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
    spaces = spaces_of(task, before)
    if sum(space.size for space, _ in spaces) <= LEGAL_ROWS:
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
    task: Task,
    spaces: list[tuple[Space, list[int]]],
    before: Natural,
    wanted: NDArray[np.object_],
    on_row: Callable[[int], None],
) -> Fronts:
    shape = len(task.schema.categories) + 1, len(task.schema.numbers) + 1
    least, done = np.full((len(wanted), *shape), np.inf), 0
    for space, rows in spaces:
        classes = classes_in(task, space)
        for row in rows:
            left = np.flatnonzero(classes == task.classes.index(wanted[row]))
            least[row] = _least(task, space, taken(before, np.array([row])), left, shape)
            done += 1
            on_row(done)
    return Fronts(least, is_exact=True)


def _least(task: Task, space: Space, now: Natural, left: Places, shape: tuple[int, int]) -> Floats:
    """The shortest way of one row for every number of changes, among the places left that keep the rules."""
    key, far = _changes(task, space, now, shape)
    found = np.full(shape[0] * shape[1], np.inf)
    while len(left):
        part, left = cheapest_part(left, far)
        before = {n: np.broadcast_to(v, len(part)) for n, v in now.items()}
        kept = part[holds(task.rules, before, space.natural(part))]
        np.minimum.at(found, key[kept], far[kept])
        # The nearest come first, so that most kinds of change are settled soon.
        left = left[far[left] < found[key[left]]]
    return found.reshape(shape)


def _changes(task: Task, space: Space, now: Natural, shape: tuple[int, int]) -> tuple[NDArray[np.int16], Floats]:
    """For each row of a space, how many of each kind change (as a place in `shape`) and how far its numbers move."""
    key, far = np.zeros(1, dtype=np.int16), np.zeros(1)
    for feature in task.schema:
        values, old = space.values[feature.name], now[feature.name][0]
        step = feature.changed(old, values) * (shape[1] if feature.is_category else 1)
        moved = np.zeros(len(values)) if feature.is_category else np.abs(values - old) / task.units[feature.name]
        key = np.add.outer(key, step.astype(np.int16)).ravel()
        far = np.add.outer(far, moved).ravel()
    return key, far


# By a linear score


def _by_score(
    task: Task, network: Network, encoder: TableEncoder, before: Natural, wanted: NDArray[np.object_]
) -> Fronts:
    layer, x = network.layers[0], encoder.encode_natural(before).double().numpy()
    logits = network.logits(x)
    least = np.full((len(x), len(task.schema.categories) + 1, 2), np.inf)
    for row in range(len(x)):
        target, other = task.classes.index(wanted[row]), int(logits[row].argmax())
        slopes = layer.weight[target] - layer.weight[other]
        missing = float(logits[row, other] - logits[row, target]) - ROUNDING
        gains = np.append(0.0, _category_gains(task, encoder, slopes, before, row).cumsum())
        rates, rooms = _number_gains(task, encoder, slopes, before, row)
        rest = np.full(least.shape[1], missing)
        rest[: len(gains)] -= gains
        rest[len(gains) :] = rest[len(gains) - 1]
        least[row, :, 0] = np.where(rest <= 0, 0.0, np.inf)
        least[row, :, 1] = _shortest(np.maximum(rest, 0.0), rates, rooms)
    return Fronts(least, is_exact=False)


def _free(task: Task, names: tuple[str, ...]) -> list[str]:
    frozen = {*task.schema.immutable, *(r.freezes for r in task.rules if r.freezes)}
    return [name for name in names if name not in frozen]


def _category_gains(task: Task, encoder: TableEncoder, slopes: Floats, before: Natural, row: int) -> Floats:
    """What the best level of each category adds to the score, the most first; none adds less than nothing."""
    spans = ((slopes[encoder.span(n)], int(before[n][row])) for n in _free(task, task.schema.categories))
    return np.sort([float(levels.max() - levels[now]) for levels, now in spans])[::-1]


def _number_gains(
    task: Task, encoder: TableEncoder, slopes: Floats, before: Natural, row: int
) -> tuple[Floats, Floats]:
    """What a unit of each number adds, the most first, and how many units there are up to its bound."""
    found = []
    for feature in (task.schema[n] for n in _free(task, task.schema.numbers)):
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
    return np.where(rest > ROUNDING, np.inf, total)
