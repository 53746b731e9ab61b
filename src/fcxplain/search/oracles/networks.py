"""Networks as functions of codes: the first layer is a sum of look-ups."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...classifier.protocol import BLOCK, roundoff
from ...classifier.reading.networks import EXTREME
from ...classifier.rows import legal_codes
from ...classifier.torch_modules import LogProbabilities, evaluating, like_parameters
from ..space import Codes, Floats, SearchSpace
from .code_models import TABLE, SummedCodes
from .codes import LEAST, MUCH, PROBES, TIE, CodeOracle
from .oracle import FAR


class NetworkCodes(SummedCodes):
    """A network on the task's encoded columns, in double precision."""

    def __init__(self, space: SearchSpace, module: nn.Module) -> None:
        self.space = space
        layers = list(module) if type(module) is nn.Sequential else [module]
        leading = list(itertools.takewhile(lambda layer: isinstance(layer, nn.Linear), layers))
        weight, self.start = _composed(leading, space.task.encoder.width_)
        self.rest = copy.deepcopy(nn.Sequential(*layers[len(leading) :])).double().eval()
        self._of_feature = [weight[:, space.task.encoder.spans_[n]] for n in space.names]
        self.additive = not len(self.rest) and len(self.start) == 2
        self._tables = [self._table(i) for i in range(len(space.names))]

    def of_codes(self, i: int, codes: Codes) -> Floats:
        """See `SummedCodes`."""
        table = self._tables[i]
        return table.take(codes, axis=0) if table is not None else self.of_values(i, self.space.features[i].at(codes))

    def of_values(self, i: int, values: NDArray[Any]) -> Floats:
        """See `SummedCodes`."""
        feature = self.space.features[i]
        # A network sees a missing value or an unknown level as the encoder does: as a typical one.
        values = self.space.task.encoder.known(feature, values)
        if feature.is_category:
            return np.asarray(self._of_feature[i].T[values])
        low, spread = self.space.task.encoder.scale_[feature.name]
        # Rounded as by the encoder, so that the network gets the same number as from a table.
        kind = np.float32 if self.space.task.encoder.dtype_ == torch.float32 else np.float64
        encoded = ((values - low) / spread).astype(kind).astype(np.float64)
        return np.asarray(encoded[:, None] * self._of_feature[i][:, 0])

    def scores(self, sums: Floats) -> Floats:
        """See `SummedCodes`."""
        if not len(self.rest):
            return sums
        whole = np.concatenate([sums, np.zeros((-len(sums) % BLOCK, sums.shape[1]))])
        with torch.no_grad():
            return np.asarray(self.rest(torch.from_numpy(whole)).numpy()[: len(sums)])

    def _table(self, i: int) -> Floats | None:
        feature = self.space.features[i]
        if feature.is_category:
            return np.ascontiguousarray(self._of_feature[i].T)
        if self.space.tops[i] >= TABLE:
            return None
        return self.of_values(i, feature.at(np.arange(self.space.tops[i] + 1)))


def network_oracle(space: SearchSpace, module: nn.Module) -> CodeOracle:
    """The user's own network as a function of codes; its queries are counted, but not limited."""
    model = NetworkCodes(space, module)
    edge = space.task.classifier.threshold
    built_in = 0.0 if edge is None else float(np.log(edge / (1 - edge)))
    return CodeOracle(space, model, rounding=_seen_rounding(space, model), built_in=built_in, is_own=True)


def _seen_rounding(space: SearchSpace, model: NetworkCodes) -> float:
    """The rounding error of margins by codes, measured against the user's module on legal rows, with a margin."""
    task, module = space.task, space.task.classifier.module
    assert module is not None
    codes = legal_codes(task.schema, PROBES, np.random.default_rng(0))
    natural = task.encoder.natural_of_codes(codes)
    present = space.present(natural, task.outcomes_to_try(task.classifier.probabilities(task.table(natural))))
    exact = CodeOracle(space, model).logits(present, np.arange(len(codes)), codes)
    encoder = task.classifier.encoder or task.encoder
    with evaluating(module), torch.no_grad():
        out = module(like_parameters(encoder.encode_natural(present.natural), module))
    own, edge = out.double().cpu().numpy(), task.classifier.threshold
    if edge is not None:
        own = own - np.array([0.0, np.log(edge / (1 - edge))])
    # Only differences between logits matter; those from the highest are enough.
    exact, own = (logits - logits[np.arange(len(codes)), exact.argmax(axis=1), None] for logits in (exact, own))
    near = np.abs(exact) < (FAR if _squashes(module) else np.inf)
    # In double precision, candidates nearer to the border are surely on their side too.
    least = TIE if roundoff(module) < TIE else LEAST
    return max(least, MUCH * float(np.abs(exact - own)[near].max(initial=0.0)) / task.classifier.unit)


def _squashes(module: nn.Module) -> bool:
    """Whether a module's logits are computed from probabilities, which lose digits near 0 and 1."""
    return any(isinstance(part, LogProbabilities) for part in module.modules())


def is_exact(module: nn.Module | None, threshold: float | None) -> bool:
    """Whether a network in double precision decides as the module itself, going by its dtypes and its threshold."""
    floats = {p.dtype for p in (() if module is None else module.parameters()) if p.is_floating_point()}
    is_moderate = threshold is None or EXTREME <= threshold <= 1 - EXTREME
    return floats <= {torch.float32, torch.float64} and is_moderate


def _composed(layers: list[nn.Module], width: int) -> tuple[Floats, Floats]:
    """Consecutive linear layers composed into one, `outputs x width` and `outputs`."""
    weight, bias = np.eye(width), np.zeros(width)
    for layer in layers:
        assert isinstance(layer, nn.Linear)
        own = layer.weight.detach().double().cpu().numpy()
        add = 0.0 if layer.bias is None else layer.bias.detach().double().cpu().numpy()
        weight, bias = own @ weight, own @ bias + add
    return weight, bias
