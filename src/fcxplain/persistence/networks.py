"""Small networks as data: a list of layers by name, and their tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..classifier.networks import Ramps, empty_linear
from ..errors import FormatError
from .weights import below

LARGEST = 10_000
"""Most layers that a network may have."""


def described(module: nn.Module, prefix: str) -> tuple[list[str], dict[str, Tensor]] | None:
    """The names of a network's layers and its tensors, or None if it has layers other than ours."""
    layers = list(_layers(module))
    names = [type(layer).__name__ for layer in layers]
    if not set(names) <= {"Linear", "ReLU", "Ramps"}:
        return None
    tensors = {
        f"{prefix}.{i}.{name}": tensor.detach().clone().contiguous()
        for i, layer in enumerate(layers)
        for name, tensor in layer.state_dict().items()
    }
    return names, tensors


def rebuilt(names: Any, tensors: Mapping[str, Tensor], prefix: str) -> nn.Sequential:
    """The network of these layers and tensors, frozen, in evaluation mode."""
    if not isinstance(names, list) or not 0 < len(names) <= LARGEST:
        raise FormatError(f"{prefix} is not a list of layers")
    layers = [_layer(name, below(tensors, f"{prefix}.{i}."), f"{prefix}.{i}") for i, name in enumerate(names)]
    return nn.Sequential(*layers).eval().requires_grad_(False)


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    if type(module) is nn.Sequential:
        for part in module:
            yield from _layers(part)
    else:
        yield module


def _layer(name: Any, own: dict[str, Tensor], place: str) -> nn.Module:
    match name, sorted(own):
        case "ReLU", []:
            return nn.ReLU()
        case "Linear", ["bias", "weight"] if _is_linear(own["weight"], own["bias"]):
            layer = empty_linear(own["weight"].shape[1], own["weight"].shape[0], own["weight"].dtype)
            layer.load_state_dict(own)
            return layer
        case "Ramps", ["columns", "low", "spread"] if _are_ramps(own["columns"], own["low"], own["spread"]):
            return Ramps(own["columns"], own["low"], own["spread"])
    raise FormatError(f"{place} is no layer that can be built: {name!r} with {', '.join(sorted(own)) or 'no tensors'}")


def _is_linear(weight: Tensor, bias: Tensor) -> bool:
    return weight.ndim == 2 and bias.shape == weight.shape[:1] and weight.is_floating_point()


def _are_ramps(columns: Tensor, low: Tensor, spread: Tensor) -> bool:
    return columns.ndim == 1 and columns.dtype == torch.int64 and low.shape == spread.shape == columns.shape
