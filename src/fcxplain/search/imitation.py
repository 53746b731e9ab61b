"""Search on an imitation of the model, then ask the model itself about the most promising candidates.

An imitation is off by an amount that differs from row to row, and less from candidate to candidate of one row. So the
search looks for candidates somewhat before, at and beyond the border of the class wanted (see `questions`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..explanation import Status
from .batch import Batch
from .candidates import Candidates, SearchResult, joined
from .improve import improved
from .oracles.imitation import Imitation
from .questions import AskedCandidates
from .space import Floats, Rows
from .steps import StepRunner

# Where candidates are looked for, in standard deviations beyond the border, and how deep (see `steps`): at first, and
# for rows without an answer.
LEVELS = (((-1.5, 2), (-0.5, 1), (0.5, 1)), ((1.0, 2),))
# Candidates of each row that are kept, and how many of them the model is asked about at a time.
KEPT, ROUNDS = 32, (2, 3, 4, 6, 8)


def imitated(runner: StepRunner, imitation: Imitation, present: Rows) -> SearchResult:
    """Answers that the model itself gave, for as many rows as the imitation leads to one."""
    batch, rows = runner.batch(present), np.arange(len(present))
    model = replace(batch, context=batch.context.by_model)
    off, pools = np.zeros(len(present)), [batch.nothing()]
    for levels in LEVELS:
        part = batch.of(rows)
        borders = [(off[rows] + level * imitation.spread, depth) for level, depth in levels]
        pool = _found(runner, part, borders).best(len(levels) * KEPT)
        asked = AskedCandidates(model.of(rows), imitation, pool, off[rows])
        for count in ROUNDS:
            if not asked.ask(asked.most_promising(count)):
                break
        off[rows] = asked.off
        pools.append(pool.take(asked.good).at(rows))
        rows = np.flatnonzero(~joined(pools).has(len(present)))
        if not len(rows):
            break
    pools.append(improved(model, joined(pools).best(1)))
    account, status = batch.spending.account, np.full(len(batch), Status.NOT_FOUND, dtype=object)
    return SearchResult(
        runner.shortlisted(batch, joined(pools)), status, batch.nothing(), account.spent, account.refused, account.calls
    )


def _found(runner: StepRunner, part: Batch, borders: list[tuple[Floats, int]]) -> Candidates:
    """Candidates that the imitation takes for good, if the border lies there or there; and how deep to look."""
    batch, pools = runner.batch(part.rows), list[Candidates]()
    singles = runner.singles(batch)
    for border, depth in borders:
        here, own = replace(batch, rows=replace(part.rows, border=border)), replace(runner, deepest=depth)
        kept = own.shortlisted(here, own.found(here, singles.beyond(border)).pool, KEPT)
        pools.append(part.priced(kept.row, kept.codes, kept.how))
    return joined(pools)
