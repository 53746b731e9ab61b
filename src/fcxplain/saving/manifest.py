"""The manifest of a saved folder, and named tensors as the bytes of a safetensors file."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from .. import __version__
from ..errors import Fault, FormatError, some
from ..hashing import is_tensor

if TYPE_CHECKING:
    from torch import Tensor

Numbers: TypeAlias = "Tensor | NDArray[Any]"
Kind = TypeVar("Kind")
# Raise it when an older version would misread what is written now. A higher number is refused with the advice to
# upgrade; `check` then has to say how lower ones are read.
FORMAT = 1
MANIFEST, WEIGHTS = "manifest.json", "weights.safetensors"
LARGEST = 64 * 2**20
"""The maximum size of a manifest in bytes: plain data is small, and parsing needs several times its size in memory."""

AGAIN = "Restore the folder from a copy, or save it again."
_KEYS = {"format": int, "kind": str, "fcxplain": str, "torch": str, "files": dict, "content": dict, "sha256": str}
_FILE_KEYS = {"sha256": str, "bytes": int}
_WORDS = {int: "a whole number", str: "text", dict: "an object"}


def refusal(path: Path, problem: str, remedy: str = AGAIN) -> FormatError:
    """An error about one file or folder, to raise."""
    return FormatError("", [Fault(str(path), problem, remedy)])


def compose(kind: str, content: Mapping[str, Any], weights: bytes) -> bytes:
    """The bytes of a manifest, one key per line. `content` must have no `faults_in` it."""
    parts = {
        "format": FORMAT,
        "kind": kind,
        "fcxplain": __version__,
        "torch": version("torch"),
        "files": {WEIGHTS: {"sha256": hashlib.sha256(weights).hexdigest(), "bytes": len(weights)}},
        "content": content,
    }
    parts["sha256"] = _seal(parts)
    return ("{\n" + ",\n".join(f"{_canonical(k)}: {_canonical(v)}" for k, v in parts.items()) + "\n}\n").encode()


def faults_in(value: object, place: str) -> Iterator[Fault]:
    """Values that JSON would not restore; tuples are accepted and become lists."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                yield Fault(place, f"the key {some([key])} is not text", "Keys of JSON objects are text.")
            yield from faults_in(item, f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from faults_in(item, f"{place}[{index}]")
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield Fault(place, f"{value} cannot be written as JSON", "Use another form, e.g. null.")
    elif value is not None and not isinstance(value, (bool, int, str)):
        yield Fault(
            place, f"{type(value).__name__} cannot be written as JSON", "Give plain numbers, text, lists and dicts."
        )


def parse(data: bytes, path: Path) -> dict[str, Any]:
    """The manifest as plain data, of any format; refused unless fcxplain wrote it."""
    try:
        found = json.loads(
            data.decode("utf-8"), object_pairs_hook=_without_twins, parse_constant=_no_constant, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise refusal(path, f"is not valid JSON ({error})") from error
    if not isinstance(found, dict) or not isinstance(found.get("fcxplain"), str) or "format" not in found:
        raise refusal(path, "was not written by fcxplain", "Give a folder that fcxplain saved.")
    return found


def check(found: dict[str, Any], path: Path, kind: str) -> None:
    """Check a parsed manifest: the right kind, nothing missing, added or changed since it was written."""
    _check_format(found["format"], path)
    faults = _wrong_keys(found, _KEYS, str(path))
    if not faults:
        faults = [*_file_faults(found["files"], str(path)), *_seal_faults(found, path)]
    if faults:
        raise FormatError("the saved folder is damaged", faults)
    if found["kind"] != kind:
        raise refusal(path, f"is a saved {some([found['kind']])}, not a {kind!r}", f"Give the folder of a {kind}.")


def _check_format(number: object, path: Path) -> None:
    if type(number) is not int or number < 1:
        raise refusal(path, f"has an unknown format, {some([number])}")
    if number > FORMAT:
        problem = f"was written by a newer fcxplain (format {some([number])}, this one reads {FORMAT})"
        raise refusal(path, problem, "Upgrade fcxplain.")


def _wrong_keys(found: Mapping[str, Any], wanted: Mapping[str, type], place: str) -> list[Fault]:
    faults = [Fault(place, f"has no {key!r}", AGAIN) for key in wanted if key not in found]
    unknown = [key for key in found if key not in wanted]
    faults += [Fault(place, f"has unknown keys: {some(unknown)}", AGAIN)] if unknown else []
    for key, kind in wanted.items():
        # A bool does not count as a number, so the type must match exactly.
        if key in found and type(found[key]) is not kind:
            faults.append(Fault(place, f"{key!r} must be {_WORDS[kind]}, not {some([found[key]])}", AGAIN))
    return faults


def _file_faults(files: Mapping[str, Any], place: str) -> list[Fault]:
    """Only one file name is accepted, so no name can lead out of the folder."""
    others = [name for name in files if name != WEIGHTS]
    faults = [Fault(place, f"names files other than {WEIGHTS!r}: {some(others)}", AGAIN)] if others else []
    entry = files.get(WEIGHTS)
    if not isinstance(entry, dict):
        return [*faults, Fault(place, f"does not describe {WEIGHTS!r}", AGAIN)]
    return faults + _wrong_keys(entry, _FILE_KEYS, f"{place}, {WEIGHTS!r}")


def _seal_faults(found: Mapping[str, Any], path: Path) -> list[Fault]:
    try:
        seal = _seal({key: value for key, value in found.items() if key != "sha256"})
    except (ValueError, RecursionError) as error:
        return [Fault(str(path), f"is nested too deeply to check ({error})", AGAIN)]
    return [] if seal == found["sha256"] else [Fault(str(path), "was changed after it was written", AGAIN)]


def _seal(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(parts).encode()).hexdigest()


def _canonical(value: object) -> str:
    """The same text for equal data: no spaces, ASCII, floats with enough digits to restore them exactly.

    Keys keep their order, which may matter, e.g. that of a table's columns.
    """
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"duplicate keys: {some(k for k in found if keys.count(k) > 1)}")
    return found


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"the number {some([text])} is too large")
    return value


DTYPES = tuple(map(np.dtype, ("float32", "float64", "int64", "int32", "uint8", "bool")))
# Reserved by safetensors: a tensor with this name could not be read again.
RESERVED = "__metadata__"


def pack(tensors: Mapping[str, Numbers]) -> bytes:
    """The bytes of a safetensors file. Tensors must have no `tensor_faults`; views and shared memory are copied."""
    return save({name: np.array(_array(tensor), order="C") for name, tensor in tensors.items()})


def unpack(data: bytes, path: Path, non_finite: Collection[str]) -> dict[str, NDArray[Any]]:
    """The tensors in these bytes, read from `path`. No memory is allocated on the word of a header."""
    try:
        # Sorted, since safetensors returns them in any order. Copied, since they are read-only.
        tensors = {name: array.copy() for name, array in sorted(load(data).items())}
    # Besides its own error, safetensors passes on numpy's errors about unknown types and shapes.
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, MemoryError) as error:
        reason = str(error).partition("\n")[0]
        raise refusal(path, f"is not a valid safetensors file ({reason})") from error
    if faults := list(tensor_faults(tensors, non_finite)):
        raise FormatError(str(path), faults)
    return tensors


def tensor_faults(tensors: Mapping[str, Numbers], non_finite: Collection[str]) -> Iterator[Fault]:
    """Tensors that cannot be saved: other dtypes, and inf or NaN in tensors not named in `non_finite`."""
    for name, tensor in tensors.items():
        place = f"tensor {name!r}"
        if name == RESERVED:
            yield Fault(place, "is a reserved name", "Give the tensor another name.")
        if str(tensor.dtype).removeprefix("torch.") not in map(str, DTYPES):
            yield Fault(place, f"has dtype {tensor.dtype}", f"Supported: {', '.join(map(str, DTYPES))}.")
            continue
        array = _array(tensor)
        if array.dtype.kind == "f" and name not in non_finite and not np.isfinite(array).all():
            yield Fault(place, "has values that are not finite", AGAIN)
        elif array.dtype == bool and (np.ascontiguousarray(array).view(np.uint8) > 1).any():
            yield Fault(place, "has values that are neither true nor false", AGAIN)


def _array(tensor: Numbers) -> NDArray[Any]:
    return tensor.numpy(force=True) if is_tensor(tensor) else np.asarray(tensor)


def below(tensors: Mapping[str, Kind], prefix: str) -> dict[str, Kind]:
    """The tensors whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
