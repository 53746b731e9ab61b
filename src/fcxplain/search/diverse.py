"""Several answers to one row: cheap ones, but first of all such as change other features."""

from __future__ import annotations

import numpy as np

from .pool import Pool, within
from .space import Codes


def undominated(pool: Pool, present: Codes) -> Pool:
    """The candidates, row by row, without such as do all that another one does and more."""
    pool = pool.take(np.argsort(pool.row, kind="stable"))
    changed = pool.codes != present[pool.row]
    spare = np.zeros(len(pool), dtype=bool)
    for apart in range(1, int(within(pool.row).max(initial=0)) + 1):
        for more, less in ((np.s_[apart:], np.s_[:-apart]), (np.s_[:-apart], np.s_[apart:])):
            same_row = pool.row[more] == pool.row[less]
            covers = (~changed[less] | (pool.codes[more] == pool.codes[less])).all(axis=1)
            spare[more] |= same_row & covers & (changed[more] & ~changed[less]).any(axis=1)
    return pool.take(~spare)


def diverse(pool: Pool, present: Codes, k: int) -> Pool:
    """At most `k` candidates of each row in order of choice.

    The cheapest comes first. Each next one is the cheapest that does not change all that an earlier one changes; when
    there is none left, one that changes more than those, and last one that changes the same features. `present`,
    `rows x features`, are the rows' own codes.
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
        # The pool is in order of price, so that the first of each row is the cheapest.
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
