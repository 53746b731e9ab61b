"""Settings as text, `name=value`, parsed by the types of an explainer's parameters: the values of `fit --set`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints

from .errors import DataError, Fault, did_you_mean

WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: "none"}


class HasParams(Protocol):
    """An object with parameters like a scikit-learn estimator."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters."""


def read_settings(pairs: Iterable[str], fcx: HasParams) -> dict[str, Any]:
    """Parse settings by the explainer's types; every mistake is reported at once.

    Examples
    --------
    >>> fcx = FCx()
    >>> fcx.set_params(**read_settings(["architecture__latent=5", "architecture__hidden=[20, 16]"], fcx))
    """
    kinds, found, faults = _kinds(fcx), dict[str, Any](), list[Fault]()
    for pair in pairs:
        name, equals, text = (part.strip() for part in pair.partition("="))
        place = f"setting {pair}"
        if not equals:
            faults.append(Fault(place, "has no =", "Write name=value, e.g. architecture__latent=5."))
        elif name not in kinds:
            faults.append(Fault(place, f"no setting {name!r}", _nearest(name, kinds)))
        elif not _fits(_read(text), kinds[name]):
            faults.append(Fault(place, f"{text!r} is not {_worded(kinds[name])}"))
        else:
            found[name] = _settled(_read(text), kinds[name])
    if faults:
        raise DataError("these settings cannot be used", faults)
    return found


def _kinds(fcx: HasParams) -> dict[str, Any]:
    """The type of each setting: those of the explainer, and those of its parts."""
    top, found = get_type_hints(type(fcx).__init__), dict[str, Any]()
    for name, value in fcx.get_params(deep=False).items():
        parts = get_type_hints(type(value)) if is_dataclass(value) else None
        found |= {name: top[name]} if parts is None else {f"{name}__{part}": kind for part, kind in parts.items()}
    return found


def _nearest(name: str, kinds: Mapping[str, Any]) -> str:
    """A hint at the intended name, whether its part is misspelt or missing."""
    meant = [k for k in kinds if k == name or k.rpartition("__")[2] == name or k.startswith(f"{name}__")]
    return f"There is {', '.join(meant)}." if meant else did_you_mean(name, kinds)


def _read(text: str) -> Any:
    """The text parsed as JSON, or else as it is."""
    try:
        return json.loads({"None": "null", "none": "null", "True": "true", "False": "false"}.get(text, text))
    except ValueError:
        return text


def _fits(value: Any, kind: Any) -> bool:
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in options
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in options)
    if origin is tuple:
        return isinstance(value, list) and all(_fits(item, options[0]) for item in value)
    # A bool does not count as a number, so the type must match exactly.
    return type(value) is kind or (kind is float and type(value) is int)


def _settled(value: Any, kind: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return float(value) if kind is float else value


def _worded(kind: Any) -> str:
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(map(str, options))}"
    if origin in (Union, UnionType):
        return " or ".join(_worded(option) for option in options)
    return "a list such as [20, 16]" if origin is tuple else WORDS.get(kind, str(kind))
