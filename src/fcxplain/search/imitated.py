"""Search with an imitation of the model: it is searched, and the model is queried about the most promising candidates.

Candidates are looked for slightly before, at and beyond the border of the target class, since the imitation may be
wrong about it. The model is queried next about the candidate with the highest expected saving: the cost it would save,
times the probability that it is good. The replies about a row's candidates correct the imitation for that row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from .batch import Batch
from .candidates import Candidates, joined, within
from .cost import MOST
from .oracles.imitation import Imitation
from .oracles.oracle import FAR
from .propose.few import FEW
from .space import Bools, Codes, Floats

if TYPE_CHECKING:
    from .steps import StepRunner

# Candidates kept per row and border.
KEPT = 32
# Candidates that are less likely than this to be good are not queried, nor those whose expected saving is below this
# part of their own price.
CHANCE, WORTH = 0.02, 0.002
# From this probability on, a candidate is likely to be good.
LIKELY = 0.95
# Learning rate of a row's correction.
LEARNT = 0.5


class AskedCandidates:
    """Candidates of rows, and the model's replies about those that were queried."""

    def __init__(self, batch: Batch, imitation: Imitation, pool: Candidates, off: Floats | None = None) -> None:
        self.batch, self.pool, self.spread = batch, pool, imitation.spread
        self.off = np.zeros(len(batch)) if off is None else off
        count, weights = batch.changed(pool).sum(axis=1), batch.weights
        # Where few changes come first, candidates with more are queried last.
        self.price = (
            pool.price + np.where(count > 1, weights.several, 0.0) + MOST * ((count > FEW) & (weights.times > 0))
        )
        self.margin = imitation.oracle.margins(batch.rows, pool.row, pool.codes)
        self.asked: Bools = np.zeros(len(pool), dtype=bool)
        self.good: Bools = np.zeros(len(pool), dtype=bool)

    def _most_promising(self, count: int) -> Codes:
        """The next candidates of each row that are worth a query, at most `count`."""
        pool, left = self.pool, self.batch.spending.left[self.pool.row]
        chance = ndtr((self.margin - self.off[pool.row]) / self.spread)
        best = self._best()[pool.row]
        first = ~np.isfinite(best)
        # A row without an answer starts with the cheapest candidate that is likely to be good, or else with the
        # likeliest. This does not depend on its budget, so a larger budget finds at least what a smaller one does.
        likely = chance >= LIKELY
        saves = np.where(first, 0.0, best) - self.price
        worth = np.where(first, np.where(likely, -self.price, chance - 1e12), chance * saves)
        enough = first | ((worth > WORTH * pool.price) & (chance > CHANCE))
        open_ = np.flatnonzero(~self.asked & enough)
        order = open_[np.lexsort((open_, -worth[open_], pool.row[open_]))]
        return order[within(pool.row[order]) < np.minimum(count, left[order])]

    def _best(self) -> Floats:
        """The price of the last answer that a row needs, infinite if it has too few."""
        good = replace(self.pool, price=self.price).take(self.good).cheapest(self.batch.k)
        last = np.zeros(len(self.batch))
        np.maximum.at(last, good.row, good.price)
        return np.where(np.bincount(good.row, minlength=len(last)) == self.batch.k, last, np.inf)

    def ask_in_rounds(self, counts: Iterable[int]) -> Candidates:
        """Query the model in rounds, each about so many candidates per row, and return the good ones."""
        for count in counts:
            if not self._ask(self._most_promising(count)):
                break
        return self.pool.take(self.good)

    def _ask(self, which: Codes) -> bool:
        """Query the model about candidates and learn from its replies; return whether there were any."""
        row = self.pool.row[which]
        replies = self.batch.query(row, self.pool.codes[which])
        self.asked[which], self.good[which] = True, replies.valid
        known = np.isfinite(replies.margin)
        off = (self.margin[which] - np.clip(replies.margin, -FAR, FAR))[known]
        count = np.bincount(row[known], minlength=len(self.off))
        mean = np.bincount(row[known], off, len(self.off)) / np.maximum(count, 1)
        self.off += np.where(count > 0, LEARNT * (mean - self.off), 0.0)
        return len(which) > 0


def found_beyond(runner: StepRunner, part: Batch, borders: Iterable[tuple[Floats, int]]) -> Candidates:
    """Distinct candidates that the runner's imitation finds good for each of several borders, cheapest first.

    A border has the depth of its search.
    """
    batch, pools = runner.batch(part.rows), list[Candidates]()
    batch = replace(batch, spending=replace(batch.spending, deadline=part.spending.deadline))
    singles = runner.singles(batch)
    for border, depth in borders:
        here, own = replace(batch, rows=replace(part.rows, border=border)), replace(runner, deepest=depth)
        kept = own.shortlisted(here, own.found(here, singles.beyond(border)).pool, KEPT)
        pools.append(part.priced(kept.row, kept.codes, kept.how))
    return joined(pools).best(len(pools) * KEPT)
