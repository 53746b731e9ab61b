"""When data that never breaks a rule speaks for it: not if chance would not break it either.

Of `n` rows that a rule speaks of none breaks it. The highest rate of breaking that this leaves open (the
upper end of Clopper and Pearson's interval, at a level that is shared among all rules looked at) must be well below
the rate that would be seen if the features had nothing to do with each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# The chance that any of all suggestions is owed to chance alone.
ALPHA = 0.01
# The rate that is left open must be at most this part of the rate by chance.
WELL_BELOW = 0.5
# What forbids less of what chance would bring than this is not worth a person's time.
LEAST_SHARE = 0.001


def highest_rate(rows: NDArray[np.int64], error: float) -> NDArray[np.float64]:
    """The highest rate of breaking for which no break in so many rows has a chance of at least `error`."""
    return np.asarray(1.0 - error ** (1.0 / np.maximum(rows, 1)))


@dataclass(frozen=True)
class Bar:
    """What candidates must pass: rows that speak for them, in the light of how many are looked at."""

    least_support: int
    looked_at: int

    def passes(
        self, support: NDArray[np.int64], excluded: NDArray[np.int64], rows: NDArray[np.int64] | int
    ) -> NDArray[np.bool_]:
        """Whether rules that hold in all their `support` rows say something.

        `excluded` counts those of all `rows` that have the value which the rule forbids.
        """
        rate = excluded / np.maximum(rows, 1)
        share = rate * support / np.maximum(rows, 1)
        unlikely = highest_rate(support, ALPHA / max(self.looked_at, 1)) <= WELL_BELOW * rate
        enough = (support >= self.least_support) & (excluded >= self.least_support)
        return np.asarray(enough & unlikely & (share >= LEAST_SHARE))
