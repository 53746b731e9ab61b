"""A task as data: schema, encoder, rules, target, some training rows, and the model if it is one of our networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..classifier import Classifier
from ..classifier.protocol import AdapterOptions
from ..encoding import TableEncoder
from ..errors import ClassifierError, Fault, FormatError
from ..outcome import Outcome
from ..schema import Schema
from ..task import Task
from .manifest import Numbers

if TYPE_CHECKING:
    from torch import Tensor

PROBES = 256
# Probabilities of the same model may differ by this much between machines.
TOLERANCE = 1e-4


def task_content(task: Task) -> tuple[dict[str, Any], dict[str, Numbers]]:
    """A task as plain data and tensors."""
    codes = task.sample
    probes = task.encoder.from_codes(codes[:PROBES])
    network = _network(task.classifier)
    content = {
        "schema": task.schema.to_dict(),
        "encoder": _encoder_content(task.encoder),
        "rules": [rule.text for rule in task.rules],
        "target": task.target.to_data() if isinstance(task.target, Outcome) else task.target,
        "target_probability": task.target_probability,
        "classes": list(task.classes),
        "threshold": task.classifier.threshold,
        "by_predict": task.classifier.own is not None,
        "seed": task.seed,
        "training_rows": len(task.train),
        "network": None if network is None else network[0],
    }
    answers = task.classifier.probabilities(probes)
    return content, {"rows": codes, "answers": answers, **({} if network is None else network[1])}


def restored_task(
    content: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    classifier: Any,
    graph: Any,
    *,
    any_classifier: bool,
) -> Task:
    """The restored task; `classifier` may be None if the model was saved with it."""
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
        target_probability=content.get("target_probability"),
        classes=content["classes"] or None,
        # A model that decides by its own predict must not get a threshold that was read from it.
        threshold=None if content.get("by_predict") else content["threshold"],
        encoder=encoder,
        seed=content["seed"],
    )
    if not any_classifier:
        _check_answers(task, rows.iloc[:PROBES], tensors["answers"], content["threshold"])
    return task


def _encoder_content(encoder: TableEncoder) -> dict[str, Any]:
    return {
        "scale": {name: list(pair) for name, pair in encoder.scale_.items()},
        "units": dict(encoder.units_),
        "usual": dict(encoder.usual_),
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
        raise FormatError("the encoder has ranges or units for numbers that are not in the schema")
    if not all(spread > 0 for _, spread in scale.values()) or not all(unit > 0 for unit in units.values()):
        raise FormatError("the encoder has a range or a unit that is not above 0")
    dtypes = {name: _restored_dtype(content["dtypes"][name]) for name in schema.names}
    # Models saved before missing values were supported have no usual values, and need none.
    usual = content.get("usual", {})
    if not all(name in schema and schema[name].on_grid(np.asarray([v])).all() for name, v in usual.items()):
        raise FormatError("the encoder has usual values that are not in the schema")
    return TableEncoder().restore(schema, scale, units, dtypes, usual)


def _restored_dtype(content: Any) -> Any:
    if isinstance(content, Mapping):
        return pd.CategoricalDtype(content["categories"], ordered=content["ordered"])
    try:
        return pd.api.types.pandas_dtype(str(content))
    except TypeError:
        # Another version of pandas may not know the name; any dtype that holds the values will do.
        return None


def _checked_codes(codes: NDArray[Any], schema: Schema) -> NDArray[np.int64]:
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
    from .networks import described

    if (found := described(classifier.module, "classifier")) is None:
        return None
    layers, tensors = found
    known = {"schema": encoder.schema_.to_dict(), "encoder": _encoder_content(encoder)}
    return {"layers": layers, "kind": getattr(classifier, "trained_as", None), **known}, tensors


def _restored_network(content: Any, tensors: Mapping[str, NDArray[Any]]) -> Classifier:
    if content is None:
        problem = "was fitted to your own model, which is not saved with it"
        raise ClassifierError("", [Fault("this explainer", problem, "Pass it: FCx.load(folder, classifier=...).")])
    from ..classifier import torch_modules
    from .networks import rebuilt

    encoder = _restored_encoder(Schema.from_dict(content["schema"]), content["encoder"])
    module = rebuilt(content["layers"], tensors, "classifier")
    made = torch_modules.classifier(module, AdapterOptions(encoder.schema_, encoder, output="logits"))
    made.trained_as = str(content["kind"])
    return made


def _check_answers(task: Task, probes: pd.DataFrame, known: NDArray[np.float64], threshold: Any) -> None:
    found = task.classifier.probabilities(probes)
    if found.shape != known.shape:
        raise FormatError("the saved answers of the classifier have another shape than its answers")
    # Outputs of a regressor may be large.
    far = np.abs(found - known).max(axis=1) > TOLERANCE * max(1.0, float(np.abs(known).max()))
    if far.any() or task.classifier.threshold != threshold:
        problem = f"differs from the one that this was fitted to, on {int(far.sum())} of {len(probes)} rows"
        remedy = (
            "Pass the original, or fit again. In Python, FCx.load(..., any_classifier=True) accepts this one anyway."
        )
        raise ClassifierError("", [Fault("classifier", problem, remedy)])
