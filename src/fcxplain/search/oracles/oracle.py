"""The interface of an oracle: how far candidates are from the target outcome, and whether they get it; its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from ...classifier.protocol import Predictions
from ...hashing import keys_of
from ...schema import Natural
from ..space import Bools, Codes, Floats, Rows, SearchSpace
from ..spending import Spending

# Margins farther from 0 than this are not compared: probabilities near 0 and 1 lose digits.
FAR = 5.0


@dataclass(frozen=True, eq=False)
class Replies:
    """The replies to candidates: how far they are beyond the border of the target outcome, and whether they get it.

    Candidates that the budget did not reach have a margin of minus infinity.
    """

    margin: Floats
    valid: Bools


class Memory:
    """Replies about candidates of a batch, so that a later stage of the search need not query them again."""

    def __init__(self, features: int) -> None:
        self._noted: list[tuple[Codes, Replies]] = []
        self._lines = np.empty((0, features + 1), dtype=np.int64)
        """The row of each candidate and its codes, in the order of their keys."""
        self._keys = keys_of(self._lines, self._lines[:, 0], 0)
        self._replies = Replies(np.empty(0), np.empty(0, dtype=bool))

    def note(self, row: Codes, codes: Codes, replies: Replies) -> None:
        """Note replies; they are recalled from the next stage on. Candidates that were not queried have none."""
        known = np.isfinite(replies.margin)
        lines = np.column_stack([row[known], codes[known]])
        self._noted.append((lines, Replies(replies.margin[known], replies.valid[known])))

    def next_stage(self) -> None:
        """Recall all that was noted so far."""
        lines = np.concatenate([self._lines, *(lines for lines, _ in self._noted)])
        replies = [self._replies, *(replies for _, replies in self._noted)]
        margin, valid = (np.concatenate([getattr(r, name) for r in replies]) for name in ("margin", "valid"))
        keys = keys_of(lines, lines[:, 0], 0)
        order = np.argsort(keys, kind="stable")
        self._noted, self._lines, self._keys = [], lines[order], keys[order]
        self._replies = Replies(margin[order], valid[order])

    def recalled(self, row: Codes, codes: Codes) -> tuple[Replies, Codes]:
        """The replies that are known, and the indices of candidates without one."""
        lines = np.column_stack([row, codes])
        replies = Replies(np.full(len(row), -np.inf), np.zeros(len(row), dtype=bool))
        if not len(self._keys):
            return replies, np.arange(len(row))
        place = np.minimum(np.searchsorted(self._keys, keys_of(lines, row, 0)), len(self._keys) - 1)
        known = (self._lines[place] == lines).all(axis=1)
        replies.margin[known], replies.valid[known] = (
            self._replies.margin[place[known]],
            self._replies.valid[place[known]],
        )
        return replies, np.flatnonzero(~known)


class Oracle(Protocol):
    """Queries a model about candidates."""

    space: SearchSpace
    cheap: bool
    """Whether a query costs next to nothing."""
    is_own: bool
    """Whether it is the user's own network, whose queries are counted, but not limited."""
    additive: bool
    """Whether margins are known to be a sum over features."""
    rows_at_once: int
    """Rows that are searched together: where a query costs little, more of them share the fixed cost of a step."""

    def decisions(self, rows: pd.DataFrame, natural: Natural) -> Predictions:
        """The model's decisions about rows as they are."""

    def query(self, present: Rows, row: Codes, codes: Codes, spending: Spending) -> Replies:
        """The replies to candidates; if the budget ends, the first candidates of each row are served."""
