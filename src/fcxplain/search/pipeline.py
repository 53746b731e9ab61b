"""Search: verified counterfactuals for rows, by the user's own model, under the task's rules.

The way of a batch: single changes, combinations, a second look from the best of them, proposals of others, donors;
then fewer changes, smaller changes, the order of choice, and a proof where nothing was found.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from ..causal import CausalGraph
from ..classifier.distillation import Differentiable
from ..errors import ClassifierError, DataError, Fault
from ..explanation import Effort, Explanation, Status
from ..model.settings import between, whole
from ..task import Task
from .answers import Question, explanation
from .axes import Axes, moves_of
from .bench import Bench
from .climb import climbed
from .density import Density
from .diverse import diverse
from .donors import Donors, profiled
from .finish import finished
from .found import Found, one_after_the_other
from .legal import Legal
from .oracle import Ledger, oracle_for
from .pool import REFINE, REPAIR, Pool, joined
from .propose import Draws, combinations, drawn, in_between, ladders, singles
from .prove import LIMIT, prove
from .rank import LOOKED_AT, MOST, Weights, effects_of, incoherence, measured, supported, weights_for
from .space import Bools, Codes, Present, Space

# Rows searched at a time, and how many such batches are held against the training rows together.
CHUNK, CHUNK_ASKING, CHUNKS = 512, 256, 16
# Single changes asked about where questions are cheap; elsewhere half of the budget.
MOVES = 1_200
# Answers of each row held ready beyond those asked for.
SPARE = 2
DRAWS = 16


class Search:
    """Finds counterfactuals that pass every check, or says of a row that there is none to be found.

    prefer: "sparse" (few changes), "balanced", or "plausible" (like rows that there are).
    weights: what each part of the cost counts for, in place of the preference's; see `Weights`.
    difficulty: what changing a feature costs in comparison with others, 1 by default.
    draws: proposals of a network, if there is one; see `propose.Draws`.
    calls: how often a model that is no network may be asked for each row. seconds: for each row, or no limit.
    stand_in: the model with gradients, where it is known already.
    graph: causes and effects, for answers in which they go together; by default the task's, if it is a `CausalGraph`.
    """

    def __init__(
        self,
        task: Task,
        *,
        prefer: str = "balanced",
        weights: Weights | Mapping[str, float] | None = None,
        difficulty: Mapping[str, float] | None = None,
        draws: Draws | None = None,
        seed: int = 0,
        calls: int = 1_000,
        seconds: float | None = None,
        stand_in: Differentiable | None = None,
        graph: CausalGraph | None = None,
    ) -> None:
        limit = [] if seconds is None else between("seconds", seconds, 0, open_low=True)
        _refuse("these settings of the search", [*whole("calls", calls, 1), *whole("seed", seed, 0), *limit])
        self.task, self.prefer, self.seed = task, prefer, seed
        self.weights = weights_for(prefer, weights)
        self.draws, self.calls, self.seconds = draws, calls, seconds
        self.space = Space(task, difficulty)
        self.legal = Legal(self.space)
        self.oracle = oracle_for(self.space, stand_in)
        known = task.graph if graph is None and isinstance(task.graph, CausalGraph) else graph
        self.effects = effects_of(self.space, known)
        train = task.encoder.codes(task.train)
        self.density = Density(self.space, train, seed)
        self.donors = Donors(self.space, train, seed)
        self.moves = moves_of(self.space, train, MOVES if self.oracle.cheap else max(calls // 2, 1))

    def explain(self, rows: pd.DataFrame, k: int = 1, *, best_effort: bool = False) -> Explanation:
        """At most `k` verified counterfactuals for each row that does not have the class wanted.

        With `best_effort`, rows without one get what came nearest, marked as such. An answer depends on its row, the
        model, the rules and the seed, never on the rows beside it.
        """
        _refuse("explain", whole("k", k, 1))
        wall, cpu = time.perf_counter(), time.process_time()
        table = rows[list(self.task.schema.names)]
        natural = self.task.schema.checked(table)
        names = pd.Index(self.task.classes, tupleize_cols=False).to_numpy()
        classes = self.oracle.classes(table, natural)
        wanted = self.task.wanted(names[classes])
        asked = np.flatnonzero(names[classes] != wanted)
        places = {name: i for i, name in enumerate(self.task.classes)}
        places_wanted = np.array([places[w] for w in wanted[asked].tolist()], dtype=np.int64)
        present = self.space.present({n: v[asked] for n, v in natural.items()}, places_wanted)
        found = self._in_batches(present, k)
        status = np.full(len(rows), Status.ALREADY, dtype=object)
        status[asked] = found.status
        question = Question(table, wanted, asked, present)
        made = explanation(self.space, question, found, status, k, best_effort=best_effort)
        calls = len(rows) + int(found.calls.sum()) + len(made.answers)
        spent = Effort(time.perf_counter() - wall, time.process_time() - cpu, torch.get_num_threads(), calls)
        return replace(made, effort=spent)

    def _in_batches(self, present: Present, k: int) -> Found:
        size = CHUNK if self.oracle.cheap else CHUNK_ASKING
        parts = [
            self._in_parts(present.take(slice(s, s + CHUNKS * size)), size, k)
            for s in range(0, len(present), CHUNKS * size)
        ]
        found = one_after_the_other(parts, len(self.space.names))
        if found.failures and len(found.failures) == len(present):
            raise ClassifierError(found.failures[0])
        return found

    def _in_parts(self, present: Present, size: int, k: int) -> Found:
        """Several batches, whose candidates are held against the training rows together, since that is cheaper."""
        parts = [self._whatever_fails(present.take(slice(s, s + size)), k) for s in range(0, len(present), size)]
        found = one_after_the_other(parts, len(self.space.names))
        return replace(found, pool=self._ordered(present, found.pool, k))

    def _whatever_fails(self, present: Present, k: int) -> Found:
        """A batch; where the model fails on it, its halves, so that one bad row costs no other its answer."""
        try:
            return self._found(present, k)
        except ClassifierError as error:
            if len(present) == 1:
                return Found.failed(1, len(self.space.names), str(error))
        half = len(present) // 2
        parts = [present.take(slice(None, half)), present.take(slice(half, None))]
        return one_after_the_other([self._whatever_fails(p, k) for p in parts], len(self.space.names))

    def _found(self, present: Present, k: int) -> Found:
        deadline = np.inf if self.seconds is None else time.monotonic() + self.seconds * len(present)
        ledger = Ledger(self.calls, np.zeros(len(present), dtype=np.int64), deadline)
        bench = Bench(self.space, self.legal, self.oracle, present, ledger, self.weights)
        base, possible, _ = self.legal.base(present)
        status = np.full(len(present), Status.NOT_FOUND, dtype=object)
        rows = np.flatnonzero(possible)
        part = bench.of(rows)
        pool, nearly = self._searched(part, base[rows], k)
        bench.settle(part, rows)
        pool, nearly = replace(pool, row=rows[pool.row]), replace(nearly, row=rows[nearly.row])
        # Whether the rules allow nothing at all is for the proof to say too: it knows of values off the grid.
        lacking = np.flatnonzero(~pool.has(len(present)))
        pool = joined([pool, self._proved(bench, lacking, status)])
        status[ledger.refused & (status != Status.IMPOSSIBLE)] = Status.TIMED_OUT
        return Found(self._shortlisted(bench, pool, k), status, nearly, np.array([ledger.calls]))

    def _searched(self, bench: Bench, base: Codes, k: int) -> tuple[Pool, Pool]:
        """Good candidates of every kind, and for each row what came nearest to one."""
        axes, pool = singles(bench, base, self.moves)
        pool = joined([pool, in_between(bench, axes, pool)])
        nearly = _nearest(bench, axes)
        rows = np.flatnonzero(~self._settled(bench, pool, k))
        if not len(rows):
            return pool, nearly
        part = bench.of(rows)
        more = self._combined(part, axes.of(rows), pool.of(rows))
        bench.settle(part, rows)
        return joined([pool, replace(more, row=rows[more.row])]), nearly

    def _settled(self, bench: Bench, pool: Pool, k: int) -> Bools:
        """Rows that need nothing more: one change does, and that is preferred to whatever else there may be."""
        if k > 1 or self.weights.looks_at_data or self.weights.several < MOST:
            return np.zeros(len(bench.present), dtype=bool)
        one = bench.space.changed(bench.present, pool.row, pool.codes).sum(axis=1) == 1
        return pool.take(one).has(len(bench.present))

    def _combined(self, bench: Bench, axes: Axes, pool: Pool) -> Pool:
        """Candidates with several changes, beside the given ones with one."""
        known = ladders(bench, axes)
        pools = [combinations(bench, axes, known)]
        if self.draws is not None:
            pools.append(drawn(bench, self.draws, DRAWS))
        pools += climbed(bench, axes, joined([pool, *pools]), self.moves)
        if self.weights.looks_at_data:
            pools.append(profiled(bench, axes, known, self.density))
        lacking = np.flatnonzero(~joined([pool, *pools]).has(len(bench.present)))
        if len(lacking):
            pools.append(self.donors.moved(bench, lacking))
        found = joined(pools)
        return joined([found, finished(bench, joined([pool, found]), self.moves)])

    def _proved(self, bench: Bench, rows: Codes, status: NDArray[Any]) -> Pool:
        """Candidates that a proof turned up for rows without any; where it proves there is none, the status says so."""
        found = [bench.nothing()]
        left = np.maximum(self.calls - bench.ledger.spent[rows], 1)
        # Whole powers of two, so that rows can be taken together whose budgets differ a little.
        limit = np.where(self.oracle.cheap, LIMIT, 2 ** np.floor(np.log2(left))).astype(np.int64)
        for most in np.unique(limit).tolist():
            if time.monotonic() <= bench.ledger.deadline:
                found.append(self._proved_alike(bench, rows[limit == most], status, most))
        return joined(found)

    def _proved_alike(self, bench: Bench, rows: Codes, status: NDArray[Any], limit: int) -> Pool:
        part, here = bench.of(rows), np.arange(len(rows))
        names = np.empty(len(self.task.classes), dtype=object)
        names[:] = self.task.classes
        table = self.space.table(part.present, here, part.present.codes)
        proof = prove(self.task, table, names[part.present.wanted], limit=limit)
        part.ledger.calls += proof.calls
        status[rows[proof.impossible]] = Status.IMPOSSIBLE
        found = np.flatnonzero(proof.possible)
        pool = part.tried(found, self.task.encoder.codes(proof.witness)[found], REFINE)
        pool = joined([pool, finished(part, pool, self.moves)])
        bench.settle(part, rows)
        return replace(pool, row=rows[pool.row])

    def _shortlisted(self, bench: Bench, pool: Pool, k: int) -> Pool:
        """The cheapest candidates of each row, or such as differ, without a look at how lonely they are."""
        changed = bench.space.changed(bench.present, pool.row, pool.codes)
        extra = self.weights.coherence * incoherence(changed, self.effects)
        extra += np.where(changed.sum(axis=1) > 1, self.weights.several, 0.0)
        pool = replace(pool, price=np.round(pool.price + extra, 9)).take(np.flatnonzero(changed.any(axis=1)))
        pool = supported(self.weights, self.density, pool)
        most = k + SPARE + (LOOKED_AT + k if self.weights.density else 0)
        return diverse(pool, bench.present.codes, most).cheapest(most) if k > 1 else pool.best(most)

    def _ordered(self, present: Present, pool: Pool, k: int) -> Pool:
        """Answers in order of choice, and some to spare."""
        pool = measured(self.weights, self.density, pool, k)
        return diverse(pool, present.codes, k + SPARE) if k > 1 else pool.best(k + SPARE)


def _refuse(what: str, faults: list[Fault]) -> None:
    if faults:
        raise DataError(f"{what}: this cannot be used", faults)


def _nearest(bench: Bench, axes: Axes) -> Pool:
    """The single change that comes nearest to the class wanted; its price is infinite, for it is no answer."""
    margin = np.round(axes.spread(axes.margin, -np.inf), 9)
    if not margin.size:
        return bench.nothing()
    best = margin.argmax(axis=1)
    row = np.flatnonzero(np.isfinite(margin[np.arange(len(margin)), best]))
    codes = axes.codes[axes.line[row, best[row]]]
    return Pool(row, codes, np.full(len(row), np.inf), np.full(len(row), REPAIR))
