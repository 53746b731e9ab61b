"""Classifiers of one's own, and saved models with the classifier and the data that they were fitted to."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from ..classifier import KINDS, train_classifier
from ..datasets import Dataset
from ..errors import ClassifierError, DataError, Fault, FcxWarning, FormatError, did_you_mean, some
from ..explainer import FCx
from ..saving import read
from ..saving.container import is_there
from ..saving.explainer import KIND, read_schema
from ..saving.manifest import MANIFEST
from ..schema import Schema
from .sources import Source, is_onnx, sha256_of

OWN = "For a model of your own pass a file (model.onnx), or module:attribute of your own Python code."


def own_unless_trained(name: str) -> Any:
    """A classifier of one's own: an ONNX file or module:attribute. None for one that is to be trained (paper, ...)."""
    return None if name in KINDS else own_classifier(name)


def own_classifier(name: str) -> Any:
    """The path of an ONNX file, or what module:attribute names."""
    path = Path(name)
    if is_onnx(name):
        return path
    if path.is_file():
        remedy = "Only ONNX files are read. Load it in a module of yours, and pass module:attribute."
        raise ClassifierError("", [Fault(f"classifier {name!r}", "is no ONNX file", remedy)])
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        known = did_you_mean(name, KINDS) or f"There are {', '.join(KINDS)}."
        raise ClassifierError("", [Fault(f"classifier {name!r}", "is not known", f"{known} {OWN}")])
    return _imported(module, attribute)


def _imported(module: str, attribute: str) -> Any:
    """What a module of the user's names; modules in the current folder are found too."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    place = f"classifier {module}:{attribute}"
    try:
        found: Any = importlib.import_module(module)
    # A module is the user's own code: whatever it raises is told as it is.
    except Exception as error:
        problem = f"the module {module!r} cannot be imported ({type(error).__name__}: {error})"
        remedy = "It is looked for in the current folder and among the installed ones."
        raise ClassifierError("", [Fault(place, problem, remedy)]) from error
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise ClassifierError("", [Fault(place, f"there is no {name!r} in it", did_you_mean(name, dir(found)))])
        found = getattr(found, name)
    return found


def load_model(folder: Path, classifier: str | None = None, *, any_classifier: bool = False) -> FCx:
    """A saved model, with the classifier named, saved or remembered.

    With `any_classifier`, one that answers otherwise than the one fitted to will do.

    Code is imported only when a person names it, never because a model's folder does.
    """
    check_model(folder)
    if classifier is not None:
        return FCx.load(folder, classifier=_again(classifier, folder), any_classifier=any_classifier)
    try:
        return FCx.load(folder)
    except ClassifierError as error:
        source = remembered(folder)
        name = "" if source is None else source.classifier
        if name in KINDS or is_onnx(name):
            return FCx.load(folder, classifier=_again(name, folder), any_classifier=any_classifier)
        remedy = f"Pass it: --classifier {name or 'model.onnx, or module:attribute'}."
        problem = "was fitted to a classifier of your own, which is not saved with it"
        raise ClassifierError("", [Fault(str(folder), problem, remedy)]) from error


def check_model(folder: Path) -> None:
    """Refuse a folder that is not there, with the one that may be meant."""
    if os.path.lexists(folder) or is_there(folder):
        return
    there = sorted(f.parent.name for f in folder.parent.glob(f"*/{MANIFEST}"))
    listing = f"The models here are {some(there)}." if there else "`fcxplain fit --out NAME` makes one."
    remedy = f"{did_you_mean(folder.name, there)} {listing}".strip()
    raise FormatError("", [Fault(f"model {folder}", "there is no such folder", remedy)])


def _again(name: str, folder: Path) -> Any:
    """A classifier for a saved model: one's own, or one that is trained again as it was."""
    if name not in KINDS:
        return own_classifier(name)
    source = remembered(folder)
    if source is None:
        problem = "cannot be trained again, since this model does not say what it was fitted on"
        raise ClassifierError("", [Fault(f"classifier {name!r}", problem, OWN)])
    return train_classifier(source.load(schema=read_schema(folder)), name, source.seed)


def remembered(folder: Path) -> Source | None:
    """What a saved model was fitted on, if it says."""
    return Source.remembered(read(folder, KIND).content.get("source"))


def own_data(folder: Path, schema: Schema | None = None) -> Dataset:
    """The data that a saved model was fitted on, loaded again."""
    source = remembered(folder)
    if source is None:
        remedy = "Pass rows of your own, or fit it again with `fcxplain fit`."
        raise DataError("", [Fault(str(folder), "does not say what it was fitted on", remedy)])
    if not source.is_built_in and sha256_of(source.data) != source.sha256:
        if not Path(source.data).is_file():
            problem = f"was fitted on {source.data}, which is not there any more"
            raise DataError("", [Fault(str(folder), problem, "Bring it back, or pass rows of your own.")])
        changed = f"{source.data} has changed since the model was fitted; its test part may hold training rows"
        warnings.warn(changed, FcxWarning, stacklevel=2)
    return source.load(schema=schema)
