"""Torch modules on encoded columns: interpretation of their outputs, and the same module with plain logits."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..encoding import TableEncoder
from ..errors import ClassifierError, Fault, FcxWarning
from . import checking
from .networks import empty_linear
from .protocol import AdapterOptions, CheckedClassifier, checked
from .rows import encoded, legal_codes

# Rows per pass through a module: larger batches gain nothing and cost memory.
CHUNK = 65_536


def classifier(model: nn.Module, options: AdapterOptions) -> CheckedClassifier:
    """A torch module on the columns of an encoder as a classifier. It is first tried on a few legal rows."""
    name, encoder, output = type(model).__name__, options.encoder, options.output
    if encoder is None:
        remedy = "Give encoder=TableEncoder().fit(schema, train)."
        raise ClassifierError("", [Fault(name, "reads encoded columns, but no encoder was given", remedy)])
    is_one = output == "probabilities" or (output == "auto" and _ends_in_one(model))
    reading = TorchReading(model, encoder, is_one and not options.regression, options.regression)
    shape = _tried(reading, name, stated=output != "auto" or options.regression)
    if options.regression:
        return _regressor(reading, shape, name, options)
    count = 2 if len(shape) == 1 else max(2, shape[1])
    made = CheckedClassifier(
        reading,
        encoder.schema_,
        name=name,
        classes=range(count),
        module=as_logits(model, shape, probabilities=reading.probabilities),
        encoder=encoder,
    )
    return made.replace(classes=options.classes, threshold=options.threshold)


def _regressor(reading: TorchReading, shape: torch.Size, name: str, options: AdapterOptions) -> CheckedClassifier:
    """A module with one output as a regressor."""
    if len(shape) == 2 and shape[1] > 1:
        remedy = "Return n or n x 1; for a classifier, name a class as the target, or give classes=."
        raise ClassifierError("", [Fault(name, f"has {shape[1]} outputs, but a range needs one", remedy)])
    made = checked(reading, replace(options, schema=reading.encoder.schema_), name)
    made.module = as_logits(reading.model, shape, probabilities=False)
    return made


@dataclass(frozen=True)
class TorchReading:
    """Queries a module on raw rows and reads its outputs as probabilities, `n x classes`, or as numbers."""

    model: nn.Module
    encoder: TableEncoder
    probabilities: bool
    regression: bool = False

    def __call__(self, rows: pd.DataFrame) -> Tensor:
        """Probabilities, or a regressor's output, in double precision."""
        return self._read(self.outputs(self._encoded(rows)))

    def in_batches(self, rows: pd.DataFrame, places: Sequence[NDArray[np.int64]]) -> Tensor:
        """The same for several batches of rows, each queried separately."""
        x = self._encoded(rows)
        return torch.cat([self._read(self.outputs(x[torch.from_numpy(p)])) for p in places])

    def _encoded(self, rows: pd.DataFrame) -> Tensor:
        return encoded(rows, self.encoder, type(self.model).__name__)

    def _read(self, outputs: Tensor) -> Tensor:
        found = outputs.double()
        if self.regression:
            return found
        out = two_columns(found, self.probabilities)
        return out if self.probabilities else out.softmax(dim=1)

    def outputs(self, x: Tensor) -> Tensor:
        """The module's outputs for encoded rows, in evaluation mode and without gradients."""
        with evaluating(self.model), torch.no_grad():
            x = like_parameters(x, self.model)
            return torch.cat([self.model(part) for part in torch.split(x, CHUNK)])


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode, and restore the mode of every part afterwards."""
    before = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def like_parameters(x: Tensor, model: nn.Module) -> Tensor:
    """The tensor in the dtype and on the device of the module."""
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        if tensor.is_floating_point():
            return x.to(dtype=tensor.dtype, device=tensor.device)
    return x


def as_logits(model: nn.Module, shape: torch.Size, *, probabilities: bool) -> nn.Module:
    """The module with one logit per class; it shares the given module's parameters.

    Layers are added only if needed, and are linear if possible, so that bounds can be proved through them.
    """
    if probabilities:
        return nn.Sequential(*_layers(model), LogProbabilities())
    if len(shape) == 2 and shape[1] > 1:
        return model
    if len(shape) == 2:
        reference = next(model.parameters(), torch.zeros(1))
        weight = torch.tensor([[0.0], [1.0]], dtype=reference.dtype, device=reference.device)
        return nn.Sequential(*_layers(model), fixed_linear(weight, torch.zeros_like(weight[:, 0])))
    return nn.Sequential(*_layers(model), SecondLogit())


def fixed_linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A linear layer with these values, which do not train. `weight` is `outputs x inputs`."""
    layer = empty_linear(weight.shape[1], weight.shape[0], weight.dtype, weight.device)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer.requires_grad_(False)


class LogProbabilities(nn.Module):
    """Turns probabilities, in one or more columns, into logits."""

    def forward(self, p: Tensor) -> Tensor:
        """`n` or `n x columns` to `n x classes`."""
        p = two_columns(p, probabilities=True)
        return p.clamp_min(torch.finfo(p.dtype).eps).log()


class SecondLogit(nn.Module):
    """Turns the logit of the second class, `n`, into logits of both."""

    def forward(self, z: Tensor) -> Tensor:
        """`n` to `n x 2`."""
        return two_columns(z, probabilities=False)


def two_columns(out: Tensor, probabilities: bool) -> Tensor:
    """Turn one output per row into two, for both classes; more are left unchanged."""
    if out.ndim == 2 and out.shape[1] > 1:
        return out
    second = out.reshape(len(out))
    first = 1 - second if probabilities else torch.zeros_like(second)
    return torch.stack([first, second], dim=1)


def _layers(model: nn.Module) -> list[nn.Module]:
    return list(model) if type(model) is nn.Sequential else [model]


def _ends_in_one(model: nn.Module) -> bool:
    """Whether the last layer makes probabilities. A LogSoftmax makes normalised logits."""
    leaves = [part for part in model.modules() if not any(part.children())]
    return isinstance(leaves[-1], nn.Sigmoid | nn.Softmax)


def _tried(reading: TorchReading, name: str, *, stated: bool) -> torch.Size:
    """The shape of the module's outputs for a few legal rows, or an error that says what is wrong."""
    encoder = reading.encoder
    codes = legal_codes(encoder.schema_, checking.PROBE_ROWS, np.random.default_rng(0))
    x = encoder.encode_natural(encoder.natural_of_codes(codes))
    try:
        out = reading.outputs(x)
    except Exception as error:
        message = f"{name} failed on {len(x)} x {encoder.width_} encoded columns. {type(error).__name__}: {error}"
        raise ClassifierError(message) from error
    if out.ndim not in (1, 2) or len(out) != len(x):
        shape = " x ".join(str(size) for size in out.shape)
        problem = f"returned outputs of shape {shape} for {len(x)} rows"
        raise ClassifierError("", [Fault(name, problem, "Return n, n x 1 or n x classes.")])
    if not stated and not reading.probabilities and _look_like_probabilities(out):
        warnings.warn(
            f"{name}: its outputs are read as logits but look like probabilities. Pass "
            "output='probabilities' or output='logits'.",
            FcxWarning,
            stacklevel=4,
        )
    return out.shape


def _look_like_probabilities(out: Tensor) -> bool:
    inside = bool(((out >= 0) & (out <= 1)).all())
    if out.ndim == 1 or out.shape[1] == 1:
        return inside
    return inside and bool((out.sum(dim=1) - 1).abs().max() < checking.SUM_TOLERANCE)
