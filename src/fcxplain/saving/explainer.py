"""Write a fitted explainer to a folder and read it back: its task (with some training rows, and the model if it is one
of our networks), its settings and what it learnt. Nothing that is read is executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..causal import CausalGraph
from ..classifier import KINDS, Classifier, train_classifier
from ..classifier.named import OWN_CLASSIFIER, is_onnx, named_classifier
from ..classifier.protocol import AdapterOptions
from ..datasets.source import Source
from ..encoding import TableEncoder
from ..errors import ClassifierError, Fault, FcxError, FormatError
from ..generator.settings import Architecture, LossWeights, TermSettings
from ..outcome import Outcome
from ..schema import Schema
from ..task import Task
from ..training_loop import History, Schedule
from .container import Saved, read, write
from .manifest import Numbers

if TYPE_CHECKING:
    from torch import Tensor

    from ..classifier import Differentiable
    from ..generator.cvae import ConditionalVAE

KIND = "fcx"
PARTS: dict[str, type[Any]] = {
    "architecture": Architecture,
    "loss_weights": LossWeights,
    "terms": TermSettings,
    "schedule": Schedule,
}
PARAMETERS = (
    *("generator", *PARTS, "hard", "significance", "n_effective"),
    *("search", "prefer", "oracle", "seed", "device"),
)

PROBES = 256
# Probabilities of the same model may differ by this much between machines.
TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Fitted:
    """The state of a fitted explainer: its parameters, what it learnt, and the source of its table."""

    params: Mapping[str, Any]
    task: Task
    graph: CausalGraph
    surrogate: Differentiable | None
    model: ConditionalVAE | None
    history: History
    source: Mapping[str, Any]


def settings_data(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as plain data."""
    return {**params, **{name: asdict(params[name]) for name in PARTS}}


def write_fitted(fitted: Fitted, folder: str | Path, *, overwrite: bool) -> None:
    """Write everything to a folder, completely or not at all."""
    task, tensors = task_content(fitted.task)
    layers: dict[str, Any] | None = None
    weights: dict[str, Numbers] = {}
    if fitted.surrogate is not None and fitted.model is not None:
        from .networks import generator_content

        layers, learnt = generator_content(fitted.surrogate, fitted.model)
        weights |= learnt
    content = {
        "settings": settings_data(fitted.params),
        "task": task,
        "graph": fitted.graph.to_dict(),
        "history": fitted.history.to_list(),
        "stand_in": layers,
        "source": dict(fitted.source),
    }
    write(folder, KIND, content, tensors | weights, overwrite=overwrite)


def read_fitted(folder: str | Path, classifier: Any, *, any_classifier: bool) -> Fitted:
    """Read what `write_fitted` wrote; any alteration is a `FormatError`.

    A classifier may be a name: one for `named_classifier`, or a kind that is trained again on the data recorded in the
    folder. By default it is the saved one, or else the kind or file recorded in the folder. Code is imported only when
    a person names it, never because a folder does.
    """
    saved = read(folder, KIND)
    source = Source.remembered(saved.content.get("source"))
    with _describing(folder):
        schema, network = Schema.from_dict(saved.content["task"]["schema"]), saved.content["task"]["network"]
    if classifier is None and network is None and source is not None:
        classifier = source.classifier
        if classifier not in KINDS and not is_onnx(classifier):
            problem = "was fitted to your own classifier, which is not saved with it"
            raise ClassifierError("", [Fault(str(folder), problem, f"Pass it: classifier={classifier!r}.")])
    if isinstance(classifier, str):
        classifier = _named(classifier, source, schema)
    with _describing(folder):
        return _restored(saved, classifier, any_classifier)


def _named(name: str, source: Source | None, schema: Schema) -> Any:
    """A classifier by name: the user's own, or one that is trained again."""
    if name not in KINDS:
        return named_classifier(name)
    if source is None:
        problem = "cannot be trained again, since this model does not record its data"
        raise ClassifierError("", [Fault(f"classifier {name!r}", problem, OWN_CLASSIFIER)])
    return train_classifier(source.load(schema=schema), name, source.seed)


@contextmanager
def _describing(folder: str | Path) -> Iterator[None]:
    """Name the folder in errors about its content."""
    try:
        yield
    except (ClassifierError, FormatError) as error:
        raise type(error)(f"{folder}: {error}") from error
    except (FcxError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        # The checksum holds, so someone wrote a manifest that fcxplain never writes.
        problem = f"{folder}: the manifest does not describe an explainer ({type(error).__name__}: {error})"
        raise FormatError(f"{problem}. Save the model again.") from error


def _restored(saved: Saved, classifier: Any, any_classifier: bool) -> Fitted:
    content, tensors = saved.content, saved.tensors
    parts = {name: part(**_tuples(content["settings"][name])) for name, part in PARTS.items()}
    params = {name: content["settings"][name] for name in PARAMETERS} | parts
    graph = CausalGraph.from_dict(content["graph"])
    task = restored_task(content["task"], tensors, classifier, graph, any_classifier=any_classifier)
    history, source = History.from_list(content["history"]), dict(content["source"])
    # For some regressors no generator is trained.
    if params["generator"] is False or (not task.classes and content["stand_in"] is None):
        return Fitted(params, task, graph, None, None, history, source)
    from .networks import restored_model, restored_surrogate

    surrogate = restored_surrogate(content["stand_in"], tensors, task)
    model = restored_model(tensors, task, params["architecture"], params["seed"])
    return Fitted(params, task, graph, surrogate, model, history, source)


def _tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with tuples that JSON turned into lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


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
        target_probability=content["target_probability"],
        classes=content["classes"] or None,
        # A model that decides by its own predict must not get a threshold that was read from it.
        threshold=None if content["by_predict"] else content["threshold"],
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
        "dtypes": {
            name: {"categories": dtype.categories.tolist(), "ordered": bool(dtype.ordered)}
            if isinstance(dtype, pd.CategoricalDtype)
            else str(dtype)
            for name, dtype in encoder.dtypes_.items()
        },
    }


def _restored_encoder(schema: Schema, content: Mapping[str, Any]) -> TableEncoder:
    scale = {name: (float(low), float(spread)) for name, (low, spread) in content["scale"].items()}
    units = {name: float(unit) for name, unit in content["units"].items()}
    if set(scale) != set(schema.numbers) or set(units) != set(schema.numbers):
        raise FormatError("the encoder has ranges or units for numbers that are not in the schema")
    if not all(spread > 0 for _, spread in scale.values()) or not all(unit > 0 for unit in units.values()):
        raise FormatError("the encoder has a range or a unit that is not above 0")
    dtypes = {name: _restored_dtype(content["dtypes"][name]) for name in schema.names}
    usual = content["usual"]
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
