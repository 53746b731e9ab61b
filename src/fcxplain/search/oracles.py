"""What the model says of candidates: one that was read by codes, any other by tables, each distinct row once, and no
longer than there is budget.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..classifier.protocol import Predictions
from ..classifier.rows import legal_codes
from ..hashing import distinct
from ..schema import Natural
from ..task import Task
from .candidates import within
from .code_models import CERTAIN, CodeModel
from .space import Bools, Codes, Floats, Rows, SearchSpace
from .spending import Spending


def lead(logits: Floats, wanted: Codes) -> Floats:
    """How far the class wanted is ahead of the best other."""
    if logits.shape[1] == 2:
        ahead = logits[:, 1] - logits[:, 0]
        return np.asarray(np.where(wanted == 1, ahead, -ahead))
    row = np.arange(len(logits))
    own = logits[row, wanted]
    others = logits.copy()
    others[row, wanted] = -np.inf
    return np.asarray(own - others.max(axis=1))


def margins(probabilities: Floats, wanted: Codes, threshold: float | None) -> Floats:
    """Log odds of the class wanted, counted from where it is answered."""
    return from_border(lead(np.log(np.clip(probabilities, CERTAIN, 1.0)), wanted), wanted, threshold)


def from_border(ahead: Floats, wanted: Codes, threshold: float | None) -> Floats:
    """How far a lead is from where the class wanted is answered."""
    if threshold is None:
        return ahead
    edge = min(max(threshold, CERTAIN), 1 - CERTAIN)
    shift = np.log(edge / (1 - edge))
    return np.asarray(ahead - np.where(wanted == 1, shift, -shift))


@dataclass(frozen=True, eq=False)
class Replies:
    """The model's answers to candidates: how far above 0 the wanted class is ahead, and whether it is answered.

    Candidates that the budget did not reach have a margin of minus infinity.
    """

    margin: Floats
    valid: Bools


class Oracle(Protocol):
    """Queries a model about candidates."""

    cheap: bool
    """Whether a query costs next to nothing."""
    is_own: bool
    """Whether it is the user's own network, which is queried freely, but counted."""
    additive: bool
    """Whether margins are known to be a sum over features."""

    def classes(self, rows: pd.DataFrame, natural: Natural) -> Codes:
        """Places of the classes that rows have as they are."""

    def query(self, present: Rows, row: Codes, codes: Codes, spending: Spending) -> Replies:
        """The model's answers to candidates; the earlier ones of each row come first where the budget ends."""


# Rows of a table that a model is shown at a time; where time counts, it begins with few.
CHUNK, FEW = 65_536, 64


class TableOracle:
    """Any model, by decoded tables."""

    cheap, additive, is_own = False, False, False

    def __init__(self, space: SearchSpace) -> None:
        self.space, self.task = space, space.task

    def classes(self, rows: pd.DataFrame, natural: Natural) -> Codes:
        """See `Oracle`."""
        return classes_of(self.task, rows)

    def query(self, present: Rows, row: Codes, codes: Codes, spending: Spending) -> Replies:
        """See `Oracle`."""
        margin, valid = np.full(len(row), -np.inf), np.zeros(len(row), dtype=bool)
        granted = np.flatnonzero(spending.admit(row))
        if len(granted):
            known, reached = self._known(present, row[granted], codes[granted], spending)
            there = granted[reached]
            wanted = present.wanted[row[there]]
            margin[there] = margins(known.probabilities[reached], wanted, self.task.classifier.guide)
            valid[there] = (known.choice[reached] == wanted) & known.firm[reached]
        return Replies(margin, valid)

    def _known(self, present: Rows, row: Codes, codes: Codes, spending: Spending) -> tuple[Predictions, Bools]:
        """What the user's own model decides, about each distinct row once; and for which there was time."""
        first, inverse = self._distinct(present, row, codes)
        known, reached = Predictions.none(len(first), len(self.task.classes)), np.zeros(len(first), dtype=bool)
        # The first candidates of all rows before the second ones: where time ends, it ends for all rows alike.
        order = np.argsort(within(row)[first], kind="stable") if spending.deadline < np.inf else np.arange(len(first))
        for part in _parts(order, spending):
            table = self.space.table(present, row[first[part]], codes[first[part]])
            known.put(part, self.task.classifier.decide(table, final=False))
            reached[part] = True
            spending.show(len(part))
        spending.give_back(row[~reached[inverse]])
        return known.take(inverse), reached[inverse]

    def _distinct(self, present: Rows, row: Codes, codes: Codes) -> tuple[Codes, Codes]:
        own = np.asarray(present.off_grid.any(axis=1))
        # A value off the grid is its row's own, so such rows share no question with others.
        return distinct(np.column_stack([codes, np.where(own[row], row, -1)]) if own.any() else codes)


def classes_of(task: Task, rows: pd.DataFrame) -> Codes:
    """Places of the classes that the user's own model gives rows."""
    parts = [task.classifier.decide(rows.iloc[s : s + CHUNK]).choice for s in range(0, len(rows), CHUNK)]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _parts(order: Codes, spending: Spending) -> Iterator[Codes]:
    """What is asked at a time, until the deadline: as much as the time left allows, going by the last part."""
    start, size = 0, CHUNK if spending.deadline == np.inf else FEW
    while start < len(order) and not spending.is_late:
        began = time.monotonic()
        yield order[start : start + size]
        start, now = start + size, time.monotonic()
        if spending.deadline < np.inf:
            rate = size / max(now - began, 1e-9)
            size = int(np.clip(rate * (spending.deadline - now) / 2, FEW, min(4 * size, CHUNK)))


# Margins by codes may differ from the model's own by so many times as much as they were seen to, and by no less than
# this; a model that was read otherwise than this, near the border of a class, was not read rightly.
MUCH, LEAST, WRONG = 16.0, 1e-6, 1e-3
# Margins farther from 0 than this are not compared: probabilities near 0 and 1 lose digits.
FAR = 5.0
# Legal rows, and as many training rows, on which a model that was read is held against itself.
PROBES = 256
# Numbers looked up at a time: they should stay in the processor's cache.
LOOKED_UP = 2**17


class CodeOracle:
    """A model that was read, by codes. It is the user's own model that has the last word on answers."""

    cheap = True

    def __init__(
        self,
        space: SearchSpace,
        model: CodeModel,
        *,
        rounding: float = 0.0,
        threshold: float | None = None,
        is_own: bool = False,
    ) -> None:
        self.space, self.model, self.additive, self.is_own = space, model, model.additive, is_own
        self.rounding, self.threshold = rounding, threshold

    def query(self, present: Rows, row: Codes, codes: Codes, spending: Spending) -> Replies:
        """See `Oracle`."""
        if spending.is_late:
            spending.refuse(row)
            return Replies(np.full(len(row), -np.inf), np.zeros(len(row), dtype=bool))
        if self.is_own:
            spending.count(row)
            spending.show(len(row))
        margin = self.margins(present, row, codes)
        if present.border is not None:
            margin = margin - present.border[row]
        return Replies(margin, margin > self.rounding)

    def classes(self, rows: pd.DataFrame, natural: Natural) -> Codes:
        """See `Oracle`."""
        return classes_of(self.space.task, rows)

    def margins(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """How far candidates are from where the class wanted is answered."""
        wanted = present.wanted[row]
        return from_border(lead(self.logits(present, row, codes), wanted), wanted, self.threshold)

    def logits(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """Of candidates, `n x classes`."""
        off_grid = [i for i, some in enumerate(present.off_grid_features) if some]
        for i in off_grid:
            self.model.learn(i, present.natural[self.space.names[i]][present.off_grid[:, i]])
        own = {i: self.model.of_values(i, present.natural[self.space.names[i]]) for i in off_grid}
        size = max(1, LOOKED_UP // len(self.model.start)) if self.model.start.dtype.kind == "i" else max(len(row), 1)
        parts = (slice(start, start + size) for start in range(0, max(len(row), 1), size))
        found = [self.model.logits(self._sums(present, row[part], codes[part], own)) for part in parts]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _sums(self, present: Rows, row: Codes, codes: Codes, own: dict[int, NDArray[Any]]) -> NDArray[Any]:
        sums = np.tile(self.model.start, (len(row), 1))
        for i in range(len(self.space.names)):
            sums += self._part(i, present, row, codes[:, i], own)
        return sums

    def _part(self, i: int, present: Rows, row: Codes, codes: Codes, own: dict[int, NDArray[Any]]) -> NDArray[Any]:
        """What one feature adds; `own` has what rows' values add where some are off the grid."""
        part = self.model.of_codes(i, codes)
        if i in own:
            stays = (codes == present.codes[row, i]) & present.off_grid[row, i]
            part = np.where(stays[:, None], own[i][row], part)
        return part


def seen_rounding(space: SearchSpace, model: CodeModel) -> float | None:
    """How far the user's model's margins may be from those by codes; None where these are not its own."""
    task, generator = space.task, np.random.default_rng(0)
    usual = task.sample[generator.permutation(len(task.sample))[:PROBES]]
    codes = np.concatenate([legal_codes(task.schema, PROBES, generator), usual])
    # Of each row, the lead of one class or another.
    wanted = np.arange(len(codes)) % len(task.classes)
    present = space.present(task.encoder.natural_of_codes(codes), wanted)
    found = lead(CodeOracle(space, model).logits(present, np.arange(len(codes)), codes), wanted)
    own = margins(task.classifier.probabilities(task.table(present.natural)), wanted, None)
    seen = float(np.abs(found - own)[np.abs(own) < FAR].max(initial=0.0))
    return max(LEAST, MUCH * seen) if seen < WRONG else None


# Training rows, and the same with some features changed, that say how far an imitation is off.
NEAR = 512
# An imitation that is off by more than this part of how far margins differ from row to row costs more in the quality of
# answers than it saves in queries.
WORST = 0.18


@dataclass(frozen=True, eq=False)
class Imitation:
    """Something that answers nearly as the model does, by codes, and how far it is off."""

    oracle: CodeOracle
    spread: float
    """The standard deviation of its margins from the model's own, beside what a row's candidates have in common."""


def measured_imitation(space: SearchSpace, oracle: CodeOracle, model: TableOracle) -> Imitation | None:
    """An imitation held against the model on training rows and rows near them; None if it is no help."""
    task, generator = space.task, np.random.default_rng(0)
    usual = task.sample[generator.permutation(len(task.sample))[:NEAR]]
    rows, movable = np.arange(len(usual)), np.flatnonzero(space.movable)
    beside, others = usual.copy(), legal_codes(task.schema, len(usual), generator)
    for _ in range(2 if len(movable) else 0):
        feature = generator.choice(movable, len(usual))
        beside[rows, feature] = others[rows, feature]
    present = space.present(task.encoder.natural_of_codes(usual), np.full(len(usual), len(task.classes) - 1))
    off, near, seen = np.zeros((2, len(usual))), np.ones(len(usual), dtype=bool), []
    for turn, codes in enumerate((usual, beside)):
        own = model.query(present, rows, codes, Spending.start(np.ones(len(usual), dtype=np.int64))).margin
        off[turn], near = oracle.margins(present, rows, codes) - own, near & (np.abs(own) < FAR)
        seen.append(np.clip(own, -FAR, FAR))
    apart = (off[1] - off[0])[near]
    spread = 1.4826 * float(np.median(np.abs(apart))) if len(apart) else np.inf
    return Imitation(oracle, max(spread, 1e-3)) if spread < WORST * float(np.std(seen)) else None
