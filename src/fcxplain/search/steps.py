"""The way of one batch of rows through the search.

Single changes, combinations, a second look from the best of them, proposals of others, donors; then fewer and smaller
changes. Where nothing was found, a proof that there is nothing; where that fails too, gradients and wide proposals.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..explanation import Status
from ..proof.proof import LIMIT, prove
from ..proof.tree_search import ASKED
from .batch import Batch
from .candidates import REFINE, REPAIR, Candidates, SearchResult, diverse, joined, undominated
from .context import Context
from .cost import LOOKED_AT, MOST, incoherence, measured, supported
from .improve import finished
from .propose.combine import combinations, drawn, in_between, ladders, outright, singles
from .propose.donors import profiled
from .propose.few import few_first, with_few
from .propose.last_resort import refined
from .propose.pairs import climbed
from .propose.single import Axes
from .space import Bools, Codes, Rows
from .spending import Spending

# Answers of each row held ready beyond those asked for.
SPARE = 2
DEEPEST = 3
# The part of its calls that a row keeps back for values off the grid (see `Search`).
HELD_BACK = 4
# Rows that proofs are looked for at a time, between two looks at the clock.
PROVED = 64


class StepRunner:
    """The steps for one task, and what each row is to get: at most `k` answers.

    How far rows of a model that is dear to ask are looked at is their `depth`: 1 leaves out the second look from the
    best changes, 2 proofs and last resorts.
    """

    def __init__(self, parts: Context, k: int, depth: int = DEEPEST) -> None:
        self.parts, self.k, self.depth = parts, k, DEEPEST if parts.oracle.cheap else depth
        self.settings, self.weights = parts.settings, parts.settings.weights

    @property
    def is_quick(self) -> bool:
        """Whether each row has a single draw: whoever's is good needs no search."""
        return self.settings.draws is not None and self.settings.n_draws == 1 and self.k == 1

    def quick(self, present: Rows) -> SearchResult:
        """Rows whose only draw is good as it is, if draws are to be taken so."""
        bench, status = self._bench(present), np.full(len(present), Status.NOT_FOUND, dtype=object)
        pool = bench.nothing()
        if self.settings.draws is not None and self.is_quick:
            pool = drawn(bench, self.settings.draws, 1)
        changed = np.flatnonzero(bench.space.changed(present, pool.row, pool.codes).any(axis=1))
        ledger = bench.ledger
        return SearchResult(pool.take(changed), status, bench.nothing(), ledger.spent, ledger.refused, ledger.calls)

    def run(self, present: Rows) -> SearchResult:
        """Good candidates for each row, the cheapest first, and the status of rows without any."""
        bench = self._bench(present)
        pool, nearly, status = self._found(bench)
        ledger = bench.ledger
        return SearchResult(self._shortlisted(bench, pool), status, nearly, ledger.spent, ledger.refused, ledger.calls)

    def ordered(self, present: Rows, pool: Candidates) -> Candidates:
        """Answers in order of choice, and some to spare."""
        if self.weights.density:
            pool = measured(self.weights, self.parts.common.density, pool, self.k)
        if self.k == 1:
            return pool.best(1 + SPARE)
        return diverse(undominated(pool, present.codes), present.codes, self.k + SPARE)

    def _bench(self, present: Rows) -> Batch:
        budget = self.settings.budget
        deadline = np.inf if budget.seconds is None else time.monotonic() + budget.seconds * len(present)
        ledger = Spending(self._allowed(present), np.zeros(len(present), dtype=np.int64), deadline)
        legal, oracle = self.parts.legal, self.parts.oracle
        return Batch(self.parts.space, legal, oracle, present, ledger, self.weights, legal.leeway(present))

    def _allowed(self, present: Rows) -> Codes:
        """Calls that may go into each row; those with values off the grid keep some back for them."""
        if present.calls is not None:
            return present.calls
        calls = self.settings.budget.calls
        waits = (present.off_grid & self.parts.space.movable).any(axis=1)
        return np.where(waits, calls - calls // HELD_BACK, calls)

    def _found(self, bench: Batch) -> tuple[Candidates, Candidates, NDArray[Any]]:
        """Good candidates, what came nearest, and the status of rows without any."""
        status = np.full(len(bench.present), Status.NOT_FOUND, dtype=object)
        if not len(bench.present):
            return bench.nothing(), bench.nothing(), status
        base, possible = bench.legal.base(bench.present, bench.leeway)
        rows = np.flatnonzero(possible)
        part = bench.of(rows)
        pool, nearly = self._searched(part, base[rows])
        bench.settle(part, rows)
        pool, nearly = replace(pool, row=rows[pool.row]), replace(nearly, row=rows[nearly.row])
        if self.depth == DEEPEST:
            pool = joined([pool, self._proved(bench, np.flatnonzero(~pool.has(len(possible))), status)])
            left = np.flatnonzero(possible & ~pool.has(len(possible)) & (status != Status.IMPOSSIBLE))
            pool = joined([pool, self._refined(bench, left, base[left])])
        status[bench.ledger.refused & (status != Status.IMPOSSIBLE)] = Status.TIMED_OUT
        return pool, nearly, status

    def _searched(self, bench: Batch, base: Codes) -> tuple[Candidates, Candidates]:
        """Good candidates of every kind, and for each row what came nearest to one."""
        axes, pool = singles(bench, base, self.parts.moves)
        pool = joined([pool, outright(bench, base, self.parts.moves)])
        pool = joined([pool, in_between(bench, axes, pool)])
        nearly = _nearest(bench, axes)
        rows = np.flatnonzero(~self._settled(bench, pool))
        if not len(rows):
            return pool, nearly
        part = bench.of(rows)
        more = self._combined(part, axes.of(rows), pool.of(rows))
        bench.settle(part, rows)
        return joined([pool, replace(more, row=rows[more.row])]), nearly

    def _settled(self, bench: Batch, pool: Candidates) -> Bools:
        """Rows that need nothing more: one change does, and that is preferred to whatever else there may be."""
        if self.k > 1 or self.weights.looks_at_data or self.weights.several < MOST:
            return np.zeros(len(bench.present), dtype=bool)
        one = bench.space.changed(bench.present, pool.row, pool.codes).sum(axis=1) == 1
        return pool.take(one).has(len(bench.present))

    def _combined(self, bench: Batch, axes: Axes, pool: Candidates) -> Candidates:
        """Candidates with several changes, beside the given ones with one."""
        known = ladders(bench, axes)
        pools = [combinations(bench, axes, known)]
        if self.settings.draws is not None and self.settings.n_draws > 0 and not self.is_quick:
            pools.append(drawn(bench, self.settings.draws, self.settings.n_draws))
        if self.depth > 1:
            pools += climbed(bench, axes, joined([pool, *pools]), self.parts.moves)
        if self.weights.looks_at_data:
            pools.append(profiled(bench, axes, known, self.parts.common.density))
        lacking = np.flatnonzero(~joined([pool, *pools]).has(len(bench.present)))
        if len(lacking) and not bench.ledger.is_late:
            pools.append(self.parts.common.donors.moved(bench, lacking))
        found = joined(pools)
        found = joined([found, finished(bench, joined([pool, found]), self.parts.moves)])
        return joined([found, with_few(bench, axes, joined([pool, found]), self.parts.moves)])

    def _proved(self, bench: Batch, rows: Codes, status: NDArray[Any]) -> Candidates:
        """Candidates that a proof turned up for rows without any; where it proves there is none, the status says so."""
        found = [bench.nothing()]
        limit = np.full(len(rows), LIMIT) if self.parts.oracle.cheap else _affordable(bench.ledger.left[rows])
        size = PROVED if bench.ledger.deadline < np.inf else len(rows)
        for most in np.unique(limit).tolist():
            alike = rows[limit == most]
            for start in range(0, len(alike), size):
                if not bench.ledger.is_late:
                    found.append(self._proved_alike(bench, alike[start : start + size], status, most))
        return joined(found)

    def _proved_alike(self, bench: Batch, rows: Codes, status: NDArray[Any], limit: int) -> Candidates:
        part = bench.of(rows)
        table = self.parts.task.table(part.present.natural)
        wanted, until = self.parts.task.class_names[part.present.wanted], bench.ledger.deadline
        proof = prove(self.parts.task, table, wanted, limit=limit, asks=min(limit, ASKED), until=until)
        part.ledger.spent += proof.asked
        part.ledger.calls += proof.calls
        status[rows[proof.impossible]] = Status.IMPOSSIBLE
        found = np.flatnonzero(proof.possible)
        pool = part.tried(found, self.parts.task.encoder.codes(proof.witness)[found], REFINE)
        pool = joined([pool, finished(part, pool, self.parts.moves)])
        bench.settle(part, rows)
        return replace(pool, row=rows[pool.row])

    def _refined(self, bench: Batch, rows: Codes, base: Codes) -> Candidates:
        """The last resort of rows without an answer or a proof."""
        if not len(rows):
            return bench.nothing()
        part = bench.of(rows)
        pool = refined(part, base, self.parts.common.slope, self.parts.common.train, self.settings.seed)
        pool = joined([pool, finished(part, pool, self.parts.moves)])
        bench.settle(part, rows)
        return replace(pool, row=rows[pool.row])

    def _shortlisted(self, bench: Batch, pool: Candidates) -> Candidates:
        """The cheapest candidates of each row, or such as differ, without a look at how lonely they are."""
        changed = bench.space.changed(bench.present, pool.row, pool.codes)
        extra = np.where(changed.sum(axis=1) > 1, self.weights.several, 0.0)
        if self.weights.coherence:
            extra = self.weights.coherence * incoherence(changed, self.parts.effects) + extra
        pool = replace(pool, price=np.round(pool.price + extra, 9)).take(np.flatnonzero(changed.any(axis=1)))
        pool = few_first(bench, self.weights, pool)
        if self.weights.support:
            pool = supported(self.weights, self.parts.common.density, pool)
        most = self.k + SPARE + (LOOKED_AT + self.k if self.weights.density else 0)
        return diverse(pool, bench.present.codes, most).cheapest(most) if self.k > 1 else pool.best(most)


def _affordable(left: Codes) -> Codes:
    """How many legal rows may be tried with what is left, and one of them asked about again.

    Whole powers of two, so that rows can be taken together whose budgets differ a little.
    """
    return np.where(left > 2, 2 ** np.floor(np.log2(np.maximum(left - 2, 1))), 0).astype(np.int64)


def _nearest(bench: Batch, axes: Axes) -> Candidates:
    """The single change that comes nearest to the class wanted; its price is infinite, for it is no answer."""
    margin = np.round(axes.spread(axes.margin, -np.inf), 9)
    if not margin.size:
        return bench.nothing()
    best = margin.argmax(axis=1)
    row = np.flatnonzero(np.isfinite(margin[np.arange(len(margin)), best]))
    codes = axes.codes[axes.line[row, best[row]]]
    return Candidates(row, codes, np.full(len(row), np.inf), np.full(len(row), REPAIR))
