"""Climb: where nothing near was found, try promising pairs, then look around from the most promising single change.

All changes of one feature beside it make this nearly complete for two changes; combinations from there reach further.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .axes import Axes, Moves
from .bench import Bench
from .pairs import paired
from .pool import Pool, joined
from .propose import combinations, ladders, singles
from .space import Bools, Codes

# Single changes of each row from which the search looks around, one after the other.
STARTS = 3
# Answers with more changes than this are worth another look.
FEW = 2
# The part of its calls that a row without any answer keeps back for donors and whatever else may help.
HELD_BACK = 4


def climbed(bench: Bench, axes: Axes, pool: Pool, moves: Moves) -> list[Pool]:
    """Candidates found from the best single changes of rows without an answer of few changes."""
    rows = np.flatnonzero(_unsettled(bench, pool))
    if not len(rows):
        return []
    part = bench.of(rows)
    pairs = paired(part, axes.of(rows))
    bench.settle(part, rows)
    found, starts = [replace(pairs, row=rows[pairs.row])], _starts(axes)
    for turn in range(STARTS):
        left = _unsettled(bench, joined([pool, *found])) & (starts[:, turn] >= 0)
        rows = np.flatnonzero(left)
        if not len(rows):
            break
        lacking = ~joined([pool, *found]).has(len(left))[rows]
        found.append(_from(bench, rows, axes.codes[starts[rows, turn]], moves, lacking))
    return found


def _from(bench: Bench, rows: Codes, base: Codes, moves: Moves, lacking: Bools) -> Pool:
    """What single changes and combinations beside a change bring, for some rows; `lacking` ones have nothing yet."""
    part = bench.of(rows)
    part.ledger.held = np.where(lacking, part.ledger.limit // HELD_BACK, 0)
    axes, pool = singles(part, base, moves)
    pool = joined([pool, combinations(part, axes, ladders(part, axes))])
    bench.settle(part, rows)
    return replace(pool, row=rows[pool.row])


def _unsettled(bench: Bench, pool: Pool) -> Bools:
    """Rows without an answer of few changes."""
    # Where gains add up, what the combinations found is the best there is.
    most = len(bench.space.names) if bench.oracle.additive else FEW
    few = bench.space.changed(bench.present, pool.row, pool.codes).sum(axis=1) <= most
    return ~pool.take(few).has(len(bench.present))


def _starts(axes: Axes) -> Codes:
    """Places of the candidates with the best margins, each of another feature, `rows x STARTS`; -1 for none."""
    margin = np.round(axes.spread(axes.margin, -np.inf), 9)
    places = axes.moves.places
    best = np.full((len(margin), max(len(places), STARTS)), -np.inf)
    line = np.full(best.shape, -1, dtype=np.int64)
    for i, which in enumerate(places):
        top = margin[:, which].argmax(axis=1)
        best[:, i] = margin[np.arange(len(margin)), which[top]]
        line[:, i] = axes.line[np.arange(len(margin)), which[top]]
    order = np.argsort(-best, axis=1, kind="stable")[:, :STARTS]
    return np.take_along_axis(np.where(np.isfinite(best), line, -1), order, axis=1)
