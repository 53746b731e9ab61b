"""Checkpoints of training: a saved folder of the kind "checkpoint", from which an interrupted run resumes.

A resumed run ends exactly like an uninterrupted one. A checkpoint holds the identity of its run, a fingerprint of
everything that the run depends on, and is never mixed with another run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import Fault, FormatError, some
from ..generator.training import Callback, Training
from ..training_loop import ADAM
from .container import Saved, check_target, is_there, read, write

KIND = "checkpoint"
_ANEW = "Remove this checkpoint to start again."


class Checkpoint(Callback):
    """Saves the state of a training after every epoch.

    Another run's checkpoint in the same folder is refused before training begins. A checkpoint of the same run is
    replaced: call `resume` first to continue from it.
    """

    def __init__(self, folder: str | Path, *, identity: str) -> None:
        self.folder, self.identity = Path(folder), identity

    def on_train_begin(self, training: Training) -> None:
        """Refuse a folder that cannot be used before the first epoch, not after it."""
        check_target(self.folder, KIND, overwrite=True)
        if is_there(self.folder):
            _read(training, self.folder, self.identity)

    def on_epoch_end(self, training: Training) -> None:
        """Save."""
        content, tensors = _flat(training.state())
        content = {"identity": self.identity, **content}
        write(self.folder, KIND, content, tensors, overwrite=True, non_finite=tensors)


def resume(training: Training, folder: str | Path, identity: str) -> bool:
    """Restore a fresh training from its checkpoint. Returns False if there is none.

    Raises a `FormatError` if the checkpoint is damaged, belongs to another run, or does not fit the training, which is
    then unchanged.
    """
    if not is_there(folder):
        return False
    saved = _read(training, Path(folder), identity)
    tensors = {name: torch.from_numpy(array) for name, array in saved.tensors.items()}
    faults = [*_content_faults(saved.content, training), *_tensor_faults(tensors, training)]
    if faults:
        raise FormatError(f"the checkpoint {folder} does not fit this training", faults)
    training.restore(_state(saved.content, tensors, training))
    return True


def _read(training: Training, folder: Path, identity: str) -> Saved:
    try:
        # A run resumes with the numbers it had, even infinite ones; it is up to the run to reject them.
        saved = read(folder, KIND, non_finite=_expected(training))
    except FormatError as error:
        remedy = "choose another folder, or remove it to train from the start"
        raise FormatError(f"no training can resume from {folder}: {remedy}", error.faults) from error
    if saved.content.get("identity") != identity:
        problem = "belongs to another fit, with other settings, rows, rules or classifier"
        raise FormatError("", [Fault(str(folder), problem, "Choose another folder, or remove it to start again.")])
    return saved


def _flat(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A training's state as plain data and named tensors."""
    tensors = {"generator": state["generator"]}
    tensors |= {f"model.{name}": tensor for name, tensor in state["model"].items()}
    tensors |= {f"best.{name}": tensor for name, tensor in state["best_weights"].items()}
    for index, moments in state["optimiser"]["state"].items():
        tensors |= {f"optimiser.{index}.{key}": moments[key] for key in moments}
    content = {
        "best_loss": _written(state["best_loss"]),
        "waited": state["waited"],
        "history": _written(state["history"]),
        "optimiser": state["optimiser"]["param_groups"],
    }
    return content, tensors


def _state(content: Mapping[str, Any], tensors: Mapping[str, Tensor], training: Training) -> dict[str, Any]:
    """The inverse of `_flat`."""
    indices = sorted({int(name.split(".")[1]) for name in tensors if name.startswith("optimiser.")})
    moments = {index: {key: tensors[f"optimiser.{index}.{key}"] for key in ADAM} for index in indices}
    return {
        "model": {name: tensors[f"model.{name}"] for name in training.model.state_dict()},
        "best_weights": {name: tensors[f"best.{name}"] for name in training.model.state_dict()},
        "optimiser": {"state": moments, "param_groups": _groups(content["optimiser"], training)},
        "generator": tensors["generator"],
        "best_loss": float(content["best_loss"]),
        "waited": content["waited"],
        "history": [
            {"number": line["number"]}
            | {part: {term: float(v) for term, v in line[part].items()} for part in ("train", "validation")}
            for line in content["history"]
        ],
    }


def _groups(saved: list[dict[str, Any]], training: Training) -> list[dict[str, Any]]:
    """Settings of the optimiser, with tuples that JSON turned into lists."""
    fresh = training.optimiser.state_dict()["param_groups"]
    return [
        {k: type(like[k])(v) if isinstance(v, list) else v for k, v in group.items()}
        for group, like in zip(saved, fresh, strict=True)
    ]


def _written(value: Any) -> Any:
    """Numbers for JSON; those that are not finite as text that `float` reads."""
    if isinstance(value, dict):
        return {name: _written(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_written(inner) for inner in value]
    return value if math.isfinite(value) else str(value)


def _is_number(value: object) -> bool:
    return type(value) in (int, float) or value in ("nan", "inf", "-inf")


def _expected(training: Training) -> dict[str, Tensor]:
    """Tensors with the names, shapes and types that a checkpoint of this training may have."""
    weights = training.model.state_dict()
    expected = {"generator": training.generator.get_state()}
    expected |= {f"{part}.{name}": tensor for part in ("model", "best") for name, tensor in weights.items()}
    parameters = [parameter for group in training.optimiser.param_groups for parameter in group["params"]]
    for index, parameter in enumerate(parameters):
        expected |= {f"optimiser.{index}.{key}": torch.zeros(()) if key == "step" else parameter for key in ADAM}
    return expected


def _tensor_faults(tensors: Mapping[str, Tensor], training: Training) -> Iterator[Fault]:
    expected = _expected(training)
    if unknown := [name for name in tensors if name not in expected]:
        yield Fault("tensors", f"the model has none of these: {some(unknown)}", _ANEW)
    if missing := [name for name in expected if name not in tensors and _is_needed(name, tensors)]:
        yield Fault("tensors", f"these are missing: {some(missing)}", _ANEW)
    for name, wanted in expected.items():
        found = tensors.get(name, wanted)
        if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            ours, theirs = (f"{tuple(t.shape)} of {t.dtype}" for t in (wanted, found))
            yield Fault(f"tensor {name!r}", f"is {theirs}, the model has {ours}", _ANEW)
    if "generator" in tensors and not _is_generator(tensors["generator"], training.generator.device):
        yield Fault("tensor 'generator'", "is not the state of a random generator", _ANEW)


def _is_needed(name: str, tensors: Mapping[str, Tensor]) -> bool:
    """Adam has no state for a weight that never had a gradient; otherwise it has all of it."""
    part, _, rest = name.partition(".")
    return part != "optimiser" or any(f"optimiser.{rest.partition('.')[0]}.{key}" in tensors for key in ADAM)


def _is_generator(state: Tensor, device: torch.device) -> bool:
    try:
        torch.Generator(device).set_state(state)
    except (RuntimeError, TypeError):
        return False
    return True


def _content_faults(content: Mapping[str, Any], training: Training) -> Iterator[Fault]:
    if not _is_number(content.get("best_loss")):
        yield Fault("best_loss", f"{some([content.get('best_loss')])} is not a number", _ANEW)
    if type(content.get("waited")) is not int or content["waited"] < 0:
        yield Fault("waited", f"{some([content.get('waited')])} is not a number of epochs", _ANEW)
    history = content.get("history")
    if not isinstance(history, list) or not all(_is_epoch(line, i) for i, line in enumerate(history, start=1)):
        yield Fault("history", "is not a list of epochs with their terms", _ANEW)
    if not _alike(content.get("optimiser"), training.optimiser.state_dict()["param_groups"]):
        yield Fault("optimiser", "has other settings than this training's optimiser", _ANEW)


def _is_epoch(line: object, number: int) -> bool:
    if not isinstance(line, dict) or line.keys() != {"number", "train", "validation"}:
        return False
    if type(line["number"]) is not int or line["number"] != number:
        return False
    parts = (line["train"], line["validation"])
    return all(isinstance(part, dict) and "total" in part and all(map(_is_number, part.values())) for part in parts)


def _alike(saved: object, fresh: object) -> bool:
    """Equal, except for floats, which a schedule may have changed, and tuples, which JSON turned into lists."""
    if isinstance(fresh, dict):
        return (
            isinstance(saved, dict) and saved.keys() == fresh.keys() and all(_alike(saved[k], fresh[k]) for k in fresh)
        )
    if isinstance(fresh, (list, tuple)):
        return isinstance(saved, list) and len(saved) == len(fresh) and all(map(_alike, saved, fresh))
    return type(saved) is type(fresh) and (isinstance(fresh, float) or saved == fresh)
