"""A network on encoded columns is asked by codes: its first linear layers are a sum of look-ups, in double precision.

There is a table for each feature. Where the answer comes too close to call, the network itself is asked.
"""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pandas as pd
import torch
from torch import nn

from ..schema import Natural
from .ledger import Ledger
from .margins import lead
from .oracle import Asked
from .space import Codes, Floats, Present, Space

# A margin closer to 0 than this may have another sign in the model's own arithmetic.
CLOSE = 1e-4
# Grids with more values than this are computed, not looked up.
TABLE = 4_096
# Rows that the network is shown at a time.
CHUNK = 65_536


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
        if ledger.is_late:
            ledger.refused[row] = True
            return Asked(np.full(len(row), -np.inf), np.zeros(len(row), dtype=bool))
        ledger.count(row)
        ledger.calls += len(row)
        wanted = present.wanted[row]
        margin = lead(self.logits(present, row, codes), wanted)
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
        strange = present.strange
        for i in range(len(self.space.names)):
            hidden += self._part(i, present, row, codes[:, i], exact=strange[i])
        if not len(self.rest):
            return hidden
        with torch.no_grad():
            return np.asarray(self.rest(torch.from_numpy(hidden)).numpy())

    def _part(self, i: int, present: Present, row: Codes, codes: Codes, *, exact: bool) -> Floats:
        """What one feature adds to the first layer; `exact`: some rows have a value off the grid."""
        feature, table = self.space.features[i], self._tables[i]
        part = table.take(codes, axis=0) if table is not None else self._of_values(i, feature.at(codes))
        if exact:
            own = self._of_values(i, present.natural[feature.name])
            part = np.where((codes == present.codes[row, i])[:, None], own[row], part)
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
