"""A torch module read as numbers: its parts in the order of computation, as linear layers with ReLUs in between, and a
bound on the rounding of their outputs.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
import torch.fx
from numpy.typing import NDArray
from torch import Tensor, nn

from ..protocol import roundoff
from ..torch_modules import LogProbabilities, SecondLogit, evaluating

RELUS = (torch.relu, nn.functional.relu, "relu")
SIGMOIDS = (torch.sigmoid, nn.functional.sigmoid, "sigmoid")
SQUEEZES = (torch.squeeze, "squeeze")


def parts_of(module: nn.Module) -> list[nn.Module]:
    """The module as a list of successive parts, as it computes in evaluation mode."""
    if is_hooked(module):
        return [module]
    if type(module) is nn.Sequential:
        return [part for child in module for part in parts_of(child)]
    if type(module) in (nn.Identity, nn.Dropout):
        return []
    is_known = type(module).__module__.startswith("torch.nn.") or isinstance(module, LogProbabilities | SecondLogit)
    traced = None if is_known else _traced(module)
    return [module] if traced is None else traced


def is_hooked(module: nn.Module) -> bool:
    """Whether a call of the module does anything else, such as a hook."""
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _traced(module: nn.Module) -> list[nn.Module] | None:
    """The parts of a module in which each step takes only the output of the step before; else None."""
    try:
        with evaluating(module):
            graph = torch.fx.Tracer().trace(module)
    except Exception:
        # The user's code runs here with placeholders for tensors, and may fail in any way.
        return None
    nodes = list(graph.nodes)
    if [n.op for n in nodes].count("placeholder") != 1 or nodes[0].op != "placeholder":
        return None
    parts: list[nn.Module] = []
    for previous, node in itertools.pairwise(nodes):
        if node.all_input_nodes != [previous] or not node.args or node.args[0] is not previous:
            return None
        if node.op == "output":
            return parts
        step = _step(node, module)
        if step is None:
            return None
        parts += step
    return None


def _step(node: torch.fx.Node, module: nn.Module) -> list[nn.Module] | None:
    if node.op == "call_module":
        return parts_of(module.get_submodule(str(node.target))) if len(node.args) == 1 and not node.kwargs else None
    more = [*node.args[1:], *node.kwargs.values()]
    if node.target in RELUS:
        return [nn.ReLU()]
    if node.target in SIGMOIDS and not more:
        return [nn.Sigmoid()]
    if node.target in SQUEEZES and more in ([1], [-1]):
        return [nn.Flatten(0)]
    is_off = node.target is nn.functional.dropout and node.kwargs.get("training") is False
    return [] if is_off else None


Floats = NDArray[np.float64]

# Computations here are in double precision; no module is assumed to be more precise than this.
FINEST = 8 * float(np.finfo(np.float64).eps)
# Thresholds closer to 0 or 1 than this are lost in the rounding of the probabilities.
EXTREME = 1e-6
# Logits that differ by less may give equal probabilities, and then the order of the classes decides.
TIE = 1e-9
# In addition to the layers' sums, rows are rounded when they are encoded.
SPARE = 8


@dataclass(frozen=True)
class Layer:
    """`weight . x + bias`; the sizes are those of sums without cancellation (see `ReluNetwork`)."""

    weight: Floats
    bias: Floats
    weight_size: Floats
    bias_size: Floats

    def then(self, other: Layer) -> Layer:
        """Both layers merged into one, without an activation in between."""
        return Layer(
            other.weight @ self.weight,
            other.weight @ self.bias + other.bias,
            other.weight_size @ self.weight_size,
            other.weight_size @ self.bias_size + other.bias_size,
        )


@dataclass(frozen=True)
class ReluNetwork:
    """Linear layers with ReLUs in between, from encoded columns to one logit per class.

    Computed in any order with unit roundoff u, the logits differ from the exact ones by at most `rounding` times
    the sizes: the same sums over absolute values (Higham, Accuracy and Stability, section 3.1). `slack` is the further
    error in a difference of two logits when they are turned into a prediction.
    """

    layers: tuple[Layer, ...]
    rounding: float
    slack: float

    def logits(self, x: Floats) -> Floats:
        """The logits of encoded rows, exact up to rounding in double precision."""
        for layer in self.layers[:-1]:
            x = np.maximum(x @ layer.weight.T + layer.bias, 0.0)
        return x @ self.layers[-1].weight.T + self.layers[-1].bias

    def sizes(self, towards: Floats) -> tuple[Floats, float]:
        """A bound on the rounding of a sum of logits with these weights: per unit of each input, and constant."""
        weights, fixed = np.abs(towards), 0.0
        for layer in reversed(self.layers):
            fixed += float(weights @ layer.bias_size)
            weights = weights @ layer.weight_size
        return self.rounding * weights, self.rounding * fixed


def read_network(module: nn.Module, threshold: float | None, inputs: torch.dtype = torch.float64) -> ReluNetwork | None:
    """The module as numbers, with the threshold in its last layer; None if some part is unknown.

    `inputs` is the dtype of its encoded input rows, which may be less precise than its own.
    """
    is_squashed, parts = _without_tail(parts_of(module))
    read = [None if _is_relu(part) else _as_layer(part) for part in parts]
    linear = [layer for layer in read if layer is not None]
    if (
        is_squashed is None
        or not linear
        or any(r is None and not _is_relu(p) for r, p in zip(read, parts, strict=True))
    ):
        return None
    layers = _composed(read)
    if len(layers[-1].bias) == 1:
        layers[-1] = layers[-1].then(_linear(np.array([[0.0], [1.0]]), np.zeros(2)))
    if threshold is not None:
        if not EXTREME <= threshold <= 1 - EXTREME or len(layers[-1].bias) != 2:
            return None
        layers[-1] = layers[-1].then(_linear(np.eye(2), np.array([0.0, -math.log(threshold / (1 - threshold))])))
    unit = max(roundoff(module), FINEST)
    rounded = 4 * unit * (sum(layer.weight.shape[1] + 2 for layer in linear) + SPARE)
    rounded += 2 * float(torch.finfo(inputs).eps)
    if not rounded < 0.5 or not all(np.isfinite(layer.weight).all() for layer in layers):
        return None
    edge = 0.5 if threshold is None else min(threshold, 1 - threshold)
    return ReluNetwork(tuple(layers), rounded / (1 - rounded), TIE + (16 * unit / edge if is_squashed else 0.0))


def _is_relu(part: nn.Module) -> bool:
    return type(part) is nn.ReLU and not is_hooked(part)


def _without_tail(parts: list[nn.Module]) -> tuple[bool | None, list[nn.Module]]:
    """The parts before those that make probabilities, and whether there are any of these; None if they are unknown.

    A single sigmoid and a softmax keep the order of their inputs, up to rounding.
    """
    if parts and type(parts[-1]) is SecondLogit:
        # Its input is a list of numbers, flattened from one column.
        is_flat = len(parts) > 1 and type(parts[-2]) is nn.Flatten and parts[-2].start_dim == 0
        return (False if is_flat and _width(parts[:-2]) == 1 else None), parts[:-2]
    if not parts or type(parts[-1]) is not LogProbabilities:
        return False, parts
    last, body = (parts[-2], parts[:-2]) if len(parts) > 1 else (None, [])
    if last is None or is_hooked(last):
        return None, parts
    is_sigmoid = type(last) is nn.Sigmoid and _width(body) == 1
    is_softmax = type(last) is nn.Softmax and last.dim in (1, -1) and _width(body) > 1
    return (True if is_sigmoid or is_softmax else None), body


def _width(parts: list[nn.Module]) -> int:
    """The number of outputs of the last linear layer."""
    return next((p.out_features for p in reversed(parts) if type(p) is nn.Linear), 0)


def _as_layer(part: nn.Module) -> Layer | None:
    if is_hooked(part):
        return None
    if type(part) is nn.Linear:
        weight = _doubles(part.weight)
        bias = np.zeros(len(weight)) if part.bias is None else _doubles(part.bias)
        return _linear(weight, bias)
    if type(part) is nn.BatchNorm1d and part.running_mean is not None and part.running_var is not None:
        factor = 1 / np.sqrt(_doubles(part.running_var) + part.eps)
        factor, bias = (factor * _doubles(part.weight), _doubles(part.bias)) if part.affine else (factor, 0 * factor)
        moved = np.abs(factor * _doubles(part.running_mean))
        weight = np.diag(factor)
        return Layer(weight, bias - factor * _doubles(part.running_mean), np.abs(weight), np.abs(bias) + moved)
    return None


def _doubles(tensor: Tensor) -> Floats:
    return np.asarray(tensor.detach().cpu().double().numpy(), dtype=np.float64)


def _linear(weight: Floats, bias: Floats) -> Layer:
    return Layer(weight, bias, np.abs(weight), np.abs(bias))


def _composed(read: list[Layer | None]) -> list[Layer]:
    """Layers with ReLUs (None) in between: neighbours are merged, and a ReLU at an end gets an identity layer."""
    known = [layer for layer in read if layer is not None]
    if read[0] is None:
        read = [_linear(np.eye(known[0].weight.shape[1]), np.zeros(known[0].weight.shape[1])), *read]
    if read[-1] is None:
        read = [*read, _linear(np.eye(len(known[-1].bias)), np.zeros(len(known[-1].bias)))]
    layers: list[Layer] = []
    for previous, layer in pairwise([None, *read]):
        if layer is not None:
            layers = [*layers, layer] if previous is None else [*layers[:-1], layers[-1].then(layer)]
    return layers
