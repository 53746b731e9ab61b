"""A user's classifier by its name: an ONNX file, or `module:attribute` of the user's Python code."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from ..errors import ClassifierError, Fault, did_you_mean
from .training import KINDS

OWN_CLASSIFIER = "For your own model pass a file (model.onnx), or module:attribute of your own Python code."


def is_onnx(name: str) -> bool:
    """Whether this is the name of an ONNX file."""
    return Path(name).suffix.lower() == ".onnx"


def named_classifier(name: str) -> Any:
    """The path of an ONNX file, or what `module:attribute` names; `Task` takes either.

    Naming a module runs it: name your own code only.
    """
    path = Path(name)
    if is_onnx(name):
        return path
    if path.is_file():
        remedy = "Only ONNX files are read. Load it in your own module, and pass module:attribute."
        raise ClassifierError("", [Fault(f"classifier {name!r}", "is not an ONNX file", remedy)])
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        known = did_you_mean(name, KINDS) or f"There are {', '.join(KINDS)}."
        raise ClassifierError("", [Fault(f"classifier {name!r}", "is not known", f"{known} {OWN_CLASSIFIER}")])
    return _imported(module, attribute)


def _imported(module: str, attribute: str) -> Any:
    """The attribute of a user's module; modules in the current folder are found too."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    place = f"classifier {module}:{attribute}"
    try:
        found: Any = importlib.import_module(module)
    # A module is the user's own code: its errors are reported as they are.
    except Exception as error:
        problem = f"the module {module!r} cannot be imported ({type(error).__name__}: {error})"
        remedy = "It must be in the current folder or installed."
        raise ClassifierError("", [Fault(place, problem, remedy)]) from error
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise ClassifierError("", [Fault(place, f"there is no {name!r} in it", did_you_mean(name, dir(found)))])
        found = getattr(found, name)
    return found
