"""A second exploration from the most promising single changes, for rows without an answer of few changes; then pairs of
changes, for rows without any answer.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from ..batch import Batch
from ..candidates import REPAIR, Candidates, Found, joined
from ..space import Bools, Codes, Floats
from .combine import applied, combined
from .single import SingleChanges, explore, good_singles

# Rows whose answers all have more changes than this are explored further.
FEW = 2
# A row without any answer reserves one call in this many for donors and last resorts.
HELD_BACK = 4
# Values per feature that are paired.
VALUES = 12
# Pairs of features per row, and pairs of values for each, where queries are cheap and where they are expensive.
FEATURES, CHOSEN = 24, 16
FEATURES_EXPENSIVE, CHOSEN_EXPENSIVE = 12, 5


def pairs(batch: Batch, found: Found) -> Candidates:
    """Good pairs of changes. The gains of single changes predict which pairs are worth a query."""
    singles = found.singles
    places = singles.moves.places
    if len(places) < 2 or not len(singles.base):
        return batch.nothing()
    gain = np.round(singles.spread(singles.margin, -np.inf) - np.maximum(singles.base_margin, -1e9)[:, None], 9)
    some = [_values(singles, gain, which) for which in places]
    most, chosen = (FEATURES, CHOSEN) if batch.oracle.cheap else (FEATURES_EXPENSIVE, CHOSEN_EXPENSIVE)
    both_of = list(itertools.combinations(some, 2))
    guess = np.full((len(gain), len(both_of), chosen), -np.inf)
    lines = np.full((*guess.shape, 2), -1)
    for pair, ((a, gain_a), (b, gain_b)) in enumerate(both_of):
        both = (gain_a[:, :, None] + gain_b[:, None, :]).reshape(len(gain), -1)
        best = np.argsort(-both, axis=1, kind="stable")[:, :chosen]
        first, second = np.divmod(best, b.shape[1])
        there = slice(None, best.shape[1])
        lines[:, pair, there, 0] = np.take_along_axis(a, first, axis=1)
        lines[:, pair, there, 1] = np.take_along_axis(b, second, axis=1)
        guess[:, pair, there] = np.take_along_axis(both, best, axis=1)
    top = np.argsort(-guess[:, :, 0], axis=1, kind="stable")[:, :most]
    return _tried(_sparing(batch, found), singles, lines, guess, top)


def _values(singles: SingleChanges, gain: Floats, which: Codes) -> tuple[Codes, Floats]:
    """Some values of a feature, evenly spread in order of gain: their candidates and gains, `rows x values`."""
    order = np.argsort(-gain[:, which], axis=1, kind="stable")
    if len(which) > VALUES:
        order = order[:, np.linspace(0, len(which) - 1, VALUES).round().astype(np.int64)]
    rows = np.arange(len(gain))[:, None]
    return singles.line[rows, which[order]], gain[rows, which[order]]


def _tried(batch: Batch, singles: SingleChanges, lines: Codes, guess: Floats, top: Codes) -> Candidates:
    """The good ones of the chosen pairs, the most promising features first."""
    rows = np.arange(len(top))[:, None]
    row, turn, place = np.nonzero(np.isfinite(guess[rows, top]))
    return batch.tried(row, applied(singles, row, lines[row, top[row, turn], place]), REPAIR)


def _sparing(batch: Batch, found: Found) -> Batch:
    """The same batch, in which rows without an answer reserve calls for donors and last resorts."""
    held = np.where(found.pool.has(len(batch)), 0, batch.spending.account.stage // HELD_BACK)
    return replace(batch, spending=batch.spending.holding(held))


def look_around(batch: Batch, found: Found, turn: int) -> Candidates:
    """Single changes and combinations on top of one of the best single changes of each row.

    Adding every single change makes this nearly complete for two changes; the combinations reach further.
    """
    part = _sparing(batch, found)
    singles = explore(part, found.singles.codes[found.singles.starts[:, turn]])
    return joined([good_singles(part, singles), combined(part, singles)])


def _without_few_changes(batch: Batch, found: Found) -> Bools:
    """Rows without an answer of few changes."""
    # Where gains add up, the combinations already found the best answers.
    most = len(batch.space.names) if batch.oracle.additive else FEW
    few = found.pool.take(batch.changed(found.pool).sum(axis=1) <= most)
    return ~few.has(len(batch))


def has_start(batch: Batch, found: Found, turn: int) -> Bools:
    """Rows without an answer of few changes that have another single change to start from."""
    wanted = _without_few_changes(batch, found)
    rows = np.flatnonzero(wanted)
    if len(rows):
        wanted[rows] = found.of(rows).singles.starts[:, turn] >= 0
    return wanted
