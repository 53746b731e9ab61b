"""Wide proposals: features changed at random, each round from the best that a row has seen, as long as it may ask.

Random numbers come from the seed and the row itself, so that the rows beside it change nothing.
"""

from __future__ import annotations

import numpy as np

from .bench import Bench
from .chance import Keys, derived, keys_of, uniform
from .pool import REFINE, Pool, joined
from .space import Bools, Codes, Floats

# Proposals of each row in a round, and rounds at most.
ROUND, ROUNDS = 64, 32
# Which share of the features changes, proposal after proposal.
SHARES = (0.25, 0.5, 0.75, 1.0)


def wide(bench: Bench, base: Codes, train: Codes, seed: int) -> Pool:
    """Good candidates out of random ones; a row that has some needs no more rounds.

    A third of the new values are spread evenly over each grid, a third are ends of it, a third those of training rows.
    """
    keys = keys_of(bench.present.codes, bench.present.wanted, seed)
    best, margin = base.copy(), np.full(len(base), -np.inf)
    found = bench.nothing()
    for turn in range(ROUNDS):
        row, number = _asking(bench, ~found.has(len(base)))
        if not len(row) or bench.ledger.is_late:
            break
        own = derived(keys[row], turn * ROUND + number)
        codes = _changed(bench, best[row], train, own, np.take(SHARES, number % len(SHARES)))
        found = joined([found, _tried(bench, row, codes, best, margin)])
    return found


def _asking(bench: Bench, rows: Bools) -> tuple[Codes, Codes]:
    """Rows of the next proposals and the number of each in its round: no more than a row may still ask about."""
    left = np.full(len(rows), ROUND) if bench.oracle.cheap else np.minimum(bench.ledger.left, ROUND)
    count = np.where(rows, left, 0)
    row = np.repeat(np.arange(len(rows)), count)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)


def _changed(bench: Bench, codes: Codes, train: Codes, keys: Keys, share: Floats) -> Codes:
    """Candidates with a share of their features changed, each with a key of its own."""
    codes = codes.copy()
    for i in np.flatnonzero(bench.space.movable).tolist():
        here, place = uniform(keys, 3 * i) < share, uniform(keys, 3 * i + 1)
        even = (place * (bench.space.tops[i] + 1)).astype(np.int64)
        usual = train[(place * len(train)).astype(np.int64), i]
        ends = np.where(place < 0.5, 0, bench.space.tops[i])
        sort = (3 * uniform(keys, 3 * i + 2)).astype(np.int64)
        codes[here, i] = np.choose(sort, (even, ends, usual))[here]
    return codes


def _tried(bench: Bench, row: Codes, codes: Codes, best: Codes, margin: Floats) -> Pool:
    """Good ones of some candidates; whatever comes nearer than the best of its row takes its place."""
    codes = bench.space.inside(bench.present, row, codes)
    codes, kept = bench.mend(row, codes)
    row, codes = row[kept], codes[kept]
    asked = bench.ask(row, codes)
    near = np.round(asked.margin, 9)
    order = np.lexsort((np.arange(len(row)), -near, row))
    first = order[np.flatnonzero(np.diff(row[order], prepend=-1))]
    better = first[near[first] > margin[row[first]]]
    best[row[better]], margin[row[better]] = codes[better], near[better]
    good = asked.valid
    return bench.priced(row[good], codes[good], REFINE)
