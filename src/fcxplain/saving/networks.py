"""Networks as data: the names of their layers and their tensors. They are built from data, never executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..classifier import Differentiable, differentiable
from ..classifier.networks import Ramps, empty_linear
from ..errors import FormatError
from ..generator import view
from ..generator.cvae import ConditionalVAE, weight_shapes
from ..generator.settings import Architecture
from ..task import Task
from .manifest import below

LARGEST = 10_000
"""The maximum number of layers."""


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


def rebuilt(names: Any, arrays: Mapping[str, NDArray[Any]], prefix: str) -> nn.Sequential:
    """The network with these layers and tensors, frozen, in evaluation mode."""
    tensors = {name: torch.from_numpy(array) for name, array in below(arrays, f"{prefix}.").items()}
    if not isinstance(names, list) or not 0 < len(names) <= LARGEST:
        raise FormatError(f"{prefix} is not a list of layers")
    layers = [_layer(name, below(tensors, f"{i}."), f"{prefix}.{i}") for i, name in enumerate(names)]
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
    raise FormatError(f"{place} cannot be built as a layer: {name!r} with {', '.join(sorted(own)) or 'no tensors'}")


def _is_linear(weight: Tensor, bias: Tensor) -> bool:
    return weight.ndim == 2 and bias.shape == weight.shape[:1] and weight.is_floating_point()


def _are_ramps(columns: Tensor, low: Tensor, spread: Tensor) -> bool:
    return columns.ndim == 1 and columns.dtype == torch.int64 and low.shape == spread.shape == columns.shape


def generator_content(found: Differentiable, model: ConditionalVAE) -> tuple[dict[str, Any] | None, dict[str, Tensor]]:
    """The differentiable copy of the classifier, None if it has the user's own layers; and all tensors."""
    weights = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    known = described(found.module, "stand_in")
    if known is None:
        return None, weights
    about = {"agreement": found.agreement, "rows": found.rows, "distilled": found.distilled}
    return {"layers": known[0], **about}, known[1] | weights


def restored_surrogate(content: Any, tensors: Mapping[str, NDArray[Any]], task: Task) -> Differentiable:
    """The inverse of `generator_content` for the classifier; rebuilt if it was not saved."""
    if content is None:
        return differentiable(task.classifier, task)
    module = rebuilt(content["layers"], tensors, "stand_in").to(task.encoder.dtype_)
    answers = module(task.encoder.encode(task.train.iloc[:2]))
    if answers.shape[1] != (len(task.classes) or 2):
        raise FormatError("the classifier's surrogate has other classes than the task")
    return Differentiable(module, float(content["agreement"]), int(content["rows"]), bool(content["distilled"]))


def restored_model(
    arrays: Mapping[str, NDArray[Any]], task: Task, architecture: Architecture, seed: int
) -> ConditionalVAE:
    """The generator with the saved weights, in evaluation mode."""
    shape, weights = view.layout(task), {n: torch.from_numpy(a) for n, a in below(arrays, "model.").items()}
    # Checked before anything is built: a manifest may declare any size.
    expected = weight_shapes(shape, architecture)
    if {name: tuple(tensor.shape) for name, tensor in weights.items()} != expected:
        raise FormatError("the shapes of the weights do not match the architecture in the manifest")
    model = ConditionalVAE(shape, architecture, torch.Generator().manual_seed(seed))
    model.to(task.encoder.dtype_).load_state_dict(weights)
    return model.eval()
