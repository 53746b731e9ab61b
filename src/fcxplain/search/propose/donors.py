"""Proposals from training rows: usual combinations of categories, and donors, which have the target class.

Usual combinations are proposed if the cost depends on training rows. Donors are for rows without an answer; they are
brought as near to the row as the model and the rules allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...classifier.protocol import Predictions
from ...outcome import Outcomes
from ..batch import Batch
from ..candidates import DONOR, REPAIR, Candidates, Found, joined
from ..improve import shrunk, sparsified
from ..space import Codes, Floats, SearchSpace
from .combine import BEYOND, first_reached, ladders

# Usual combinations tried per row, where queries are cheap and where they are expensive, out of at most this many.
PROFILES, PROFILES_EXPENSIVE, MOST_PROFILES = 32, 8, 2_000
# Numbers of which one may change along with a usual combination.
NUMBERS = 3
# Donors tried per row, out of at most this many per class.
DONORS, MOST_DONORS = 12, 4_000
# Training rows that the model is queried about, and the same with a time limit and a model that may be slow.
ASKED, ASKED_IN_HASTE = 16_000, 500


def usual_profiles(batch: Batch, found: Found) -> Candidates:
    """Usual combinations of categories near each row, along with a change of one number if they fall short."""
    density = batch.context.shared.density
    usual = density.usual[:MOST_PROFILES]
    if not len(usual) or not len(density.categories):
        return batch.nothing()
    row, codes, replies = batch.replies(*_nearest_profiles(batch, usual, density.categories))
    good = replies.valid
    short = ~good & np.isfinite(replies.margin)
    pool = batch.priced(row[good], codes[good], REPAIR)
    return joined([pool, _with_a_number(batch, found, row[short], codes[short], -replies.margin[short])])


def _nearest_profiles(batch: Batch, usual: Codes, categories: Codes) -> tuple[Codes, Codes]:
    """Each row with the categories of usual combinations, the fewest changes first."""
    now, differs = batch.rows.codes, np.zeros((len(batch.rows), len(usual)))
    # Categories without a level that cannot change are not compared.
    there = ~(batch.rows.off_grid & ~batch.rows.movable)
    for i in categories:
        apart = (now[:, i, None] != usual[:, i]) & there[:, i, None]
        differs += np.where(apart, batch.space.difficulty[i] if batch.space.movable[i] else np.inf, 0.0)
    most = min(PROFILES if batch.oracle.cheap else PROFILES_EXPENSIVE, len(usual))
    chosen = np.argsort(np.round(differs, 9), axis=1, kind="stable")[:, :most]
    row, place = np.nonzero(np.isfinite(np.take_along_axis(differs, chosen, axis=1)))
    codes = now[row]
    codes[:, categories] = usual[chosen[row, place]][:, categories]
    return row, batch.space.inside(batch.rows, row, codes)


def _with_a_number(batch: Batch, found: Found, row: Codes, codes: Codes, lacks: Floats) -> Candidates:
    """Candidates that fall short, each with a change of one number that should be enough."""
    singles, known = found.singles, ladders(batch, found.singles)
    slots, length = known.gain.shape[1:]
    slot = np.arange(known.categories, min(slots, known.categories + NUMBERS))
    if not len(slot) or not len(row):
        return batch.nothing()
    need = np.broadcast_to(lacks + BEYOND, (len(slot), len(row)))
    rung = first_reached(known.gain.reshape(-1, length), row * slots + slot[:, None], need)
    which, there = np.nonzero((rung < length) & (known.feature[row, slot[:, None]] >= 0))
    move = singles.codes[known.move[row[there], slot[which], rung[which, there]]]
    lines = np.where(move != singles.base[row[there]], move, codes[there])
    order = np.argsort(row[there], kind="stable")
    return batch.tried(row[there][order], lines[order], REPAIR)


@dataclass(frozen=True, eq=False)
class Donors:
    """Training rows with the model's decisions."""

    space: SearchSpace
    train: Codes
    seed: int
    asked: int = ASKED

    @cached_property
    def known(self) -> tuple[Codes, Predictions]:
        """Some training rows, and the model's decisions about them."""
        order = np.random.default_rng(self.seed).permutation(len(self.train))[: self.asked]
        task, train = self.space.task, self.train[order]
        return train, task.classifier.decide(task.encoder.from_codes(train))

    def of(self, wanted: Outcomes) -> Codes:
        """Some training rows that get the target outcome of one row."""
        train, decided = self.known
        every = wanted[np.zeros(len(train), dtype=np.int64)]
        return train[every.met(decided.probabilities, decided.choice)][:MOST_DONORS]


def donors(batch: Batch, found: Found) -> Candidates:
    """Training rows that get the target outcome, brought near."""
    wanted, known, tried = batch.rows.wanted, batch.context.shared.donors, []
    for code in np.unique(wanted.code):
        rows = np.flatnonzero(wanted.code == code)
        tried.append(_of_class(batch, known.of(wanted[rows[:1]]), rows))
    pool = joined([batch.nothing(), *tried]).best(4)
    fewer = sparsified(batch, pool)
    return joined([pool, fewer, shrunk(batch, joined([pool, fewer]).best(2))])


def _of_class(batch: Batch, codes: Codes, rows: Codes) -> Candidates:
    """The nearest donors of some rows."""
    if not len(rows) or not len(codes):
        return batch.nothing()
    found = []
    for row in rows:
        line = np.full(len(codes), row)
        own = batch.space.inside(batch.rows, line, codes)
        found.append(own[np.lexsort((np.arange(len(codes)), batch.price(line, own)))[:DONORS]])
    return batch.tried(np.repeat(rows, [len(f) for f in found]), np.concatenate(found), DONOR)
