"""Which candidates a model is asked about next, where something that answers nearly as it does has looked at them.

The next one is that which promises most: what it would save, times the chance that it is good. What the model says of a
row's candidates teaches how far the other is off there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from .batch import Batch
from .candidates import Candidates, within
from .cost import MOST
from .oracles.imitation import Imitation
from .oracles.oracle import FAR
from .propose.few import FEW
from .space import Bools, Codes, Floats

# A candidate with less of a chance is not asked about, and one that would save less than this part of what the best
# answer costs, times its chance, is not either.
CHANCE, WORTH = 0.02, 0.002
# From this chance on a candidate is likely to do.
LIKELY = 0.95
# What is learnt of a row counts so much against what was known of it before.
LEARNT = 0.5


class AskedCandidates:
    """Candidates of rows, and what the model said of those that it was asked about."""

    def __init__(self, batch: Batch, imitation: Imitation, pool: Candidates, off: Floats | None = None) -> None:
        self.batch, self.pool, self.spread = batch, pool, imitation.spread
        self.off = np.zeros(len(batch)) if off is None else off
        count, weights = batch.changed(pool).sum(axis=1), batch.weights
        # Where few changes come first, more of them are looked at last.
        self.price = (
            pool.price + np.where(count > 1, weights.several, 0.0) + MOST * ((count > FEW) & (weights.times > 0))
        )
        self.margin = imitation.oracle.margins(batch.rows, pool.row, pool.codes)
        self.asked: Bools = np.zeros(len(pool), dtype=bool)
        self.good: Bools = np.zeros(len(pool), dtype=bool)

    def most_promising(self, count: int) -> Codes:
        """The next candidates of each row that are worth asking about, at most so many."""
        pool, left = self.pool, self.batch.spending.left[self.pool.row]
        chance = ndtr((self.margin - self.off[pool.row]) / self.spread)
        best = self._best()[pool.row]
        first = ~np.isfinite(best)
        # A row without an answer begins with the cheapest candidate that is likely to do, or else with the likeliest;
        # whatever its budget, so that what less of it finds is found with more of it too.
        likely = chance >= LIKELY
        saves = np.where(first, 0.0, best) - self.price
        worth = np.where(first, np.where(likely, -self.price, chance - 1e12), chance * saves)
        enough = first | ((worth > WORTH * pool.price) & (chance > CHANCE))
        open_ = np.flatnonzero(~self.asked & enough)
        order = open_[np.lexsort((open_, -worth[open_], pool.row[open_]))]
        return order[within(pool.row[order]) < np.minimum(count, left[order])]

    def _best(self) -> Floats:
        """The price of the last answer that a row needs, infinite where it has too few."""
        good = replace(self.pool, price=self.price).take(self.good).cheapest(self.batch.k)
        last = np.zeros(len(self.batch))
        np.maximum.at(last, good.row, good.price)
        return np.where(np.bincount(good.row, minlength=len(last)) == self.batch.k, last, np.inf)

    def ask(self, which: Codes) -> bool:
        """Ask the model about some candidates, and learn from what it says; whether there were any."""
        row = self.pool.row[which]
        replies = self.batch.query(row, self.pool.codes[which])
        self.asked[which], self.good[which] = True, replies.valid
        known = np.isfinite(replies.margin)
        off = (self.margin[which] - np.clip(replies.margin, -FAR, FAR))[known]
        count = np.bincount(row[known], minlength=len(self.off))
        mean = np.bincount(row[known], off, len(self.off)) / np.maximum(count, 1)
        self.off += np.where(count > 0, LEARNT * (mean - self.off), 0.0)
        return len(which) > 0
