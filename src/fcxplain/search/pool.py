"""Candidates on their way: whose they are, their codes, what they cost, and how they were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .space import Bools, Codes, Floats

HOW = ("draw", "repair", "refine", "donor")
# An odd number that mixes the bits of what it multiplies: the golden ratio in 64 bits.
SPREAD = np.uint64(0x9E3779B97F4A7C15)
DRAW, REPAIR, REFINE, DONOR = range(4)


@dataclass(frozen=True, eq=False)
class Pool:
    """Verified candidates of some rows; `row` says whose each is, `how` is a place in `HOW`."""

    row: Codes
    codes: Codes
    price: Floats
    how: Codes

    @classmethod
    def empty(cls, features: int) -> Pool:
        """No candidates yet."""
        none = np.empty(0, dtype=np.int64)
        return cls(none, np.empty((0, features), dtype=np.int64), np.empty(0), none)

    def __len__(self) -> int:
        return len(self.row)

    def take(self, which: NDArray[Any] | slice) -> Pool:
        """Some of the candidates."""
        return Pool(self.row[which], self.codes[which], self.price[which], self.how[which])

    def of(self, rows: Codes) -> Pool:
        """The candidates of some rows, which are counted anew; `rows` rise."""
        place = np.searchsorted(rows, self.row)
        mine = rows[np.minimum(place, len(rows) - 1)] == self.row
        return Pool(place[mine], self.codes[mine], self.price[mine], self.how[mine])

    def cheapest(self, most: int) -> Pool:
        """At most so many of each row, cheapest first; ties go by their order."""
        found = self.take(np.lexsort((self.price, self.row)))
        return found.take(within(found.row) < most)

    def best(self, most: int) -> Pool:
        """At most so many of each row, cheapest first, each once; ties go by the codes themselves."""
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
    """Powers of the spread, the highest first: what they weigh sums up to a hash."""
    return np.array([pow(int(SPREAD), count - i, 2**64) for i in range(count)], dtype=np.uint64)


def joined(pools: Sequence[Pool]) -> Pool:
    """Several pools of the same rows as one."""
    return Pool(*(np.concatenate([getattr(p, name) for p in pools]) for name in ("row", "codes", "price", "how")))


def within(row: Codes) -> Codes:
    """0, 1, ... within the candidates of each row, in their order."""
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
