"""The steps of the search, in order: `STEPS` is the algorithm.

A step takes a batch of rows and the candidates found so far, and proposes more good candidates. One loop passes each
step the rows that need it and collects the results, so stopping after any step leaves the best candidates so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..explanation import Status
from ..proof.proof import LIMIT, prove
from ..proof.tree_search import ASKED
from .batch import Batch
from .candidates import REFINE, Candidates, Found, SearchResult, diverse, joined, undominated, within
from .context import Context, stages
from .cost import LOOKED_AT, MOST, CostWeights, incoherence, measured, supported
from .imitated import AskedCandidates, found_beyond
from .improve import improve, improved, sparsified
from .oracles.codes import CodeOracle, seen_rounding
from .oracles.imitation import Imitation
from .oracles.oracle import Memory
from .propose.combine import combinations
from .propose.donors import donors, usual_profiles
from .propose.draws import drawn, draws, first_good
from .propose.few import far_with_many, few_changes, few_first
from .propose.last_resort import random_changes, uphill
from .propose.pairs import has_start, look_around, pairs
from .propose.single import (
    STARTS,
    SingleChanges,
    explore,
    legal_values,
    nearest_miss,
    outright_changes,
    single_changes,
    values_between,
)
from .reach import out_of_reach
from .space import Bools, Codes, Moves, Rows
from .spending import Spending

# Spare candidates per row, in case a check rejects an answer.
SPARE = 2
# Depth of the search for expensive models: 1 skips pairs and `look_around`, 2 skips proofs and last resorts.
DEEPEST = 3
# Cheap models are always searched at full depth, except with this one, which skips proofs and last resorts.
UNPROVED = 0
# Where no search follows: draws per row that are tried first, until one is good, before all draws are; and how many of
# the good ones are made sparser.
DRAWN_FIRST, SPARSIFIED = (2, 8), 2
# Draws that a model is queried about one after the other if no surrogate predicts its answers.
DRAWN_BLINDLY = 4
# With a surrogate: how far beyond the border of a class it looks for candidates, in standard deviations, and about how
# many of them per row the model is queried in each round.
BEYOND, ROUNDS = (-2.0, -0.5, 1.5), (1, 1, 2, 4, 8)
# Rows to prove between two looks at the clock.
PROVED = 64


RowFilter = Callable[[Batch, Found], Bools]
"""Selects the rows of a batch that a step is for."""


@dataclass(frozen=True)
class SearchStep:
    """One step: its proposal function, its rows, and the depth from which it runs."""

    propose: Callable[[Batch, Found], Candidates]
    rows: tuple[RowFilter, ...]
    """All of these must hold."""
    depth: int = 1
    improves: bool = False
    """Whether its candidates are made sparser and nearer at once."""
    settles: bool = False
    """Whether rows solved by one change are done after it, where the preference puts one change first."""


def possible(batch: Batch, found: Found) -> Bools:
    """Rows with a nonempty region."""
    return found.possible


def breaks_a_rule(batch: Batch, found: Found) -> Bools:
    """Rows that break a rule as they are."""
    return np.asarray((found.base != batch.rows.codes).any(axis=1))


def unsettled(batch: Batch, found: Found) -> Bools:
    """Rows with a nonempty region that neither one change nor a proof settled."""
    return found.possible & ~found.settled & ~found.impossible


def not_drawn_yet(batch: Batch, found: Found) -> Bools:
    """All rows, unless their draws were tried before everything else."""
    return np.full(len(batch), not batch.is_quick)


def data_counts(batch: Batch, found: Found) -> Bools:
    """All rows, if the cost of an answer depends on training rows."""
    return np.full(len(batch), batch.weights.looks_at_data)


def in_time(batch: Batch, found: Found) -> Bools:
    """All rows, unless their time is over."""
    return np.full(len(batch), not batch.spending.is_late)


def has_odd_values(batch: Batch, found: Found) -> Bools:
    """Rows with an off-grid value."""
    return np.asarray(batch.rows.off_grid.any(axis=1))


def unanswered(batch: Batch, found: Found) -> Bools:
    """Rows without an answer that are not proved impossible."""
    return found.lacking & ~found.impossible


def is_proved_early(batch: Batch, found: Found) -> Bools:
    """All rows, if the model is a network: its bounds are cheap, and a proof saves all further steps."""
    return np.full(len(batch), batch.oracle.is_own)


def is_proved_late(batch: Batch, found: Found) -> Bools:
    """Rows that no later stage follows, if it is any other model: a proof may have to query it."""
    return (batch.spending.is_last | ~found.possible) & ~is_proved_early(batch, found)


def proof(batch: Batch, found: Found) -> Candidates:
    """Prove that rows have no counterfactual; a failed proof may find a candidate instead."""
    spending = batch.spending
    limit = np.full(len(batch), LIMIT) if batch.oracle.is_own else _affordable(spending.left)
    size = PROVED if spending.deadline < np.inf else len(batch)
    pools = [batch.nothing()]
    for most in np.unique(limit).tolist():
        alike = np.flatnonzero(limit == most)
        for start in range(0, len(alike), size):
            if not spending.is_late:
                rows = alike[start : start + size]
                pool, found.impossible[rows] = _proved(batch.of(rows), most)
                pools.append(pool.at(rows))
    return joined(pools)


def _proved(batch: Batch, limit: int) -> tuple[Candidates, Bools]:
    """Candidates that proofs found, and rows proved impossible; at most `limit` legal rows are tried."""
    context, spending = batch.context, batch.spending
    table, wanted = context.task.table(batch.rows.natural), batch.rows.wanted.wanted
    proved = prove(context.task, table, wanted, limit=limit, asks=min(limit, ASKED), until=spending.deadline)
    spending.charge(proved.asked)
    spending.show(proved.calls)
    rows = np.flatnonzero(proved.possible)
    impossible = proved.impossible | (~proved.possible & _beyond_a_sum(batch))
    codes = batch.space.codes(batch.rows, rows, context.task.schema.natural(proved.witness.iloc[rows]))
    return batch.tried(rows, codes, REFINE), impossible


def _beyond_a_sum(batch: Batch) -> Bools:
    """Rows whose target a linear model cannot reach under the rules, whatever the rounding.

    The reading is compared with the model once more: a proof must not rest on a model that has changed since.
    """
    oracle, none = batch.oracle, np.zeros(len(batch), dtype=bool)
    if not isinstance(oracle, CodeOracle) or not oracle.additive or not batch.context.is_read:
        return none
    beyond = out_of_reach(batch.context, batch.rows, whatever_rounding=True)
    if not beyond.any():
        return none
    rounding = seen_rounding(oracle.space, oracle.model)
    return beyond if rounding is not None and rounding <= oracle.rounding else none


def _affordable(left: Codes) -> Codes:
    """The number of legal rows that the remaining calls can pay for, with one call to check a candidate.

    Rounded down to powers of two, so that rows with similar budgets can be proved together.
    """
    return np.where(left > 2, 2 ** np.floor(np.log2(np.maximum(left - 2, 1))), 0).astype(np.int64)


STEPS = (
    SearchStep(single_changes, (possible,)),
    SearchStep(outright_changes, (possible, breaks_a_rule)),
    SearchStep(values_between, (possible,), settles=True),
    SearchStep(combinations, (unsettled,)),
    SearchStep(draws, (unsettled, not_drawn_yet)),
    SearchStep(proof, (unanswered, is_proved_early), depth=DEEPEST, improves=True),
    *(
        SearchStep(partial(look_around, turn=t), (unsettled, partial(has_start, turn=t)), depth=2)
        for t in range(STARTS)
    ),
    SearchStep(pairs, (unsettled, unanswered), depth=2),
    SearchStep(usual_profiles, (unsettled, data_counts)),
    SearchStep(legal_values, (possible, unanswered, has_odd_values)),
    SearchStep(donors, (possible, unanswered, in_time)),
    SearchStep(improve, (unsettled,)),
    SearchStep(few_changes, (unsettled, far_with_many)),
    SearchStep(proof, (unanswered, is_proved_late), depth=DEEPEST, improves=True),
    SearchStep(uphill, (possible, unanswered), depth=DEEPEST, improves=True),
    SearchStep(random_changes, (possible, unanswered), depth=DEEPEST, improves=True),
)


@dataclass(frozen=True, eq=False)
class StepRunner:
    """Runs the steps for the rows of one task, with at most `k` answers per row."""

    context: Context
    k: int
    deepest: int = DEEPEST

    @property
    def depth(self) -> int:
        """The depth of the search."""
        if self.context.imitation is not None:
            return min(self.deepest, DEEPEST - 1)
        cheap = DEEPEST - 1 if self.deepest == UNPROVED else DEEPEST
        return cheap if self.context.oracle.cheap else self.deepest

    @property
    def weights(self) -> CostWeights:
        """The weights of the cost."""
        return self.context.settings.weights

    def run(self, present: Rows) -> SearchResult:
        """Find good candidates for each row, cheapest first, and the status of rows without any."""
        batch = self.batch(present)
        account, rows, impossible = batch.spending.account, np.arange(len(batch)), np.zeros(len(batch), dtype=bool)
        pool, nearly, memory, allowed = batch.nothing(), batch.nothing(), batch.memory, account.limit
        for number, (limit, moves) in enumerate(self._stages(allowed)):
            account.limit, account.stage, account.refused[rows] = np.minimum(allowed, limit), limit, False
            account.goes_on = allowed > limit
            part = replace(batch.of(rows), moves=moves)
            known = pool.of(rows)
            # The stage before may have had no queries left to improve what it found last.
            found = self.found(part, pool=joined([known, improved(part, known)]) if number else None)
            pool = joined([pool.without(rows), found.pool.at(rows)])
            nearly = joined([nearly.without(rows), nearest_miss(part, found.singles).at(rows)])
            impossible[rows] = found.impossible
            rows = rows[(allowed[rows] > limit) & found.possible & ~found.impossible]
            if not len(rows) or batch.spending.is_late:
                break
            if memory is not None:
                memory.next_stage()
        return self._result(batch, self.shortlisted(batch, pool), nearly, impossible)

    def _stages(self, allowed: Codes) -> Iterator[tuple[int, Moves]]:
        """The stages of the search: the limit of calls per row, and the single changes that are tried."""
        most = int(allowed.max(initial=0))
        if self.context.oracle.cheap:
            return iter([(most, self.context.moves)])
        return ((limit, self.context.moves_up_to(moves)) for limit, moves in stages(most))

    def found(self, batch: Batch, singles: SingleChanges | None = None, pool: Candidates | None = None) -> Found:
        """Run all steps, starting from given single changes and candidates, or else from all of them and from draws."""
        first = self._first(batch) if pool is None else pool
        singles = self.singles(batch) if singles is None else singles
        found = Found(singles, singles.possible, first)
        for step in STEPS:
            if step.depth <= self.depth:
                self._take(step, batch, found)
        return found

    def singles(self, batch: Batch) -> SingleChanges:
        """Every single change of each row, from the nearest row that keeps the rules."""
        return explore(batch, *batch.legal.base(batch.rows, batch.region))

    def _first(self, batch: Batch) -> Candidates:
        """Candidates from draws, which come before everything else where each query counts."""
        context, count = self.context, self.context.settings.n_draws
        if context.oracle.cheap or batch.is_quick or context.settings.draws is None or not count:
            return batch.nothing()
        guess = context.shared.guess
        if guess is not None:
            return self._guessed(batch, guess)
        pool = first_good(batch, min(count, DRAWN_BLINDLY))
        pool = pool.take(np.flatnonzero(batch.changed(pool).any(axis=1)))
        return joined([pool, sparsified(batch, pool)])

    def _guessed(self, batch: Batch, guess: Imitation) -> Candidates:
        """Candidates that the model finds good, among those found by draws and a search on the surrogate."""
        runner = replace(self, context=self.context.by(guess.oracle))
        borders = [(np.full(len(batch), level * guess.spread), UNPROVED) for level in BEYOND]
        return AskedCandidates(batch, guess, found_beyond(runner, batch, borders)).ask_in_rounds(ROUNDS)

    def _take(self, step: SearchStep, batch: Batch, found: Found) -> None:
        wanted = np.ones(len(batch), dtype=bool)
        for applies in step.rows:
            wanted = wanted & applies(batch, found) if wanted.any() else wanted
        rows = np.flatnonzero(wanted)
        if len(rows):
            part, known = batch.of(rows), found.of(rows)
            pool = step.propose(part, known)
            if step.improves:
                pool = joined([pool, improved(part, pool)])
            found.impossible[rows] = known.impossible
            found.add(pool.at(rows))
        if step.settles:
            found.settled = self._settled(batch, found.pool)

    def _settled(self, batch: Batch, pool: Candidates) -> Bools:
        """Rows that are done: one change is enough, and the preference puts one change first."""
        if self.k > 1 or self.weights.looks_at_data or self.weights.several < MOST:
            return np.zeros(len(batch), dtype=bool)
        return pool.take(batch.changed(pool).sum(axis=1) == 1).has(len(batch))

    def quick(self, present: Rows) -> SearchResult:
        """Return the best of a few draws, or of more if none of the few is good, without needless changes.

        A cheap oracle ranks them, with some margin if it imitates the model.
        """
        imitation, most = self.context.imitation, self.context.settings.n_draws
        if imitation is not None:
            present = replace(present, border=np.full(len(present), imitation.spread))
        batch = self.batch(present)
        pool, rows, free = batch.nothing(), np.arange(len(batch)), self.context.oracle.cheap
        for count in (*(n for n in DRAWN_FIRST if n < most), most) if free else (1,):
            part = batch.of(rows)
            best, new = self._best_draws(part, drawn(part, count))
            fewer = sparsified(part, best, only=new) if free and most > 1 else part.nothing()
            pool = joined([pool, best.at(rows), fewer.at(rows)])
            rows = np.flatnonzero(~pool.has(len(batch)))
            if not len(rows):
                break
        if free:
            # Answers of a cheap oracle do not count as queries; the check of the chosen draw will be one.
            batch.spending.account.spent[:] = pool.has(len(batch)) & (not self.context.is_read)
        # One candidate is enough if the model was read; an imitation may be wrong about it.
        best = self.shortlisted(batch, pool)
        return self._result(batch, best.take(within(best.row) < (1 if imitation is None else 2)))

    def _best_draws(self, batch: Batch, pool: Candidates) -> tuple[Candidates, Bools]:
        """A few distinct good draws of each row, and the features in which each differs from the one before it."""
        if len(pool) > SPARSIFIED * len(batch):
            best = self.shortlisted(batch, pool)
            best = best.take(within(best.row) < SPARSIFIED)
            pool = batch.priced(best.row, best.codes, best.how)
        new, follows = batch.changed(pool), np.flatnonzero(pool.row[1:] == pool.row[:-1]) + 1
        moves = new.any(axis=1)
        new[follows] &= pool.codes[follows] != pool.codes[follows - 1]
        kept = np.flatnonzero(moves & new.any(axis=1))
        return pool.take(kept), new[kept]

    def batch(self, present: Rows) -> Batch:
        """Prepare rows for the steps, with nothing spent."""
        context, seconds = self.context, self.context.settings.budget.seconds
        deadline = np.inf if seconds is None else time.monotonic() + seconds * len(present)
        spending = Spending.start(self._allowed(present), deadline)
        # A search in stages meets many candidates again.
        memory = None if context.oracle.cheap else Memory(len(context.space.names))
        region = context.legal.region(present)
        return Batch(context, present, spending, self.weights, context.moves, region, self.k, memory)

    def _allowed(self, present: Rows) -> Codes:
        """The limit of calls for each row."""
        calls = self.context.settings.budget.calls
        return np.full(len(present), calls) if present.calls is None else present.calls

    def _result(
        self, batch: Batch, pool: Candidates, nearly: Candidates | None = None, impossible: Bools | None = None
    ) -> SearchResult:
        account, status = batch.spending.account, np.full(len(batch), Status.NOT_FOUND, dtype=object)
        if impossible is not None:
            status[account.refused] = Status.TIMED_OUT
            status[impossible] = Status.IMPOSSIBLE
        nearly = batch.nothing() if nearly is None else nearly
        return SearchResult(pool, status, nearly, account.spent, account.refused, account.calls)

    def ordered(self, present: Rows, pool: Candidates) -> Candidates:
        """Answers in order of preference, and some spare ones."""
        if self.weights.density:
            pool = measured(self.weights, self.context.shared.density, present, pool, self.k)
        if self.k == 1:
            return pool.best(1 + SPARE)
        return diverse(undominated(pool, present.codes), present.codes, self.k + SPARE)

    def shortlisted(self, batch: Batch, pool: Candidates, spare: int = SPARE) -> Candidates:
        """The cheapest candidates of each row, diverse if `k > 1`, before their LOF is measured."""
        changed = batch.changed(pool)
        extra = np.where(changed.sum(axis=1) > 1, self.weights.several, 0.0)
        if self.weights.coherence:
            extra = self.weights.coherence * incoherence(changed, self.context.effects) + extra
        pool = replace(pool, price=np.round(pool.price + extra, 9)).take(np.flatnonzero(changed.any(axis=1)))
        pool = few_first(batch, pool)
        if self.weights.support:
            pool = supported(self.weights, self.context.shared.density, batch.rows, pool)
        most = self.k + spare + (LOOKED_AT + self.k if self.weights.density else 0)
        return diverse(pool, batch.rows.codes, most).cheapest(most) if self.k > 1 else pool.best(most)
