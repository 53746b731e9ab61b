"""What the model says of candidates: a network by codes, its first layer a sum of look-ups; any other model by tables,
each distinct row once, and no longer than there is budget.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from torch import nn

from ..classifier.protocol import BLOCK, Predictions
from ..classifier.reading.networks import EXTREME
from ..classifier.rows import legal_codes
from ..classifier.torch_modules import LogProbabilities, evaluating, like_parameters
from ..hashing import distinct
from ..schema import Natural
from ..task import Task
from .candidates import within
from .space import Bools, Codes, Floats, Rows, SearchSpace
from .spending import Spending

# Probabilities nearer to 0 than this are all the same to a margin.
CERTAIN = 1e-6


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
    logits = np.log(np.clip(probabilities, CERTAIN, 1.0))
    ahead = lead(logits, wanted)
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

    cheap, additive = False, False

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


# The network's own margins may differ from these by so many times as much as they were seen to, and by no less than
# this; of margins that come from probabilities, those farther from 0 than `FAR` are not looked at.
MUCH, LEAST, FAR = 16.0, 1e-6, 5.0
PROBES = 256
# Grids with more values than this are computed, not looked up.
TABLE = 4_096


class NetworkOracle:
    """A network on the task's encoded columns, by codes."""

    cheap = True

    def __init__(self, space: SearchSpace, module: nn.Module) -> None:
        self.space, self.module = space, module
        layers = list(module) if type(module) is nn.Sequential else [module]
        leading = list(itertools.takewhile(lambda layer: isinstance(layer, nn.Linear), layers))
        weight, bias = _composed(leading, space.task.encoder.width_)
        self.rest = copy.deepcopy(nn.Sequential(*layers[len(leading) :])).double().eval()
        self._of_feature = [weight[:, space.task.encoder.spans_[n]] for n in space.names]
        self._bias = bias
        self.additive = not len(self.rest) and len(bias) == 2
        self._tables = [self._table(i) for i in range(len(space.names))]
        self.rounding = self._seen_rounding()

    def query(self, present: Rows, row: Codes, codes: Codes, spending: Spending) -> Replies:
        """See `Oracle`."""
        if spending.is_late:
            spending.refuse(row)
            return Replies(np.full(len(row), -np.inf), np.zeros(len(row), dtype=bool))
        spending.count(row)
        spending.show(len(row))
        wanted = present.wanted[row]
        margin = lead(self.logits(present, row, codes), wanted)
        return Replies(margin, margin > self.rounding)

    def classes(self, rows: pd.DataFrame, natural: Natural) -> Codes:
        """See `Oracle`."""
        return classes_of(self.space.task, rows)

    def _seen_rounding(self) -> float:
        """How far the margins of the user's own module are from these, on legal rows, and more to be sure."""
        task, module = self.space.task, self.space.task.classifier.module
        assert module is not None
        codes = legal_codes(task.schema, PROBES, np.random.default_rng(0))
        present = self.space.present(task.encoder.natural_of_codes(codes), np.zeros(len(codes), dtype=np.int64))
        exact = self.logits(present, np.arange(len(codes)), codes)
        encoder = task.classifier.encoder or task.encoder
        with evaluating(module), torch.no_grad():
            out = module(like_parameters(encoder.encode_natural(present.natural), module))
        own, edge = out.double().cpu().numpy(), task.classifier.threshold
        if edge is not None:
            own = own - np.array([0.0, np.log(edge / (1 - edge))])
        # Only differences of logits count; those from the highest are enough.
        exact, own = (logits - logits[np.arange(len(codes)), exact.argmax(axis=1), None] for logits in (exact, own))
        near = np.abs(exact) < (FAR if _squashes(module) else np.inf)
        return max(LEAST, MUCH * float(np.abs(exact - own)[near].max(initial=0.0)))

    def logits(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """`n x classes`."""
        hidden = np.tile(self._bias, (len(row), 1)) if len(row) else np.empty((0, len(self._bias)))
        for i in range(len(self.space.names)):
            hidden += self._part(i, present, row, codes[:, i], exact=present.off_grid_features[i])
        if not len(self.rest):
            return hidden
        whole = np.concatenate([hidden, np.zeros((-len(hidden) % BLOCK, hidden.shape[1]))])
        with torch.no_grad():
            return np.asarray(self.rest(torch.from_numpy(whole)).numpy()[: len(hidden)])

    def _part(self, i: int, present: Rows, row: Codes, codes: Codes, *, exact: bool) -> Floats:
        """What one feature adds to the first layer; `exact`: some rows have a value off the grid."""
        feature, table = self.space.features[i], self._tables[i]
        part = table.take(codes, axis=0) if table is not None else self._of_values(i, feature.at(codes))
        if exact:
            own = self._of_values(i, present.natural[feature.name])
            stays = (codes == present.codes[row, i]) & present.off_grid[row, i]
            part = np.where(stays[:, None], own[row], part)
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


def _squashes(module: nn.Module) -> bool:
    """Whether a module's logits come from probabilities, which lose digits near 0 and 1."""
    return any(isinstance(part, LogProbabilities) for part in module.modules())


def is_exact(module: nn.Module | None, threshold: float | None) -> bool:
    """Whether a network in double precision decides as the module itself: that has the digits, and so its threshold."""
    floats = {p.dtype for p in (() if module is None else module.parameters()) if p.is_floating_point()}
    is_moderate = threshold is None or EXTREME <= threshold <= 1 - EXTREME
    return floats <= {torch.float32, torch.float64} and is_moderate


def _composed(layers: list[nn.Module], width: int) -> tuple[Floats, Floats]:
    """Linear layers one after the other as one, `outputs x width` and `outputs`."""
    weight, bias = np.eye(width), np.zeros(width)
    for layer in layers:
        assert isinstance(layer, nn.Linear)
        own = layer.weight.detach().double().cpu().numpy()
        add = 0.0 if layer.bias is None else layer.bias.detach().double().cpu().numpy()
        weight, bias = own @ weight, own @ bias + add
    return weight, bias
