"""Donors: what real people look like. Usual combinations of categories, and training rows that get the class wanted.

Usual combinations are proposals where plausible answers are wanted. Training rows with the class wanted are the last
resort of rows without an answer, and are then brought as near to the row as the model and the rules allow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..batch import Batch
from ..candidates import DONOR, REPAIR, Candidates, joined
from ..density import Density
from ..improve import shrunk, sparsified
from ..space import Codes, Floats, SearchSpace
from .combine import BEYOND, Ladders, first_reached
from .single import Axes

# Usual combinations tried for each row, and how many there may be to choose from.
PROFILES, PROFILES_ASKING, MOST_PROFILES = 32, 8, 2_000
# Numbers of which one may change beside a usual combination.
NUMBERS = 3
# Donors tried for each row, out of how many of each class.
DONORS, MOST_DONORS = 12, 4_000
# Training rows whose class the model is asked for, and how many where time is short and the model may be slow.
ASKED, ASKED_IN_HASTE = 16_000, 500


def profiled(bench: Batch, axes: Axes, known: Ladders, density: Density) -> Candidates:
    """Usual combinations of categories near each row, with one number changed beside them where it takes that."""
    usual = density.usual[:MOST_PROFILES]
    if not len(usual) or not len(density.categories):
        return bench.nothing()
    row, codes = _nearest_profiles(bench, usual, density.categories)
    codes, kept = bench.mend(row, codes)
    row, codes = row[kept], codes[kept]
    asked = bench.ask(row, codes)
    good = asked.valid
    found = bench.priced(row[good], codes[good], REPAIR)
    short = ~good & np.isfinite(asked.margin)
    return joined([found, _with_a_number(bench, axes, known, row[short], codes[short], -asked.margin[short])])


def _nearest_profiles(bench: Batch, usual: Codes, categories: Codes) -> tuple[Codes, Codes]:
    """The row with the categories of usual combinations in place of its own, the fewest changes first."""
    now, differs = bench.present.codes, np.zeros((len(bench.present), len(usual)))
    for i in categories:
        apart = now[:, i, None] != usual[:, i]
        differs += np.where(apart, bench.space.difficulty[i] if bench.space.movable[i] else np.inf, 0.0)
    most = min(PROFILES if bench.oracle.cheap else PROFILES_ASKING, len(usual))
    chosen = np.argsort(np.round(differs, 9), axis=1, kind="stable")[:, :most]
    there = np.isfinite(np.take_along_axis(differs, chosen, axis=1))
    row, place = np.nonzero(there)
    codes = now[row]
    codes[:, categories] = usual[chosen[row, place]][:, categories]
    return row, codes


def _with_a_number(bench: Batch, axes: Axes, known: Ladders, row: Codes, codes: Codes, lacks: Floats) -> Candidates:
    """Candidates that fall short, each with the change of one number that should make up for it."""
    slots, length = known.gain.shape[1:]
    slot = np.arange(known.categories, min(slots, known.categories + NUMBERS))
    if not len(slot) or not len(row):
        return bench.nothing()
    need = np.broadcast_to(lacks + BEYOND, (len(slot), len(row)))
    rung = first_reached(known.gain.reshape(-1, length), row * slots + slot[:, None], need)
    which, there = np.nonzero((rung < length) & (known.feature[row, slot[:, None]] >= 0))
    move = axes.codes[known.move[row[there], slot[which], rung[which, there]]]
    lines = np.where(move != axes.base[row[there]], move, codes[there])
    order = np.argsort(row[there], kind="stable")
    return bench.tried(row[there][order], lines[order], REPAIR)


@dataclass(frozen=True, eq=False)
class Donors:
    """Distinct training rows by the class that the model gives them."""

    space: SearchSpace
    train: Codes
    seed: int
    asked: int = ASKED

    @cached_property
    def _by_class(self) -> dict[int, Codes]:
        order = np.random.default_rng(self.seed).permutation(len(self.train))
        table = self.space.task.encoder.from_codes(self.train[order[: self.asked]])
        answers = self.space.task.predict(table)
        train, names = self.train[order[: len(table)]], self.space.task.class_names
        return {i: train[answers == name][:MOST_DONORS] for i, name in enumerate(names)}

    def moved(self, bench: Batch, rows: Codes) -> Candidates:
        """Donors for some rows, brought near."""
        part = bench.of(rows)
        found = [self._of_class(part, c, np.flatnonzero(part.present.wanted == c)) for c in self._by_class]
        pool = joined([bench.nothing(), *found]).best(4)
        fewer = sparsified(part, pool)
        nearer = shrunk(part, joined([pool, fewer]).best(2))
        bench.settle(part, rows)
        pool = joined([pool, fewer, nearer])
        return replace(pool, row=rows[pool.row])

    def _of_class(self, part: Batch, wanted: int, rows: Codes) -> Candidates:
        donors = self._by_class[wanted]
        if not len(rows) or not len(donors):
            return part.nothing()
        found = []
        for row in rows:
            line = np.full(len(donors), row)
            codes = part.space.inside(part.present, line, donors)
            best = np.lexsort((np.arange(len(donors)), part.price(line, codes)))[:DONORS]
            found.append(codes[best])
        line = np.repeat(rows, [len(f) for f in found])
        return part.tried(line, np.concatenate(found), DONOR)
