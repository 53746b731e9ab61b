"""The region in codes: what the rules leave to each row of a batch, as whole numbers.

It is computed once for the rows; candidates are then checked by comparing whole numbers. Wherever it is available, it
agrees with the exact reading of the rules and with repair on every candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..rules.check import Bools
from ..schema import Feature, Natural
from .boxes import Codes, Floats, level_distances
from .region import Choice, Region
from .repair import Repairer

# With more ways of keeping rules than this, checking the rules themselves is quicker. With fewer, only those that some
# row needs are kept: what a rule says about the present row is known, which leaves few.
MOST_WAYS = 128
# Candidates times ways that are processed together.
HELD = 2**22


@dataclass(frozen=True, eq=False)
class NumberSide:
    """What each way of keeping rules leaves of a number: its lowest and highest code, `rows x ways`."""

    place: int
    """The feature's column among the codes."""
    feature: Feature
    unit: float
    low: Codes
    high: Codes

    @property
    def open(self) -> Bools:
        """Whether a way leaves anything, `rows x ways`."""
        return np.asarray(self.low <= self.high)

    def holds(self, row: Codes, codes: Codes) -> Bools:
        """Whether each way allows the codes of candidates, `n x ways`."""
        own = codes[:, None]
        return np.asarray((self.low[row] <= own) & (own <= self.high[row]))

    def within(self, way: int, other: int) -> Bools:
        """Whether another way allows all that one does, row by row."""
        return np.asarray((self.low[:, other] <= self.low[:, way]) & (self.high[:, way] <= self.high[:, other]))

    def take(self, ways: Sequence[int]) -> NumberSide:
        """Some of the ways."""
        return replace(self, low=self.low[:, ways], high=self.high[:, ways])

    def nearest(self, row: Codes, codes: Codes) -> tuple[Codes, Floats]:
        """The nearest codes that each way allows, and what it costs to go there, both `n x ways`."""
        low = self.low[row]
        found = np.clip(codes[:, None], low, np.maximum(low, self.high[row]))
        return found, np.abs(self.feature.at(found) - self.feature.at(codes)[:, None]) / self.unit


@dataclass(frozen=True, eq=False)
class LevelSide:
    """What each way of keeping rules leaves of a category: the levels allowed, `rows x ways x levels`."""

    place: int
    feature: Feature
    levels: Bools

    @property
    def open(self) -> Bools:
        """Whether a way leaves anything, `rows x ways`."""
        return np.asarray(self.levels.any(axis=2))

    def holds(self, row: Codes, codes: Codes) -> Bools:
        """Whether each way allows the codes of candidates, `n x ways`."""
        return self.levels[row, :, codes]

    def within(self, way: int, other: int) -> Bools:
        """Whether another way allows all that one does, row by row."""
        return np.asarray(~(self.levels[:, way] & ~self.levels[:, other]).any(axis=1))

    def take(self, ways: Sequence[int]) -> LevelSide:
        """Some of the ways."""
        return replace(self, levels=self.levels[:, ways])

    def nearest(self, row: Codes, codes: Codes) -> tuple[Codes, Floats]:
        """The nearest codes that each way allows, and what it costs to go there, both `n x ways`."""
        moves = ~self.holds(row, codes)
        distance = np.where(self.levels[row], level_distances(self.feature)[codes][:, None], np.inf)
        return np.where(moves, distance.argmin(axis=2), codes[:, None]), moves.astype(np.float64)


@dataclass(frozen=True, eq=False)
class RuleWays:
    """Rules that belong together: each way of keeping them, feature by feature; `open`, `rows x ways`."""

    sides: tuple[NumberSide | LevelSide, ...]
    open: Bools

    def needed(self) -> RuleWays:
        """The same without ways that leave nothing, or nothing beyond an earlier one: they are never the nearest."""
        kept: list[int] = []
        for way in np.flatnonzero(self.open.any(axis=0)).tolist():
            if not any(self._is_within(way, earlier) for earlier in kept):
                kept.append(way)
        # Rows for which nothing is left have a way too, which is not open.
        kept = kept or [0]
        return RuleWays(tuple(side.take(kept) for side in self.sides), self.open[:, kept])

    def _is_within(self, way: int, earlier: int) -> bool:
        """Whether an earlier way leaves all that one does, to every row to which that leaves anything."""
        inside = self.open[:, earlier] | ~self.open[:, way]
        for side in self.sides:
            inside = inside & (side.within(way, earlier) | ~self.open[:, way])
        return bool(inside.all())

    def keeps(self, row: Codes, codes: Codes) -> Bools:
        """Whether candidates keep the rules."""
        return self._in_parts(self._kept, row, codes)

    def mend(self, row: Codes, codes: Codes) -> Bools:
        """Move candidates, in place, to the nearest codes that keep the rules; return for which there are any."""
        return self._in_parts(self._mended, row, codes)

    def _in_parts(self, find: Callable[[Codes, Codes], Bools], row: Codes, codes: Codes) -> Bools:
        size = max(1, HELD // self.open.shape[1])
        parts = (slice(start, start + size) for start in range(0, max(len(row), 1), size))
        return np.concatenate([find(row[part], codes[part]) for part in parts])

    def _kept(self, row: Codes, codes: Codes) -> Bools:
        inside = self.open[row]
        for side in self.sides:
            inside = inside & side.holds(row, codes[:, side.place])
        return np.asarray(inside.any(axis=1))

    def _mended(self, row: Codes, codes: Codes) -> Bools:
        is_open, cost = self.open[row], np.zeros((len(row), self.open.shape[1]))
        nearest = [side.nearest(row, codes[:, side.place]) for side in self.sides]
        for _, part in nearest:
            cost = cost + part
        best = np.where(is_open, cost, np.inf).argmin(axis=1)
        line, found = np.arange(len(row)), np.asarray(is_open.any(axis=1))
        for side, (own, _) in zip(self.sides, nearest, strict=True):
            codes[:, side.place] = np.where(found, own[line, best], codes[:, side.place])
        return found


@dataclass(frozen=True, eq=False)
class CodeRegion:
    """All rules of a task, for the rows of a batch or some of them: `row` says which."""

    groups: tuple[RuleWays, ...]
    row: Codes

    def take(self, rows: Codes) -> CodeRegion:
        """The region of some of the rows."""
        return replace(self, row=self.row[rows])

    def keeps(self, row: Codes, codes: Codes) -> Bools:
        """Whether candidates keep all rules."""
        row = self.row[row]
        kept = np.ones(len(row), dtype=bool)
        for group in self.groups:
            kept &= group.keeps(row, codes)
        return kept

    def mend(self, row: Codes, codes: Codes) -> tuple[Codes, Bools]:
        """Candidates that keep the rules, and which of them do; the others could not be repaired."""
        row, kept, mended = self.row[row], np.ones(len(row), dtype=bool), codes
        for group in self.groups:
            broken = np.flatnonzero(~group.keeps(row, codes))
            if len(broken):
                mended = codes.copy() if mended is codes else mended
                part = mended[broken]
                kept[broken] &= group.mend(row[broken], part)
                mended[broken] = part
        return mended, kept


def code_region(repairer: Repairer, before: Natural, off_grid: Sequence[bool]) -> CodeRegion | None:
    """What rules leave to rows; None for rules on several values at once, or on features with values `off_grid`."""
    groups = repairer.groups
    if any(group.wide or not 0 < len(group.ways) <= MOST_WAYS for group in groups):
        return None
    ruled = {name for group in groups for name in group.names}
    if any(off and name in ruled for off, name in zip(off_grid, repairer.schema.names, strict=True)):
        return None
    region = Region(repairer, before)
    return CodeRegion(tuple(_ways(choice, region).needed() for choice in region.ruled), np.arange(len(region)))


def _ways(choice: Choice, region: Region) -> RuleWays:
    boxes, schema = choice.open().boxes, region.schema
    is_open, sides = np.stack([box.given for box in boxes], axis=1), list[NumberSide | LevelSide]()
    for name in choice.names:
        feature, place = schema[name], schema.names.index(name)
        if feature.is_category:
            sides.append(LevelSide(place, feature, np.stack([box.levels[name] for box in boxes], axis=1)))
        else:
            low, high = (np.stack([getattr(b.intervals[name], end) for b in boxes], axis=1) for end in ("low", "high"))
            sides.append(NumberSide(place, feature, region.repairer.units[name], low, high))
        is_open &= sides[-1].open
    return RuleWays(tuple(sides), is_open)
