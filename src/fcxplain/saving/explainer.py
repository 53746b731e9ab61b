"""Write a fitted explainer to a folder and read it back. Nothing that is read is executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..causal import CausalGraph
from ..classifier import KINDS, train_classifier
from ..classifier.named import OWN_CLASSIFIER, is_onnx, named_classifier
from ..datasets.source import Source
from ..errors import ClassifierError, Fault, FcxError, FormatError
from ..generator.settings import Architecture, LossWeights, TermSettings
from ..schema import Schema
from ..task import Task
from ..training_loop import History, Schedule
from . import Saved, read, write
from .manifest import Numbers
from .task import restored_task, task_content

if TYPE_CHECKING:
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
    "generator",
    *PARTS,
    "hard",
    "significance",
    "n_effective",
    "search",
    "prefer",
    "oracle",
    "seed",
    "device",
)


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
    settings = content["settings"]
    parts = {name: part(**_tuples(settings[name])) for name, part in PARTS.items()}
    params = {name: parts[name] if name in PARTS else settings[name] for name in PARAMETERS}
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
