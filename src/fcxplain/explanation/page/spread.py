"""The distribution of a feature over the training rows: bars to draw, and the place of a value among them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...schema import Feature
from ...schema.definition import is_missing
from ...task import Task
from ..wording import amount, as_number, percent, short

BARS = 24
HEIGHT = 100
# This share at either end goes into the last bar, so that a few huge values do not squeeze all others into one.
TAIL = 0.005
# Longest caption below a bar, in letters.
LABEL = 24


@dataclass(frozen=True, eq=False)
class NumberSpread:
    """A number: every bar spans the same whole number of steps, so that heights can be compared."""

    feature: Feature
    values: NDArray[np.float64]
    """In ascending order."""

    kind = "number"

    def named(self, value: Any) -> str:
        """The caption below a value's bar: none, since the ends of the axis are labelled."""
        return ""

    @property
    def places(self) -> dict[str, float]:
        """Where the bars begin and end, for callers that compute `at` without a spread."""
        start, wide, count = self._range
        return {"from": start, "to": start + wide * count}

    @cached_property
    def _range(self) -> tuple[float, float, int]:
        """Start of the first bar, width, and number of bars."""
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
        """The lowest and highest value, with ≤ or ≥ where the last bar holds values beyond it."""
        start, wide, count = self._range
        half = float(self.feature.step or 1) / 2
        low, high = max(start + half, self.values[0]), min(start + wide * count - half, self.values[-1])
        first, last = amount(self.feature, float(low)), amount(self.feature, float(high))
        return f"≤ {first}" if self.values[0] < low else first, f"≥ {last}" if self.values[-1] > high else last

    def at(self, value: Any) -> float | None:
        """The position of a value along the bars, from 0 to 1."""
        if is_missing(value):
            return None
        start, wide, count = self._range
        return round(float(np.clip((as_number(self.feature, value) - start) / (wide * count), 0, 1)), 3)

    def words(self, now: Any, then: Any) -> str:
        """The shares of training rows with a lower value, now and then."""
        if is_missing(now) or is_missing(then):
            return ""
        return f"Higher than {self._below(now)} of past cases now, {self._below(then)} then"

    def _below(self, value: Any) -> str:
        below = np.searchsorted(self.values, as_number(self.feature, value), side="left")
        return percent(float(below) / len(self.values))


@dataclass(frozen=True, eq=False)
class LevelSpread:
    """A category: one bar per level, by rank or frequency; if there are too many, the rarest share the last bar."""

    feature: Feature
    values: NDArray[np.int64]

    @property
    def kind(self) -> str:
        """ "order" for ordered levels, else "levels"; a bar shared by several levels cannot be part of an order."""
        return "order" if self.feature.kind == "ordinal" and len(self._counts) <= BARS else "levels"

    def named(self, value: Any) -> str:
        """The level; "and others" where it shares its bar."""
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
        # The rarest levels share the last bar.
        places, order = np.full(len(self._counts), BARS - 1), np.asarray(self._order)
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
        """The first and last level of an order; unordered levels have no ends."""
        first, last = (short(self.feature.level_title(self.feature.levels[self._order[i]]), LABEL) for i in (0, -1))
        return (first, last) if self.kind == "order" else ("", "")

    def at(self, value: Any) -> float | None:
        """The middle of the level's bar."""
        code = self._code(value)
        return None if code is None else round((int(self._bar_of[code]) + 0.5) / len(self.bars), 3)

    def words(self, now: Any, then: Any) -> str:
        """The shares of training rows with these levels."""
        return f"Shared by {self._share(now)} of past cases now, {self._share(then)} then"

    def _share(self, value: Any) -> str:
        code = self._code(value)
        return percent(0.0 if code is None else float(self._counts[code] / max(1, self._counts.sum())))

    def _code(self, value: Any) -> int | None:
        if is_missing(value):
            return None
        return self.feature.code_of_level.get(value, self.feature.level_of_text.get(str(value)))


def _heights(counts: NDArray[np.int64]) -> list[int]:
    """Bar heights, rounded up so that no bar with values is invisible."""
    return [int(h) for h in np.ceil(counts * (HEIGHT / max(1, int(counts.max(initial=0)))))]


Spread = NumberSpread | LevelSpread


def spread_of(task: Task, name: str) -> Spread:
    """The spread of one feature over the task's training rows."""
    feature, values = task.schema[name], task.schema.natural(task.train, [name])[name]
    if feature.is_category:
        return LevelSpread(feature, values)
    return NumberSpread(feature, np.sort(values[~np.isnan(values)]))
