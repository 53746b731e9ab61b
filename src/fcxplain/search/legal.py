"""The repair step: candidates that break a rule become the nearest legal row, or are dropped."""

from __future__ import annotations

import numpy as np

from ..rules import Repairer, holds
from .leeway import Leeway, leeway_of
from .pool import within
from .space import Bools, Codes, Present, Space

# Rules wider than a box need an integer program for each candidate, so only the first few of each row get one.
WIDE_REPAIRS = 4
# Steps that a value off the grid is moved at most, where a rule asks for another one.
ASIDE = 32
# Seconds for one such program.
SECONDS = 0.5


class Legal:
    """The rules of a task, ready for batch after batch of candidates."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.repairer = Repairer(space.task.rules, space.task.schema, space.task.units)
        self.wide = any(group.wide for group in self.repairer.groups)
        grouped = {name for group in self.repairer.groups for name in group.names}
        self.ruled = np.array([n in grouped for n in space.names])
        refs = frozenset(ref.name for rule in space.task.rules for ref in rule.refs)
        self._names = refs
        self._rules = [rule for rule in space.task.rules if not rule.freezes]

    def leeway(self, present: Present) -> Leeway | None:
        """What the rules leave to rows, if that can be told once for all candidates."""
        return leeway_of(self.repairer, present)

    def keeps(self, present: Present, row: Codes, codes: Codes, leeway: Leeway | None = None) -> Bools:
        """Whether candidates keep all rules; with the leeway of the rows, if it is known, that is told quickly."""
        if leeway is not None:
            return leeway.keeps(row, codes)
        if not self._rules or not len(row):
            return np.ones(len(row), dtype=bool)
        before = {n: present.natural[n][row] for n in self._names}
        return np.asarray(holds(self._rules, before, self.space.natural(present, row, codes, self._names)))

    def mend(self, present: Present, row: Codes, codes: Codes, leeway: Leeway | None = None) -> tuple[Codes, Bools]:
        """Candidates that keep the rules, and which of them do; the others could not be repaired."""
        if leeway is not None:
            return leeway.mend(row, codes)
        kept = self.keeps(present, row, codes)
        broken = np.flatnonzero(~kept)
        if self.wide:
            broken = broken[within(row[broken]) < WIDE_REPAIRS]
        if not len(broken):
            return codes, kept
        before = {n: v[row[broken]] for n, v in present.natural.items()}
        wanted = self.space.natural(present, row[broken], codes[broken])
        result = self.repairer.nearest(before, wanted, seconds=SECONDS, exact=False)
        codes = codes.copy()
        codes[broken] = np.stack([f.codes(result.natural[f.name]) for f in self.space.features], axis=1)
        kept[broken] = result.found
        if self.wide or any(present.strange) or present.is_snapped:
            # A present value off the grid and the nearest on it have the same code, which stands for one of them.
            kept[broken] &= self.keeps(present, row[broken], codes[broken])
        return codes, kept

    def base(self, present: Present, leeway: Leeway | None = None) -> tuple[Codes, Bools]:
        """Each row itself or, where it breaks a rule, the nearest row that does not; and which rows have one."""
        row = np.arange(len(present))
        if leeway is not None:
            return leeway.mend(row, present.codes)
        kept = self.keeps(present, row, present.codes)
        codes, found = present.codes.copy(), kept.copy()
        broken = np.flatnonzero(~kept)
        if len(broken):
            now = {n: v[broken] for n, v in present.natural.items()}
            result = self.repairer.nearest(now, now)
            codes[broken] = np.stack([f.codes(result.natural[f.name]) for f in self.space.features], axis=1)
            found[broken] = result.found & self.keeps(present, broken, codes[broken])
            self._step_aside(present, np.flatnonzero(~found & ~kept), codes, found)
        return codes, found

    def _step_aside(self, present: Present, rows: Codes, codes: Codes, found: Bools) -> None:
        """Where a value off the grid must change, and the nearest on it has the same code: the next one that does."""
        hidden = present.off_grid[rows] & self.space.movable & (codes[rows] == present.codes[rows])
        if not hidden.any():
            return
        near = codes[rows]
        for step in (side * away for away in range(1, ASIDE + 1) for side in (1, -1)):
            tried = self.space.inside(present, rows, near + step * hidden)
            good = ~found[rows] & self.keeps(present, rows, tried)
            codes[rows[good]], found[rows[good]] = tried[good], True
            if found[rows].all():
                return
