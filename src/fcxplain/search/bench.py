"""The bench: one batch of rows with all that every step of the search needs, so that a step is a function of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .ledger import Ledger
from .leeway import Leeway
from .legal import Legal
from .oracle import Asked, Oracle
from .pool import Pool
from .rank import Weights, price
from .space import Bools, Codes, Floats, Present, Space


@dataclass(frozen=True, eq=False)
class Bench:
    """Rows under work: their present, what is legal, whom to ask, what may be spent, and what counts."""

    space: Space
    legal: Legal
    oracle: Oracle
    present: Present
    ledger: Ledger
    weights: Weights
    leeway: Leeway | None = None
    """What the rules leave to the rows, where that could be told (see `Legal.leeway`)."""

    def keeps(self, row: Codes, codes: Codes) -> Bools:
        """Whether candidates keep all rules."""
        return self.legal.keeps(self.present, row, codes, self.leeway)

    def mend(self, row: Codes, codes: Codes) -> tuple[Codes, Bools]:
        """Candidates that keep the rules, and which of them do; the others could not be repaired."""
        return self.legal.mend(self.present, row, codes, self.leeway)

    def ask(self, row: Codes, codes: Codes) -> Asked:
        """What the model says of candidates."""
        return self.oracle.ask(self.present, row, codes, self.ledger)

    def good(self, row: Codes, codes: Codes) -> Bools:
        """Whether candidates keep the rules and get the class wanted; the model is asked about the former only."""
        kept = self.keeps(row, codes)
        which = np.flatnonzero(kept)
        kept[which] = self.ask(row[which], codes[which]).valid
        return kept

    def price(self, row: Codes, codes: Codes) -> Floats:
        """Changes and distance."""
        return price(self.space, self.weights, self.present, row, codes)

    def priced(self, row: Codes, codes: Codes, how: Codes | int) -> Pool:
        """Candidates known to be good, with their price."""
        told = np.full(len(row), how, dtype=np.int64) if isinstance(how, int) else how
        return Pool(row, codes, self.price(row, codes), told)

    def tried(self, row: Codes, codes: Codes, how: int) -> Pool:
        """The good ones of proposals of any kind: put inside the domain, repaired, asked about."""
        codes = self.space.inside(self.present, row, codes)
        codes, kept = self.mend(row, codes)
        row, codes = row[kept], codes[kept]
        valid = self.ask(row, codes).valid
        return self.priced(row[valid], codes[valid], how)

    def of(self, rows: Codes) -> Bench:
        """The same work on some of the rows, which rise; what they spend is told by `settle`."""
        ledger = self.ledger.of(rows)
        if len(rows) == len(self.present):
            return replace(self, ledger=ledger)
        leeway = None if self.leeway is None else self.leeway.take(rows)
        return replace(self, present=self.present.take(rows), ledger=ledger, leeway=leeway)

    def settle(self, part: Bench, rows: Codes) -> None:
        """Take over what a part of the rows has spent."""
        self.ledger.settle(part.ledger, rows)

    def nothing(self) -> Pool:
        """A pool without candidates."""
        return Pool.empty(len(self.space.names))
