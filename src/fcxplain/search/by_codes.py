"""A network on encoded columns is asked by codes: its first linear layers are a sum of look-ups, in double precision.

There is a table for each feature. What comes so near to another class that the network's own rounding could decide is
taken for no answer.
"""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pandas as pd
import torch
from torch import nn

from ..classifier.rows import legal_codes
from ..classifier.torch_modules import LogProbabilities, evaluating, like_parameters
from ..schema import Natural
from .by_tables import classes_of
from .ledger import Ledger
from .margins import lead
from .network import EXTREME
from .oracle import Asked
from .space import Codes, Floats, Present, Space

# The network's own margins may differ from these by so many times as much as they were seen to, and by no less than
# this; of margins that come from probabilities, those farther from 0 than `FAR` are not looked at.
MUCH, LEAST, FAR = 16.0, 1e-6, 5.0
PROBES = 256
# Rows go through the network in whole blocks, since a row's sums are then the same in any batch.
BLOCK = 64
# Grids with more values than this are computed, not looked up.
TABLE = 4_096


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
        self.rounding = self._seen_rounding()

    def ask(self, present: Present, row: Codes, codes: Codes, ledger: Ledger) -> Asked:
        """See `Oracle`."""
        if ledger.is_late:
            ledger.refused[row] = True
            return Asked(np.full(len(row), -np.inf), np.zeros(len(row), dtype=bool))
        ledger.count(row)
        ledger.calls += len(row)
        wanted = present.wanted[row]
        margin = lead(self.logits(present, row, codes), wanted)
        return Asked(margin, margin > self.rounding)

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

    def logits(self, present: Present, row: Codes, codes: Codes) -> Floats:
        """`n x classes`."""
        hidden = np.tile(self._bias, (len(row), 1)) if len(row) else np.empty((0, len(self._bias)))
        strange = present.strange
        for i in range(len(self.space.names)):
            hidden += self._part(i, present, row, codes[:, i], exact=strange[i])
        if not len(self.rest):
            return hidden
        whole = np.concatenate([hidden, np.zeros((-len(hidden) % BLOCK, hidden.shape[1]))])
        with torch.no_grad():
            return np.asarray(self.rest(torch.from_numpy(whole)).numpy()[: len(hidden)])

    def _part(self, i: int, present: Present, row: Codes, codes: Codes, *, exact: bool) -> Floats:
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
