"""A task as data: schema, encoder, rules, target, some training rows, and the model where it is one of our networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..classifier import Classifier, Differentiable, differentiable, torch_modules
from ..classifier.networks import Ramps, empty_linear
from ..classifier.protocol import AdapterOptions
from ..encoding import TableEncoder
from ..errors import ClassifierError, Fault, FormatError
from ..schema import Schema
from ..task import Task
from .manifest import below

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


PROBES = 256
# Probabilities of one model may differ by this much between machines.
TOLERANCE = 1e-4


def task_content(task: Task) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A task as plain data and tensors."""
    codes = task.sample
    probes = task.encoder.from_codes(codes[:PROBES])
    network = _network(task.classifier)
    content = {
        "schema": task.schema.to_dict(),
        "encoder": _encoder_content(task.encoder),
        "rules": [rule.text for rule in task.rules],
        "target": task.target,
        "classes": list(task.classes),
        "threshold": task.classifier.threshold,
        "by_predict": task.classifier.own is not None,
        "seed": task.seed,
        "training_rows": len(task.train),
        "network": None if network is None else network[0],
    }
    answers = torch.from_numpy(task.classifier.probabilities(probes))
    tensors = {"rows": torch.from_numpy(codes), "answers": answers, **({} if network is None else network[1])}
    return content, tensors


def restored_task(
    content: Mapping[str, Any], tensors: Mapping[str, Tensor], classifier: Any, graph: Any, *, any_classifier: bool
) -> Task:
    """The task again; `classifier` may be None where the model was saved with it."""
    schema = Schema.from_dict(content["schema"])
    encoder = _restored_encoder(schema, content["encoder"])
    codes = _checked_codes(tensors["rows"], schema)
    rows = encoder.from_codes(codes)
    if classifier is None:
        classifier = _restored_network(content["network"], tensors)
    task = Task(
        rows,
        classifier,
        schema=schema,
        rules="\n".join(content["rules"]),
        target=content["target"],
        graph=graph,
        classes=content["classes"],
        # What the model's own predict decides is not to be decided by a threshold that was read from it.
        threshold=None if content.get("by_predict") else content["threshold"],
        encoder=encoder,
        seed=content["seed"],
    )
    if not any_classifier:
        _check_answers(task, rows.iloc[:PROBES], tensors["answers"].numpy(), content["threshold"])
    return task


def _encoder_content(encoder: TableEncoder) -> dict[str, Any]:
    return {
        "scale": {name: list(pair) for name, pair in encoder.scale_.items()},
        "units": dict(encoder.units_),
        "dtypes": {name: _dtype_content(dtype) for name, dtype in encoder.dtypes_.items()},
    }


def _dtype_content(dtype: Any) -> Any:
    if isinstance(dtype, pd.CategoricalDtype):
        return {"categories": dtype.categories.tolist(), "ordered": bool(dtype.ordered)}
    return str(dtype)


def _restored_encoder(schema: Schema, content: Mapping[str, Any]) -> TableEncoder:
    scale = {name: (float(low), float(spread)) for name, (low, spread) in content["scale"].items()}
    units = {name: float(unit) for name, unit in content["units"].items()}
    if set(scale) != set(schema.numbers) or set(units) != set(schema.numbers):
        raise FormatError("the encoder has ranges or units for other numbers than the schema's")
    if not all(spread > 0 for _, spread in scale.values()) or not all(unit > 0 for unit in units.values()):
        raise FormatError("the encoder has a range or a unit that is not above 0")
    dtypes = {name: _restored_dtype(content["dtypes"][name]) for name in schema.names}
    return TableEncoder().restore(schema, scale, units, dtypes)


def _restored_dtype(content: Any) -> Any:
    if isinstance(content, Mapping):
        return pd.CategoricalDtype(content["categories"], ordered=content["ordered"])
    try:
        return pd.api.types.pandas_dtype(str(content))
    except TypeError:
        # Another pandas may not know the name; any dtype that holds the values will do.
        return None


def _checked_codes(rows: Tensor, schema: Schema) -> NDArray[np.int64]:
    codes = rows.numpy()
    if codes.ndim != 2 or codes.shape[1] != len(schema) or codes.dtype != np.int64 or not len(codes):
        raise FormatError(f"the saved training rows are not n x {len(schema)} whole numbers")
    for feature, column in zip(schema, codes.T, strict=True):
        if feature.top is None or column.min() < 0 or column.max() > feature.top:
            raise FormatError(f"the saved training rows hold values of {feature.name!r} outside its grid")
    return codes


def _network(classifier: Classifier) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """A network that `train_classifier` made, as data; None for any other model."""
    encoder = getattr(classifier, "encoder", None)
    if getattr(classifier, "trained_as", None) is None or classifier.module is None or encoder is None:
        return None
    if (found := described(classifier.module, "classifier")) is None:
        return None
    layers, tensors = found
    known = {"schema": encoder.schema_.to_dict(), "encoder": _encoder_content(encoder)}
    return {"layers": layers, "kind": getattr(classifier, "trained_as", None), **known}, tensors


def _restored_network(content: Any, tensors: Mapping[str, Tensor]) -> Classifier:
    if content is None:
        problem = "was fitted to a model of your own, which is not saved with it"
        raise ClassifierError("", [Fault("this explainer", problem, "Give it: FCx.load(folder, classifier=...).")])
    encoder = _restored_encoder(Schema.from_dict(content["schema"]), content["encoder"])
    module = rebuilt(content["layers"], tensors, "classifier")
    made = torch_modules.classifier(module, AdapterOptions(encoder.schema_, encoder, output="logits"))
    made.trained_as = str(content["kind"])
    return made


def _check_answers(task: Task, probes: pd.DataFrame, known: NDArray[np.float64], threshold: Any) -> None:
    found = task.classifier.probabilities(probes)
    if found.shape != known.shape:
        raise FormatError("the saved answers of the classifier have another shape than its answers now")
    far = np.abs(found - known).max(axis=1) > TOLERANCE
    if far.any() or task.classifier.threshold != threshold:
        problem = f"answers differently from the one this was fitted to, on {int(far.sum())} of {len(probes)} rows"
        remedy = (
            "Give that one, or fit again. In Python, FCx.load(..., any_classifier=True) takes this one all the same."
        )
        raise ClassifierError("", [Fault("classifier", problem, remedy)])


def surrogate_content(found: Differentiable) -> tuple[dict[str, Any] | None, dict[str, Tensor]]:
    """The network with the classifier's answers; None where it has layers that are the user's own."""
    known = described(found.module, "stand_in")
    if known is None:
        return None, {}
    about = {"agreement": found.agreement, "rows": found.rows, "distilled": found.distilled}
    return {"layers": known[0], **about}, known[1]


def restored_surrogate(content: Any, tensors: Mapping[str, Tensor], task: Task) -> Differentiable:
    """The inverse of `surrogate_content`; what was not saved is made again."""
    if content is None:
        return differentiable(task.classifier, task)
    module = rebuilt(content["layers"], tensors, "stand_in").to(task.encoder.dtype_)
    answers = module(task.encoder.encode(task.train.iloc[:2]))
    if answers.shape[1] != len(task.classes):
        raise FormatError("the classifier's surrogate answers other classes than the task's")
    return Differentiable(module, float(content["agreement"]), int(content["rows"]), bool(content["distilled"]))
