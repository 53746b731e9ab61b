"""Pairs: for rows that no few changes helped so far, the most promising pairs of changes of every two features."""

from __future__ import annotations

import itertools

import numpy as np

from .axes import Axes
from .bench import Bench
from .combine import applied
from .pool import REPAIR, Pool
from .space import Codes, Floats

# Values of each feature that are paired.
VALUES = 12
# Pairs of features of each row, and pairs of values of each, where questions are cheap and where not.
FEATURES, CHOSEN = 24, 16
FEATURES_ASKING, CHOSEN_ASKING = 12, 5


def paired(bench: Bench, axes: Axes) -> Pool:
    """Good pairs of changes. Which are asked about is guessed from what each brings alone."""
    features = np.unique(axes.moves.feature)
    if len(features) < 2 or not len(axes.base):
        return bench.nothing()
    gain = np.round(axes.spread(axes.margin, -np.inf) - np.maximum(axes.base_margin, -1e9)[:, None], 9)
    some = [_values(axes, gain, int(f)) for f in features]
    most, chosen = (FEATURES, CHOSEN) if bench.oracle.cheap else (FEATURES_ASKING, CHOSEN_ASKING)
    lines, guess = [], []
    for (a, gain_a), (b, gain_b) in itertools.combinations(some, 2):
        both = (gain_a[:, :, None] + gain_b[:, None, :]).reshape(len(gain), -1)
        best = np.argsort(-both, axis=1, kind="stable")[:, :chosen]
        first, second = np.divmod(best, b.shape[1])
        lines.append(np.stack([np.take_along_axis(a, first, axis=1), np.take_along_axis(b, second, axis=1)], axis=2))
        guess.append(np.take_along_axis(both, best, axis=1))
    top = np.argsort(-np.stack([g[:, 0] for g in guess], axis=1), axis=1, kind="stable")[:, :most]
    return _asked(bench, axes, lines, guess, top)


def _values(axes: Axes, gain: Floats, feature: int) -> tuple[Codes, Floats]:
    """Some values of a feature, evenly spread in what they bring: places in `axes.codes` and gains, `rows x values`."""
    which = np.flatnonzero(axes.moves.feature == feature)
    order = np.argsort(-gain[:, which], axis=1, kind="stable")
    if len(which) > VALUES:
        order = order[:, np.linspace(0, len(which) - 1, VALUES).round().astype(np.int64)]
    rows = np.arange(len(gain))[:, None]
    return axes.line[rows, which[order]], gain[rows, which[order]]


def _asked(bench: Bench, axes: Axes, lines: list[Codes], guess: list[Floats], top: Codes) -> Pool:
    rows, codes = [], []
    for turn in range(top.shape[1]):
        for pair in range(len(lines)):
            row, place = np.nonzero((top[:, turn] == pair)[:, None] & np.isfinite(guess[pair]))
            rows.append(row)
            codes.append(applied(axes, row, lines[pair][row, place]))
    row = np.concatenate(rows)
    order = np.argsort(row, kind="stable")
    return bench.tried(row[order], np.concatenate(codes)[order], REPAIR)
