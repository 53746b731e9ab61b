"""What the model says of candidates.

A network on encoded columns is asked by codes: its first linear layers are a sum of look-ups, a table for each
feature, in double precision; where that comes too close to call, the network itself is asked. Any other model is
asked about decoded tables, each distinct row once.
"""

from __future__ import annotations

import copy
import itertools
import time
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import nn

from ..classifier import differentiable
from ..classifier.distillation import Differentiable
from ..classifier.protocol import chosen
from ..schema import Natural
from .pool import within
from .space import Bools, Codes, Floats, Present, Space

# A margin closer to 0 than this may have another sign in the model's own arithmetic.
CLOSE = 1e-4
# Probabilities nearer to 0 than this are all the same to a margin.
CERTAIN = 1e-6
# Grids with more values than this are computed, not looked up.
TABLE = 4_096
# Rows of a table that a model is shown at a time.
CHUNK = 65_536


@dataclass(frozen=True, eq=False)
class Asked:
    """The model's answers to candidates: how far above 0 the wanted class is ahead, and whether it is answered.

    Candidates that the budget did not reach have a margin of minus infinity.
    """

    margin: Floats
    valid: Bools


@dataclass
class Ledger:
    """What the rows of one batch have spent: calls of the model for each, and time for all."""

    limit: int
    spent: Codes
    deadline: float = np.inf
    refused: Bools = field(init=False)
    """Rows that wanted to ask more than they were allowed."""
    calls: int = 0
    """Rows that the user's model was really asked about."""

    def __post_init__(self) -> None:
        self.refused = np.zeros(len(self.spent), dtype=bool)

    def admit(self, row: Codes) -> Bools:
        """Which of these candidates may still be asked about; they count from now on."""
        late = time.monotonic() > self.deadline
        granted = (self.spent[row] + within(row) < self.limit) & (not late)
        self.refused[row[~granted]] = True
        np.add.at(self.spent, row[granted], 1)
        return np.asarray(granted)


class Oracle(Protocol):
    """Asks a model about candidates."""

    cheap: bool
    """Whether a question costs next to nothing."""
    additive: bool
    """Whether margins are known to be a sum over features."""

    def classes(self, rows: pd.DataFrame, natural: Natural) -> Codes:
        """Places of the classes that rows have as they are."""

    def ask(self, present: Present, row: Codes, codes: Codes, ledger: Ledger) -> Asked:
        """The model's answers to candidates; the earlier ones of each row come first where the budget ends."""


def oracle_for(space: Space, stand_in: Differentiable | None) -> Oracle:
    """By codes where the model is a network on the task's columns, else by tables."""
    task = space.task
    if stand_in is None and task.classifier.module is not None:
        stand_in = differentiable(task.classifier, task)
    if stand_in is None or stand_in.distilled:
        return TableOracle(space)
    return NetworkOracle(space, stand_in.module)


class TableOracle:
    """Any model, by decoded tables."""

    cheap, additive = False, False

    def __init__(self, space: Space) -> None:
        self.space, self.task = space, space.task

    def classes(self, rows: pd.DataFrame, natural: Natural) -> Codes:
        """See `Oracle`."""
        known = [self.task.classifier.probabilities(rows.iloc[s : s + CHUNK]) for s in range(0, len(rows), CHUNK)]
        threshold = self.task.classifier.threshold
        return np.concatenate([np.empty(0, dtype=np.int64), *(chosen(p, threshold) for p in known)])

    def ask(self, present: Present, row: Codes, codes: Codes, ledger: Ledger) -> Asked:
        """See `Oracle`."""
        margin, valid = np.full(len(row), -np.inf), np.zeros(len(row), dtype=bool)
        granted = np.flatnonzero(ledger.admit(row))
        if len(granted):
            known = self.probabilities(present, row[granted], codes[granted], ledger)
            wanted = present.wanted[row[granted]]
            margin[granted] = _margins(known, wanted, self.task.classifier.threshold)
            valid[granted] = chosen(known, self.task.classifier.threshold) == wanted
        return Asked(margin, valid)

    def probabilities(self, present: Present, row: Codes, codes: Codes, ledger: Ledger) -> Floats:
        """By the user's own model, each distinct row once."""
        first, inverse = self._distinct(present, row, codes)
        ledger.calls += len(first)
        parts = [first[start : start + CHUNK] for start in range(0, len(first), CHUNK)]
        found = [
            self.task.classifier.probabilities(self.space.table(present, row[part], codes[part])) for part in parts
        ]
        return np.asarray(np.concatenate(found)[inverse])

    def _distinct(self, present: Present, row: Codes, codes: Codes) -> tuple[Codes, Codes]:
        strange = np.asarray(self.space.off_grid(present).any(axis=1))
        # A value off the grid is its row's own, so such rows share no question with others.
        own = np.where(strange[row], row, -1) if strange.any() else None
        return distinct(codes, self.space.tops, own)


class NetworkOracle:
    """A network on the task's encoded columns, by codes."""

    cheap = True

    def __init__(self, space: Space, module: nn.Module) -> None:
        self.space, self.module = space, module
        layers = list(module) if type(module) is nn.Sequential else [module]
        leading = list(itertools.takewhile(lambda layer: isinstance(layer, nn.Linear), layers))
        weight, bias = _composed(leading, space.task.encoder.width_)
        self.rest = copy.deepcopy(nn.Sequential(*layers[len(leading) :])).double().eval()
        self._of_feature = [weight[:, space.task.encoder.spans_[n]] for n in space.names]
        self._bias = bias
        self.additive = not len(self.rest) and len(bias) == 2
        self._tables = [self._table(i) for i in range(len(space.names))]

    def ask(self, present: Present, row: Codes, codes: Codes, ledger: Ledger) -> Asked:
        """See `Oracle`."""
        late = time.monotonic() > ledger.deadline
        if late:
            ledger.refused[row] = True
            return Asked(np.full(len(row), -np.inf), np.zeros(len(row), dtype=bool))
        wanted = present.wanted[row]
        margin = _lead(self.logits(present, row, codes), wanted)
        valid = margin > 0
        close = np.flatnonzero(np.abs(margin) < CLOSE)
        if len(close):
            valid[close] = self._answered(self.space.natural(present, row[close], codes[close])) == wanted[close]
        return Asked(margin, valid)

    def classes(self, rows: pd.DataFrame, natural: Natural) -> Codes:
        """See `Oracle`."""
        parts = [{n: v[s : s + CHUNK] for n, v in natural.items()} for s in range(0, len(rows), CHUNK)]
        return np.concatenate([np.empty(0, dtype=np.int64), *(self._answered(p) for p in parts)])

    @torch.no_grad()
    def _answered(self, natural: Natural) -> Codes:
        """Classes in the network's own arithmetic, on columns encoded as ever."""
        return np.asarray(self.module(self.space.task.encoder.encode_natural(natural)).argmax(dim=1).numpy())

    def logits(self, present: Present, row: Codes, codes: Codes) -> Floats:
        """`n x classes`."""
        hidden = np.tile(self._bias, (len(row), 1)) if len(row) else np.empty((0, len(self._bias)))
        for i in range(len(self.space.names)):
            hidden += self._part(i, present, row, codes[:, i])
        if not len(self.rest):
            return hidden
        with torch.no_grad():
            return np.asarray(self.rest(torch.from_numpy(hidden)).numpy())

    def _part(self, i: int, present: Present, row: Codes, codes: Codes) -> Floats:
        """What one feature adds to the first layer."""
        feature, table = self.space.features[i], self._tables[i]
        part = table.take(codes, axis=0) if table is not None else self._of_values(i, feature.at(codes))
        if feature.is_number:
            now = present.natural[feature.name]
            if not feature.on_grid(now).all():
                exact = self._of_values(i, now)
                part = np.where((codes == present.codes[row, i])[:, None], exact[row], part)
        return np.asarray(part)

    def _table(self, i: int) -> Floats | None:
        feature = self.space.features[i]
        if feature.is_category:
            return np.ascontiguousarray(self._of_feature[i].T)
        if self.space.tops[i] >= TABLE:
            return None
        return self._of_values(i, feature.at(np.arange(self.space.tops[i] + 1)))

    def _of_values(self, i: int, values: Floats) -> Floats:
        low, spread = self.space.task.encoder.scale_[self.space.names[i]]
        # As the encoder rounds it, so that the network sees the number that it would see in a table.
        kind = np.float32 if self.space.task.encoder.dtype_ == torch.float32 else np.float64
        encoded = ((values - low) / spread).astype(kind).astype(np.float64)
        return np.asarray(encoded[:, None] * self._of_feature[i][:, 0])


def _composed(layers: list[nn.Module], width: int) -> tuple[Floats, Floats]:
    """Linear layers one after the other as one, `outputs x width` and `outputs`."""
    weight, bias = np.eye(width), np.zeros(width)
    for layer in layers:
        assert isinstance(layer, nn.Linear)
        own = layer.weight.detach().double().cpu().numpy()
        add = 0.0 if layer.bias is None else layer.bias.detach().double().cpu().numpy()
        weight, bias = own @ weight, own @ bias + add
    return weight, bias


def _lead(logits: Floats, wanted: Codes) -> Floats:
    """How far the class wanted is ahead of the best other."""
    if logits.shape[1] == 2:
        lead = logits[:, 1] - logits[:, 0]
        return np.asarray(np.where(wanted == 1, lead, -lead))
    row = np.arange(len(logits))
    own = logits[row, wanted]
    others = logits.copy()
    others[row, wanted] = -np.inf
    return np.asarray(own - others.max(axis=1))


def _margins(probabilities: Floats, wanted: Codes, threshold: float | None) -> Floats:
    """Log odds of the class wanted, counted from where it is answered."""
    logits = np.log(np.clip(probabilities, CERTAIN, 1.0))
    lead = _lead(logits, wanted)
    if threshold is None:
        return lead
    edge = min(max(threshold, CERTAIN), 1 - CERTAIN)
    shift = np.log(edge / (1 - edge))
    return np.asarray(lead - np.where(wanted == 1, shift, -shift))


def distinct(codes: Codes, tops: Codes, own: NDArray[np.int64] | None = None) -> tuple[Codes, Codes]:
    """The first place of each distinct line of codes, and for each line which of these it equals."""
    columns = codes if own is None else np.concatenate([codes, own[:, None]], axis=1)
    sizes = (*(int(t) + 1 for t in tops), *(() if own is None else (int(own.max()) + 2,)))
    if float(np.prod([float(s) for s in sizes])) < 2.0**62:
        key = np.zeros(len(columns), dtype=np.int64)
        for i, size in enumerate(sizes):
            key = key * size + columns[:, i] + (1 if own is not None and i == len(tops) else 0)
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    else:
        _, first, inverse = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return np.asarray(first), np.asarray(inverse).reshape(-1)
