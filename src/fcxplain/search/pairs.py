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


def _asked(bench: Bench, axes: Axes, lines: Codes, guess: Floats, top: Codes) -> Pool:
    """The good ones of the chosen pairs, those of the most promising features first."""
    rows = np.arange(len(top))[:, None]
    row, turn, place = np.nonzero(np.isfinite(guess[rows, top]))
    return bench.tried(row, applied(axes, row, lines[row, top[row, turn], place]), REPAIR)
