"""How a feature is spread over the training rows: bars to draw, and where a value stands among them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...schema import Feature
from ...task import Task
from ..wording import amount, as_number, is_missing, percent, short

BARS = 24
HEIGHT = 100
# So much at either end is put into the last bar, so that a few huge values do not press all others into one.
TAIL = 0.005
# Letters of a level below its bar.
LABEL = 24


@dataclass(frozen=True, eq=False)
class NumberSpread:
    """A number: bars a whole number of steps wide, so that none of them has more values to hold than its neighbour."""

    feature: Feature
    values: NDArray[np.float64]
    """In ascending order."""

    kind = "number"

    def named(self, value: Any) -> str:
        """What stands below a value's own bar: nothing, since the ends of the bars say where a number stands."""
        return ""

    @property
    def places(self) -> dict[str, float]:
        """What `at` goes by, for who has no spread: where the bars begin and end."""
        start, wide, count = self._range
        return {"from": start, "to": start + wide * count}

    @cached_property
    def _range(self) -> tuple[float, float, int]:
        """Where the first bar begins, how wide each is, and how many there are."""
        step = float(self.feature.step or 1)
        low, high = np.quantile(self.values, [TAIL, 1 - TAIL], method="nearest")
        wide = step * max(1, int(np.ceil(((high - low) / step + 1) / BARS)))
        return float(low) - step / 2, wide, max(1, int(np.ceil((high - low + step) / wide - 1e-9)))

    @cached_property
    def bars(self) -> list[int]:
        """Heights from 0 to 100."""
        start, wide, count = self._range
        inner = start + wide * np.arange(1, count)
        return _heights(np.bincount(np.searchsorted(inner, self.values, side="right"), minlength=count))

    @property
    def ends(self) -> tuple[str, str]:
        """The lowest and the highest value; marked where the last bar holds what lies beyond."""
        start, wide, count = self._range
        half = float(self.feature.step or 1) / 2
        low, high = max(start + half, self.values[0]), min(start + wide * count - half, self.values[-1])
        first, last = amount(self.feature, float(low)), amount(self.feature, float(high))
        return f"≤ {first}" if self.values[0] < low else first, f"≥ {last}" if self.values[-1] > high else last

    def at(self, value: Any) -> float | None:
        """Where a value stands along the bars, from 0 to 1."""
        if is_missing(value):
            return None
        start, wide, count = self._range
        return round(float(np.clip((as_number(self.feature, value) - start) / (wide * count), 0, 1)), 3)

    def words(self, now: Any, then: Any) -> str:
        """How many training rows have less, now and then."""
        if is_missing(now) or is_missing(then):
            return ""
        return f"Above {self._below(now)} of training rows now, {self._below(then)} then"

    def _below(self, value: Any) -> str:
        return percent(
            float(np.searchsorted(self.values, as_number(self.feature, value), side="left")) / len(self.values)
        )


@dataclass(frozen=True, eq=False)
class LevelSpread:
    """A category: a bar for each level, by rank or frequency; of too many, the rarest share the last bar."""

    feature: Feature
    values: NDArray[np.int64]

    @property
    def kind(self) -> str:
        """ "order" for levels one after the other, else "levels"; a bar that several share has no place in an order."""
        return "order" if self.feature.kind == "ordinal" and len(self._counts) <= BARS else "levels"

    def named(self, value: Any) -> str:
        """The level, or that its bar is not its own."""
        code = self._code(value)
        if code is None:
            return ""
        shared = len(self._counts) > BARS and self._bar_of[code] == BARS - 1
        title = self.feature.level_title(self.feature.levels[code])
        return f"{short(title, LABEL - 12)} and others" if shared else short(title, LABEL)

    @property
    def places(self) -> dict[str, float]:
        """The middle of each level's bar, by the level as text."""
        return {str(level): self.at(level) or 0.0 for level in self.feature.levels}

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return np.bincount(self.values[self.values >= 0], minlength=len(self.feature.levels))

    @cached_property
    def _bar_of(self) -> NDArray[np.int64]:
        """The bar of each level."""
        places, order = np.full(len(self._counts), BARS - 1), np.asarray(self._order)
        # The rarest share a bar, which has no place in an order.
        own = order if len(order) <= BARS else np.argsort(-self._counts, kind="stable")[: BARS - 1]
        places[own] = np.arange(len(own))
        return places

    @cached_property
    def _order(self) -> list[int]:
        return self.feature.order_of_levels(self._counts)

    @cached_property
    def bars(self) -> list[int]:
        """Heights from 0 to 100."""
        return _heights(np.bincount(self._bar_of, weights=self._counts).astype(np.int64))

    @property
    def ends(self) -> tuple[str, str]:
        """The first and the last level of an order; other levels have no ends."""
        first, last = (short(self.feature.level_title(self.feature.levels[self._order[i]]), LABEL) for i in (0, -1))
        return (first, last) if self.kind == "order" else ("", "")

    def at(self, value: Any) -> float | None:
        """The middle of the level's bar."""
        code = self._code(value)
        return None if code is None else round((int(self._bar_of[code]) + 0.5) / len(self.bars), 3)

    def words(self, now: Any, then: Any) -> str:
        """How many training rows have the levels."""
        return f"Shared by {self._share(now)} of training rows now, {self._share(then)} then"

    def _share(self, value: Any) -> str:
        code = self._code(value)
        return percent(0.0 if code is None else float(self._counts[code] / max(1, self._counts.sum())))

    def _code(self, value: Any) -> int | None:
        if is_missing(value):
            return None
        return self.feature.code_of_level.get(value, self.feature.level_of_text.get(str(value)))


def _heights(counts: NDArray[np.int64]) -> list[int]:
    """Bars of which none that holds anything is too low to be seen."""
    scaled = np.ceil(counts * (HEIGHT / max(1, int(counts.max(initial=0)))))
    return [int(h) for h in scaled]


Spread = NumberSpread | LevelSpread


def spread_of(task: Task, name: str) -> Spread:
    """The spread of one feature over the task's training rows."""
    feature, values = task.schema[name], task.schema.natural(task.train, [name])[name]
    return (
        LevelSpread(feature, values)
        if feature.is_category
        else NumberSpread(feature, np.sort(values[~np.isnan(values)]))
    )
