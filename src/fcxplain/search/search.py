"""Search: verified counterfactuals for rows, by the user's own model, under the task's rules.

Rows are searched in batches (see `steps`). Every answer is checked (see `answers`) before the next rows are searched,
so a model that breaks down later only costs the rows that were still to come.

If a model can only be imitated, the search runs on the imitation, and the model is queried about the most promising
candidates. The error of an imitation differs from row to row, and less among the candidates of one row. So the search
looks for candidates slightly before, at and beyond the border of the target class (see `imitated`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..causal import CausalGraph
from ..classifier.imitation import ImitatingTrees
from ..classifier.protocol import Predictions
from ..errors import ClassifierError, DataError, Fault, did_you_mean, whole
from ..explanation import Effort, Explanation, Status
from ..progress import OnProgress, RowCount, no_progress
from ..schema import Natural
from ..task import Task
from .answers import Answers, Inquiry, Part, Question, checked, nearest, reported
from .candidates import SearchResult, joined, one_after_the_other, within
from .context import ORACLES, Context, Settings
from .cost import CostWeights, weights_for
from .imitated import AskedCandidates, found_beyond
from .improve import improved
from .oracles.imitation import Imitation
from .oracles.oracle import Oracle
from .propose.draws import Draws
from .reach import out_of_reach
from .space import Rows
from .spending import Budget, as_budget
from .steps import DEEPEST, StepRunner

if TYPE_CHECKING:
    from ..classifier.distillation import Differentiable

# Rows that are compared with the training rows, and checked, together; batches of a model that is expensive to query
# are checked one by one.
TOGETHER = 8_192
# The same with `quick`, and the rows whose draws are tried together.
TOGETHER_QUICKLY, DRAWN_TOGETHER = 32_768, 16_384
# The most codes of single changes that are held at a time: fewer rows of a wide table are searched together.
HELD = 2**26
# Where to look for candidates, in standard deviations beyond the border, and at which depth (see `steps`): first for
# all rows, then for rows without an answer.
LEVELS = (((-1.5, 2), (-0.5, 1), (0.5, 1)), ((1.0, 2),))
# Candidates per row that the model is queried about in each round.
ROUNDS = (2, 3, 4, 6, 8)


class Search:
    """Find counterfactuals that pass every check, or report that none was found.

    prefer: "fewest" (fewest changes, however large), "sparse" (few changes, none of them large), "balanced", or
        "plausible" (similar to training rows).
    weights: the weight of each part of the cost, instead of the preference's; see `CostWeights`.
    difficulty: the cost of changing a feature relative to others, 1 by default.
    draws: proposals of a network, if there is one; see `propose.Draws`.
    n_draws: the number of draws per row. With 1, a row whose only draw is good gets it unchanged, which is fast, and
        only the other rows are searched.
    quick: the best draw of a row is its answer; only rows without a good draw are searched.
    budget: the limit for each row: a `Budget`, a number of calls, or a mapping.
    surrogate: a differentiable version of the model, if there is one already.
    graph: causes and effects, for answers that change both together; by default the task's, if it is a `CausalGraph`.
    oracle: "auto" reads the model as numbers where it can, searches these, and queries the model itself about the
        results; "model" queries the model itself about every candidate.
    imitation: trees that have learnt the answers of a model that cannot be read (`imitating_trees`). They are
        searched, and the model is queried about the most promising candidates.
    """

    def __init__(
        self,
        task: Task,
        *,
        prefer: str = "balanced",
        weights: CostWeights | Mapping[str, float] | None = None,
        difficulty: Mapping[str, float] | None = None,
        draws: Draws | None = None,
        n_draws: int = 16,
        quick: bool = False,
        seed: int = 0,
        budget: Budget | Mapping[str, Any] | int | None = None,
        surrogate: Differentiable | None = None,
        graph: CausalGraph | None = None,
        oracle: str = "auto",
        imitation: ImitatingTrees | None = None,
    ) -> None:
        _refuse("these settings of the search cannot be used", [*whole("seed", seed, 0), *whole("n_draws", n_draws, 0)])
        if oracle not in ORACLES:
            remedy = did_you_mean(oracle, ORACLES) or f"Choose one of {', '.join(ORACLES)}."
            raise DataError("", [Fault(f"oracle={oracle!r}", "is not known", remedy)])
        chosen = weights_for(prefer, weights)
        self.settings = Settings(
            chosen, as_budget(budget), draws, n_draws, seed, surrogate, graph, oracle, imitation, quick
        )
        self.context = Context(task, self.settings, difficulty)

    @property
    def task(self) -> Task:
        """The problem."""
        return self.context.task

    def narrowed(self, task: Task, difficulty: Mapping[str, float] | None = None) -> Self:
        """The same search for a task with other rules or another target, or with other difficulties.

        Everything that depends on the table and the model alone is shared, so this costs next to nothing. A task with
        another table, other bounds or another model gets its own.
        """
        other = object.__new__(type(self))
        other.settings, other.context = self.settings, self.context.narrowed(task, difficulty)
        return other

    def explain(
        self,
        rows: pd.DataFrame,
        k: int = 1,
        *,
        best_effort: bool = False,
        depth: int = DEEPEST,
        reasons: bool = False,
        on_progress: OnProgress = no_progress,
    ) -> Explanation:
        """Return at most `k` verified counterfactuals for each row that does not have the target class.

        With `best_effort`, rows without one get the nearest candidate, marked as such. An answer depends on its row,
        the model, the rules and the seed, never on other rows. With less `depth` (see `StepRunner`), the search gives
        up earlier. `on_progress` is called after each batch; its rows without an answer do not count as done yet if
        `reasons` are searched afterwards.
        """
        _refuse("explain: this argument cannot be used", whole("k", k, 1))
        wall, cpu = time.perf_counter(), time.process_time()
        table, natural = self.task.read(rows)
        now, failures = decided(self.context.oracle, table, natural, self.task)
        wanted = self.task.wanted(self.task.classifier.named(now))
        outcomes = self.task.outcomes(wanted)
        met = outcomes.met(now.probabilities, now.choice)
        met[list(failures)] = True
        inquiry = Inquiry(table, wanted, np.flatnonzero(~met), failures, outcomes.score(now.probabilities))
        count = RowCount(len(table), on_progress, reasons=reasons)
        count.add(len(table) - len(inquiry.asked))
        runner = StepRunner(self.context, k, depth)
        parts = self._in_parts(runner, self._question(inquiry, natural), count, best_effort=best_effort)
        drawn = 0 if self.settings.draws is None else self.settings.n_draws
        made = reported(self.task, inquiry, parts, draws=drawn)
        calls = len(rows) + sum(found.calls + answers.calls for found, answers in parts) + self.context.measuring()
        return replace(made, effort=Effort.since(wall, cpu, calls), costs=self.context.costs)

    def out_of_reach(self, rows: pd.DataFrame) -> NDArray[np.bool_]:
        """Rows for which a search is futile: by the model as it was read, no legal candidate gets the target class."""
        if not self.context.oracle.additive:
            return np.zeros(len(rows), dtype=bool)
        _, natural = self.task.read(rows)
        wanted = np.empty(len(rows), dtype=object)
        wanted[:] = self.task.target
        return out_of_reach(self.context, self.context.space.present(natural, self.task.outcomes(wanted)))

    def _question(self, inquiry: Inquiry, natural: Natural) -> Question:
        """The rows that need an answer."""
        asked = inquiry.asked
        if len(asked) < len(inquiry.table):
            natural = {n: v[asked] for n, v in natural.items()}
        wanted = inquiry.wanted[asked]
        present = self.context.space.present(natural, self.task.outcomes(wanted))
        return Question(present, wanted)

    def _in_parts(self, runner: StepRunner, question: Question, count: RowCount, *, best_effort: bool) -> list[Part]:
        """Search and check the rows in parts; raise if the model fails on every row."""
        oracle, rows, parts = self.context.oracle, len(question.rows), []
        # After draws few rows are left to search, so the fixed cost of a search dominates.
        many = TOGETHER_QUICKLY if self.settings.is_quick(runner.k) else TOGETHER
        size = many if oracle.cheap else oracle.rows_at_once
        for start in range(0, max(rows, 1), size):
            part = question.take(slice(start, start + size))
            found, answers = self._answered(runner, part, count)
            if runner.deepest == DEEPEST and (self.context.is_read or self.context.imitation is not None):
                found, answers = self._asked_again(runner, part, found, answers)
            lacking = np.flatnonzero(np.bincount(answers.row, minlength=len(part.rows)) == 0)
            if best_effort and len(lacking):
                near = nearest(self.context.space, part, found, lacking)
                answers = answers.completed(near, lacking, len(part.rows))
            parts.append((found, answers))
        failed = [message for part in parts for side in part for message in side.failures.values()]
        if failed and len(failed) == rows:
            raise ClassifierError(failed[0])
        return parts

    def _answered(self, runner: StepRunner, part: Question, count: RowCount) -> Part:
        """Search rows, and check the candidates with the user's own model."""
        found = self._searched(runner, part.rows, count)
        if runner.context.is_read:
            # The model itself was not queried during the search: its budget starts here.
            pool = found.pool
            found = replace(found, pool=pool.take(within(pool.row) < self.settings.budget.calls))
        answers = checked(self.context.space, part, found, runner.k)
        return (replace(found, spent=found.spent + answers.shown) if runner.context.is_read else found), answers

    def _asked_again(self, runner: StepRunner, part: Question, found: SearchResult, answers: Answers) -> Part:
        """Search rows without an answer or a proof again, and query the user's own model about every candidate."""
        lacking = (np.bincount(answers.row, minlength=len(part.rows)) == 0) & (found.status != Status.IMPOSSIBLE)
        left = self.settings.budget.calls - found.spent
        rows = np.flatnonzero(lacking & (left > 0) & ~found.cut_short)
        rows = rows[~out_of_reach(self.context, part.rows.take(rows), whatever_rounding=True)]
        if not len(rows):
            return found, answers
        own = part.take(rows)
        own = replace(own, rows=replace(own.rows, calls=left[rows]))
        more, further = self._answered(
            replace(runner, context=self.context.by_model), own, RowCount(len(rows), no_progress)
        )
        return found.completed(more, rows), answers.completed(further, rows, len(part.rows))

    def _searched(self, runner: StepRunner, present: Rows, count: RowCount) -> SearchResult:
        """Search several batches; comparing all their candidates with the training rows at once is cheaper."""
        if not self.settings.is_quick(runner.k):
            found = self._in_batches(runner, present, count)
        else:
            features = present.codes.shape[1]
            starts = range(0, max(len(present), 1), DRAWN_TOGETHER)
            parts = [present.take(slice(i, i + DRAWN_TOGETHER)) for i in starts]
            found = one_after_the_other([found_by_halves(runner.quick, part) for part in parts], features)
            left = np.flatnonzero(~found.pool.has(len(present)))
            count.add(len(present) - len(left))
            found = found.completed(self._in_batches(runner, present.take(left), count), left)
        return replace(found, pool=runner.ordered(present, found.pool))

    def _in_batches(self, runner: StepRunner, present: Rows, count: RowCount) -> SearchResult:
        context, found = runner.context, []
        imitation, features = context.imitation, present.codes.shape[1]
        size = max(1, min(context.oracle.rows_at_once, HELD // max(1, len(context.moves) * features)))
        find = runner.run if imitation is None else partial(imitated, runner, imitation)
        for start in range(0, max(len(present), 1), size):
            batch = present.take(slice(start, start + size))
            found.append(found_by_halves(find, batch))
            count.add(len(batch), int((~found[-1].pool.has(len(batch))).sum()))
        return one_after_the_other(found, features)


def imitated(runner: StepRunner, imitation: Imitation, present: Rows) -> SearchResult:
    """Candidates from searching the imitation that the model itself finds good."""
    batch, rows = runner.batch(present), np.arange(len(present))
    # The model itself was queried about no single change yet.
    untried = replace(batch.moves, whole=np.zeros_like(batch.moves.whole))
    model = replace(batch, context=batch.context.by_model, moves=untried)
    off, pools = np.zeros(len(present)), [batch.nothing()]
    for levels in LEVELS:
        borders = [(off[rows] + level * imitation.spread, depth) for level, depth in levels]
        pool = found_beyond(runner, batch.of(rows), borders)
        asked = AskedCandidates(model.of(rows), imitation, pool, off[rows])
        pools.append(asked.ask_in_rounds(ROUNDS).at(rows))
        off[rows] = asked.off
        rows = np.flatnonzero(~joined(pools).has(len(present)))
        if not len(rows):
            break
    pools.append(improved(model, joined(pools).best(1)))
    account, status = batch.spending.account, np.full(len(batch), Status.NOT_FOUND, dtype=object)
    return SearchResult(
        runner.shortlisted(batch, joined(pools)), status, batch.nothing(), account.spent, account.refused, account.calls
    )


def _refuse(message: str, faults: list[Fault]) -> None:
    if faults:
        raise DataError(message, faults)


def found_by_halves(find: Callable[[Rows], SearchResult], present: Rows) -> SearchResult:
    """Search rows, halving them where the model fails until single rows are reported as failures."""
    features = present.codes.shape[1]
    try:
        return find(present)
    except ClassifierError as error:
        if len(present) == 1:
            return SearchResult.failed(features, str(error))
    half = len(present) // 2
    parts = [present.take(slice(None, half)), present.take(slice(half, None))]
    return one_after_the_other([found_by_halves(find, part) for part in parts], features)


def decided(oracle: Oracle, rows: pd.DataFrame, natural: Natural, task: Task) -> tuple[Predictions, dict[int, str]]:
    """The model's decisions about rows, and its messages for rows on which it fails; their numbers are NaN."""
    found = Predictions.none(len(rows), max(1, len(task.classes)))
    found.probabilities[:] = np.nan

    def ask(which: NDArray[np.int64]) -> None:
        some = rows if len(which) == len(rows) else rows.iloc[which]
        found.put(which, oracle.decisions(some, _taken(natural, which, len(rows))))

    return found, task.failures(natural, ask)


def _taken(natural: Natural, which: NDArray[np.int64], rows: int) -> Natural:
    return natural if len(which) == rows else {n: v[which] for n, v in natural.items()}
