"""Pairs of changes for rows that no few changes helped, then a second look from the most promising single change."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from ..batch import Batch
from ..candidates import REPAIR, Candidates, joined
from ..space import Bools, Codes, Floats
from .combine import applied, combinations, ladders, singles
from .single import Axes, Moves

# Values of each feature that are paired.
VALUES = 12
# Pairs of features of each row, and pairs of values of each, where questions are cheap and where not.
FEATURES, CHOSEN = 24, 16
FEATURES_ASKING, CHOSEN_ASKING = 12, 5


def paired(bench: Batch, axes: Axes) -> Candidates:
    """Good pairs of changes. Which are asked about is guessed from what each brings alone."""
    places = axes.moves.places
    if len(places) < 2 or not len(axes.base):
        return bench.nothing()
    gain = np.round(axes.spread(axes.margin, -np.inf) - np.maximum(axes.base_margin, -1e9)[:, None], 9)
    some = [_values(axes, gain, which) for which in places]
    most, chosen = (FEATURES, CHOSEN) if bench.oracle.cheap else (FEATURES_ASKING, CHOSEN_ASKING)
    pairs = list(itertools.combinations(some, 2))
    lines, guess = np.full((len(gain), len(pairs), chosen, 2), -1), np.full((len(gain), len(pairs), chosen), -np.inf)
    for pair, ((a, gain_a), (b, gain_b)) in enumerate(pairs):
        both = (gain_a[:, :, None] + gain_b[:, None, :]).reshape(len(gain), -1)
        best = np.argsort(-both, axis=1, kind="stable")[:, :chosen]
        first, second = np.divmod(best, b.shape[1])
        there = slice(None, best.shape[1])
        lines[:, pair, there, 0] = np.take_along_axis(a, first, axis=1)
        lines[:, pair, there, 1] = np.take_along_axis(b, second, axis=1)
        guess[:, pair, there] = np.take_along_axis(both, best, axis=1)
    top = np.argsort(-guess[:, :, 0], axis=1, kind="stable")[:, :most]
    return _asked(bench, axes, lines, guess, top)


def _values(axes: Axes, gain: Floats, which: Codes) -> tuple[Codes, Floats]:
    """Some values of a feature, evenly spread in what they bring: places in `axes.codes` and gains, `rows x values`."""
    order = np.argsort(-gain[:, which], axis=1, kind="stable")
    if len(which) > VALUES:
        order = order[:, np.linspace(0, len(which) - 1, VALUES).round().astype(np.int64)]
    rows = np.arange(len(gain))[:, None]
    return axes.line[rows, which[order]], gain[rows, which[order]]


def _asked(bench: Batch, axes: Axes, lines: Codes, guess: Floats, top: Codes) -> Candidates:
    """The good ones of the chosen pairs, those of the most promising features first."""
    rows = np.arange(len(top))[:, None]
    row, turn, place = np.nonzero(np.isfinite(guess[rows, top]))
    return bench.tried(row, applied(axes, row, lines[row, top[row, turn], place]), REPAIR)


# Single changes of each row from which the search looks around, one after the other.
STARTS = 3
# Answers with more changes than this are worth another look.
FEW = 2
# The part of its calls that a row without any answer keeps back for donors and whatever else may help.
HELD_BACK = 4


def climbed(bench: Batch, axes: Axes, pool: Candidates, moves: Moves) -> list[Candidates]:
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


def _from(bench: Batch, rows: Codes, base: Codes, moves: Moves, lacking: Bools) -> Candidates:
    """What single changes and combinations beside a change bring, for some rows; `lacking` ones have nothing yet."""
    part = bench.of(rows)
    part.ledger.held = np.where(lacking, part.ledger.limit // HELD_BACK, 0)
    axes, pool = singles(part, base, moves)
    pool = joined([pool, combinations(part, axes, ladders(part, axes))])
    bench.settle(part, rows)
    return replace(pool, row=rows[pool.row])


def _unsettled(bench: Batch, pool: Candidates) -> Bools:
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
