"""A batch of rows with everything that the steps of the search need: region, oracle, spending."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..region.codes import CodeRegion, code_region
from ..rules import holds
from .candidates import Candidates, within
from .cost import CostWeights, price
from .oracles.oracle import Memory, Oracle, Replies
from .space import Bools, Codes, Floats, Moves, Rows, SearchSpace
from .spending import Spending

if TYPE_CHECKING:
    from .context import Context

# Candidates per row that are repaired by an integer program, if the rules allow nothing quicker.
PROGRAMS = 4
# Seconds for one of these programs, and for that of a row itself.
SECONDS, BASE_SECONDS = 0.5, 10.0


class Legal:
    """The rules of a task, prepared for batches of candidates."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self.repairer = space.task.repairer
        self.wide = any(group.wide for group in self.repairer.groups)
        grouped = {name for group in self.repairer.groups for name in group.names}
        self.ruled = np.array([n in grouped for n in space.names])
        refs = frozenset(ref.name for rule in space.task.rules for ref in rule.refs)
        self._names = refs
        self._rules = [rule for rule in space.task.rules if not rule.freezes]

    def region(self, present: Rows) -> CodeRegion | None:
        """The region of rows in codes; None if the rules cannot be expressed that way."""
        return code_region(self.repairer, present.natural, present.off_grid_features)

    def keeps(self, present: Rows, row: Codes, codes: Codes, region: CodeRegion | None = None) -> Bools:
        """Whether candidates keep all rules; fast if the rows' region is given."""
        if region is not None:
            return region.keeps(row, codes)
        if not self._rules or not len(row):
            return np.ones(len(row), dtype=bool)
        before = {n: present.natural[n][row] for n in self._names}
        return np.asarray(holds(self._rules, before, self.space.natural(present, row, codes, self._names)))

    def mend(self, present: Rows, row: Codes, codes: Codes, region: CodeRegion | None = None) -> tuple[Codes, Bools]:
        """Repair candidates, and say which of them now keep the rules."""
        if region is not None:
            return region.mend(row, codes)
        kept = self.keeps(present, row, codes)
        broken = np.flatnonzero(~kept)
        if not len(broken):
            return codes, kept
        codes = codes.copy()
        left = broken[self._repair(present, row, codes, kept, broken, 0.0)]
        if len(left):
            self._repair(present, row, codes, kept, left[within(row[left]) < PROGRAMS], SECONDS)
        return codes, kept

    def _repair(self, present: Rows, row: Codes, codes: Codes, kept: Bools, broken: Codes, seconds: float) -> Bools:
        """Move candidates in place to near codes that keep the rules; return which of them need a program."""
        before = {n: v[row[broken]] for n, v in present.natural.items()}
        wanted = self.space.natural(present, row[broken], codes[broken])
        result = self.repairer.nearest(before, wanted, seconds=seconds, exact=False)
        found = broken[result.found]
        natural = {n: v[result.found] for n, v in result.natural.items()}
        codes[found], kept[found] = self.space.codes(present, row[found], natural), True
        return result.undecided

    def base(self, present: Rows, region: CodeRegion | None = None) -> tuple[Codes, Bools]:
        """Each row itself or, if it breaks a rule, the nearest row that keeps them; and which rows have one."""
        row = np.arange(len(present))
        if region is not None:
            return region.mend(row, present.codes)
        kept = self.keeps(present, row, present.codes)
        codes, found = present.codes.copy(), kept.copy()
        broken = np.flatnonzero(~kept)
        if len(broken):
            left = broken[self._nearest_base(present, broken, codes, found, 0.0)]
            if len(left):
                self._nearest_base(present, left, codes, found, BASE_SECONDS)
        return codes, found

    def _nearest_base(self, present: Rows, rows: Codes, codes: Codes, found: Bools, seconds: float) -> Bools:
        """Move rows in place to the nearest codes that keep the rules; return which of them need a program."""
        now = {n: v[rows] for n, v in present.natural.items()}
        result = self.repairer.nearest(now, now, seconds=seconds)
        codes[rows] = self.space.codes(present, rows, result.natural)
        found[rows] = result.found & self.keeps(present, rows, codes[rows])
        return result.undecided


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows that are searched together: the input of each step.

    A part of a batch (see `of`) spends from the same account.
    """

    context: Context
    rows: Rows
    spending: Spending
    weights: CostWeights
    moves: Moves
    """Single changes that are tried for every row."""
    region: CodeRegion | None = None
    """The region of the rows, if it can be expressed in codes (see `Legal.region`)."""
    k: int = 1
    """Answers wanted per row."""
    memory: Memory | None = None
    """Replies to earlier queries, which cost nothing."""

    @property
    def space(self) -> SearchSpace:
        """The grid that is searched."""
        return self.context.space

    @property
    def legal(self) -> Legal:
        """The task's rules."""
        return self.context.legal

    @property
    def oracle(self) -> Oracle:
        """The oracle that is queried."""
        return self.context.oracle

    @property
    def is_quick(self) -> bool:
        """Whether a row needs no search if a draw is good."""
        return self.context.settings.is_quick(self.k)

    def __len__(self) -> int:
        return len(self.rows)

    def keeps(self, row: Codes, codes: Codes) -> Bools:
        """Whether candidates keep all rules."""
        return self.legal.keeps(self.rows, row, codes, self.region)

    def mend(self, row: Codes, codes: Codes) -> tuple[Codes, Bools]:
        """Repair candidates, and say which of them now keep the rules."""
        return self.legal.mend(self.rows, row, codes, self.region)

    def query(self, row: Codes, codes: Codes) -> Replies:
        """The oracle's replies to candidates."""
        if self.memory is None:
            return self.oracle.query(self.rows, row, codes, self.spending)
        replies, new = self.memory.recalled(self.spending.rows[row], codes)
        asked = self.oracle.query(self.rows, row[new], codes[new], self.spending)
        replies.margin[new], replies.valid[new] = asked.margin, asked.valid
        self.memory.note(self.spending.rows[row[new]], codes[new], asked)
        return replies

    def good(self, row: Codes, codes: Codes) -> Bools:
        """Whether candidates keep the rules and get the target class; only those that keep the rules are queried."""
        kept = self.keeps(row, codes)
        which = np.flatnonzero(kept)
        kept[which] = self.query(row[which], codes[which]).valid
        return kept

    def changed(self, pool: Candidates) -> Bools:
        """The features that candidates change, `n x features`."""
        return self.space.changed(self.rows, pool.row, pool.codes)

    def price(self, row: Codes, codes: Codes) -> Floats:
        """The cost of changes and distance."""
        return price(self.space, self.weights, self.rows, row, codes)

    def priced(self, row: Codes, codes: Codes, how: Codes | int) -> Candidates:
        """Candidates known to be good, with their price."""
        origin = np.full(len(row), how, dtype=np.int64) if isinstance(how, int) else how
        return Candidates(row, codes, self.price(row, codes), origin)

    def tried(self, row: Codes, codes: Codes, how: int) -> Candidates:
        """Clip proposals to the domain, repair and query them, and return the good ones."""
        row, codes, replies = self.replies(row, self.space.inside(self.rows, row, codes))
        return self.priced(row[replies.valid], codes[replies.valid], how)

    def replies(self, row: Codes, codes: Codes) -> tuple[Codes, Codes, Replies]:
        """Repair candidates, drop those that still break a rule, and query the others."""
        codes, kept = self.mend(row, codes)
        row, codes = row[kept], codes[kept]
        return row, codes, self.query(row, codes)

    def of(self, rows: Codes) -> Batch:
        """Some of the rows, in ascending order."""
        if len(rows) == len(self):
            return self
        region = None if self.region is None else self.region.take(rows)
        return replace(self, rows=self.rows.take(rows), spending=self.spending.of(rows), region=region)

    def nothing(self) -> Candidates:
        """No candidates."""
        return Candidates.empty(len(self.space.names))
