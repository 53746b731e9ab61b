"""Pools of candidates, with their rows, codes, prices and origins, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..explanation import Status
from ..hashing import STEP
from .space import Bools, Codes, Floats

if TYPE_CHECKING:
    from .propose.single import SingleChanges

HOW = ("draw", "repair", "refine", "donor")
DRAW, REPAIR, REFINE, DONOR = range(4)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates of some rows; `row` is the row of each, `how` an index into `HOW`."""

    row: Codes
    codes: Codes
    price: Floats
    how: Codes

    @classmethod
    def empty(cls, features: int) -> Candidates:
        """No candidates yet."""
        none = np.empty(0, dtype=np.int64)
        return cls(none, np.empty((0, features), dtype=np.int64), np.empty(0), none)

    def __len__(self) -> int:
        return len(self.row)

    def take(self, which: NDArray[Any] | slice) -> Candidates:
        """Some of the candidates."""
        return Candidates(self.row[which], self.codes[which], self.price[which], self.how[which])

    def of(self, rows: Codes) -> Candidates:
        """The candidates of some rows, renumbered; `rows` are in ascending order."""
        place = np.searchsorted(rows, self.row)
        mine = rows[np.minimum(place, len(rows) - 1)] == self.row
        return Candidates(place[mine], self.codes[mine], self.price[mine], self.how[mine])

    def at(self, rows: Codes) -> Candidates:
        """The same candidates in a larger batch: row `i` becomes `rows[i]`."""
        return replace(self, row=rows[self.row])

    def without(self, rows: Codes) -> Candidates:
        """The candidates of all other rows."""
        return self.take(~np.isin(self.row, rows))

    def cheapest(self, most: int) -> Candidates:
        """At most `most` candidates per row, cheapest first; ties keep their order."""
        found = self.take(np.lexsort((self.price, self.row)))
        return found.take(within(found.row) < most)

    def best(self, most: int) -> Candidates:
        """At most `most` distinct candidates per row, cheapest first; a hash of the codes breaks ties."""
        mark = self.codes.astype(np.uint64) @ _powers(self.codes.shape[1])
        found = self.take(np.lexsort((mark, self.price, self.row)))
        again = np.zeros(len(found), dtype=bool)
        again[1:] = (found.row[1:] == found.row[:-1]) & (found.codes[1:] == found.codes[:-1]).all(axis=1)
        found = found.take(~again)
        return found.take(within(found.row) < most)

    def has(self, rows: int) -> Bools:
        """Which rows have a candidate."""
        found = np.zeros(rows, dtype=bool)
        found[self.row] = True
        return found


@lru_cache(maxsize=64)
def _powers(count: int) -> NDArray[np.uint64]:
    """Powers of the step, the highest first: the weights of a polynomial hash."""
    # Not `hashing.keys_of`: one product is much faster, and another hash would break ties differently.
    return np.array([pow(int(STEP), count - i, 2**64) for i in range(count)], dtype=np.uint64)


def joined(pools: Sequence[Candidates]) -> Candidates:
    """Several pools of the same rows as one."""
    return Candidates(*(np.concatenate([getattr(p, name) for p in pools]) for name in ("row", "codes", "price", "how")))


def within(row: Codes) -> Codes:
    """Number the candidates of each row 0, 1, ..., in their order."""
    if not len(row):
        return np.empty(0, dtype=np.int64)
    if (row[1:] >= row[:-1]).all():
        if row[0] == row[-1]:
            return np.arange(len(row))
        starts = np.flatnonzero(np.diff(row, prepend=row[0] - 1))
        return np.asarray(np.arange(len(row)) - np.repeat(starts, np.diff(starts, append=len(row))))
    order = np.argsort(row, kind="stable")
    place = np.empty(len(row), dtype=np.int64)
    place[order] = within(row[order])
    return place


class Found:
    """The results of the steps so far for the rows of a batch, or for some of them (see `of`)."""

    def __init__(self, singles: SingleChanges, possible: Bools, pool: Candidates) -> None:
        self._singles, self._rows = singles, np.arange(len(possible))
        self.possible = possible
        """Rows with a nonempty region."""
        self.pool = pool
        """Good candidates, in the order in which they were found."""
        self.settled = np.zeros(len(possible), dtype=bool)
        """Rows that are done: no other candidate could be preferred to what they have."""
        self.impossible = np.zeros(len(possible), dtype=bool)
        """Rows proved to have no counterfactual."""

    @property
    def singles(self) -> SingleChanges:
        """The single changes from each row's base."""
        return self._singles.of(self._rows)

    @property
    def base(self) -> Codes:
        """Each row itself or, if it breaks a rule, the nearest row that keeps them."""
        return np.asarray(self._singles.base[self._rows])

    @property
    def lacking(self) -> Bools:
        """Rows without a candidate."""
        return ~self.pool.has(len(self.possible))

    def of(self, rows: Codes) -> Found:
        """The results for some of the rows, in ascending order."""
        if len(rows) == len(self.possible):
            return self
        part = Found(self._singles, self.possible[rows], self.pool.of(rows))
        part._rows, part.settled, part.impossible = self._rows[rows], self.settled[rows], self.impossible[rows]
        return part

    def add(self, pool: Candidates) -> None:
        """Add good candidates."""
        self.pool = joined([self.pool, pool])


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Candidates in order of preference, the status of rows without one, and the nearest misses of these rows."""

    pool: Candidates
    status: NDArray[Any]
    nearly: Candidates
    spent: Codes
    """Candidates that the model was queried about, for each row."""
    cut_short: NDArray[np.bool_]
    """Whether each row needed more queries than its budget allows."""
    calls: int = 0
    """Rows that the model has evaluated in total."""
    failures: dict[int, str] = field(default_factory=dict)
    """The model's error messages, by row."""

    @classmethod
    def failed(cls, features: int, message: str) -> SearchResult:
        """The result of one row on which the model failed."""
        none = Candidates.empty(features)
        status = np.full(1, Status.NOT_FOUND, dtype=object)
        return cls(none, status, none, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=bool), failures={0: message})

    def completed(self, part: SearchResult, rows: Codes) -> SearchResult:
        """Add the results of a later search for some of the rows."""
        status, spent, cut_short = self.status.copy(), self.spent.copy(), self.cut_short.copy()
        status[rows], cut_short[rows] = part.status, part.cut_short
        spent[rows] += part.spent
        pool, nearly = part.pool.at(rows), part.nearly.at(rows)
        failures = {row: message for row, message in self.failures.items() if row not in set(rows.tolist())}
        failures |= {int(rows[row]): message for row, message in part.failures.items()}
        pool, nearly = joined([self.pool, pool]), joined([self.nearly, nearly])
        return SearchResult(pool, status, nearly, spent, cut_short, self.calls + part.calls, failures)


def one_after_the_other(parts: Sequence[SearchResult], features: int) -> SearchResult:
    """Concatenate the results of batches, and renumber their rows."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(p.status) for p in parts)]).tolist()
    none = Candidates.empty(features)
    moved = list(zip(parts, starts, strict=False))
    return SearchResult(
        joined([none, *(replace(p.pool, row=p.pool.row + s) for p, s in moved)]),
        np.concatenate([np.empty(0, dtype=object), *(p.status for p in parts)]),
        joined([none, *(replace(p.nearly, row=p.nearly.row + s) for p, s in moved)]),
        np.concatenate([np.zeros(0, dtype=np.int64), *(p.spent for p in parts)]),
        np.concatenate([np.zeros(0, dtype=bool), *(p.cut_short for p in parts)]),
        sum(p.calls for p in parts),
        {row + s: message for p, s in moved for row, message in p.failures.items()},
    )


def undominated(pool: Candidates, present: Codes) -> Candidates:
    """The candidates, row by row, without those that make all changes of another one and more."""
    pool = pool.take(np.argsort(pool.row, kind="stable"))
    changed = pool.codes != present[pool.row]
    spare = np.zeros(len(pool), dtype=bool)
    for apart in range(1, int(within(pool.row).max(initial=0)) + 1):
        for more, less in ((np.s_[apart:], np.s_[:-apart]), (np.s_[:-apart], np.s_[apart:])):
            same_row = pool.row[more] == pool.row[less]
            covers = (~changed[less] | (pool.codes[more] == pool.codes[less])).all(axis=1)
            spare[more] |= same_row & covers & (changed[more] & ~changed[less]).any(axis=1)
    return pool.take(~spare)


def diverse(pool: Candidates, present: Codes, k: int) -> Candidates:
    """At most `k` candidates of each row, in order of preference.

    The cheapest comes first. Each next one is the cheapest that does not change all the features that an earlier one
    changes. When none is left, supersets of an earlier one follow, and last the same features. `present`,
    `rows x features`, holds the rows' own codes.
    """
    pool = pool.best(len(pool) or 1)
    if k == 1:
        return pool.take(within(pool.row) < 1)
    changed = pool.codes != present[pool.row]
    covers, taken = np.zeros(len(pool), dtype=np.int64), np.full(len(pool), -1)
    for turn in range(k):
        free = np.flatnonzero(taken < 0)
        if not len(free):
            break
        # The pool is in order of price, so the first of each row is the cheapest.
        order = free[np.lexsort((free, covers[free], pool.row[free]))]
        chosen = order[within(pool.row[order]) == 0]
        taken[chosen] = turn
        mask = np.zeros(present.shape, dtype=bool)
        mask[pool.row[chosen]] = changed[chosen]
        has = np.zeros(len(present), dtype=bool)
        has[pool.row[chosen]] = True
        own = mask[pool.row]
        more, same = (changed | ~own).all(axis=1), (changed == own).all(axis=1)
        covers = np.maximum(covers, np.where(has[pool.row], more.astype(np.int64) + same, 0))
    chosen = np.flatnonzero(taken >= 0)
    return pool.take(chosen[np.lexsort((taken[chosen], pool.row[chosen]))])
