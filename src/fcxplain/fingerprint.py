"""One short text for any data: equal data, equal text; a changed bit anywhere, another text."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping

import numpy as np
from torch import Tensor


def fingerprint(*parts: object) -> str:
    """The sha256, in hexadecimal, of None, text, bytes, numbers, arrays, tensors, and lists and mappings of them.

    The order of a mapping's keys does not matter; a list and a tuple are the same, and so are a tensor and an array
    of the same numbers. Types do matter: 1, 1.0 and True differ, and so do float32 and float64, or shapes. Numbers
    count to the bit, so round what another machine may compute a little differently.
    """
    return _digest(parts).hex()


def _digest(part: object) -> bytes:
    """A hash of a tag and all that follows it. The parts of a whole go in by their digests, which have one length."""
    if isinstance(part, Mapping):
        return _hash(b"mapping", b"".join(sorted(_digest(key) + _digest(value) for key, value in part.items())))
    if isinstance(part, (list, tuple)):
        return _hash(b"list", b"".join(map(_digest, part)))
    if isinstance(part, Tensor):
        return _array(part.numpy(force=True))
    if isinstance(part, (np.ndarray, np.generic)) and not isinstance(part, (float, str, bytes)):
        return _array(np.asarray(part))
    return _scalar(part)


def _scalar(part: object) -> bytes:
    if part is None or isinstance(part, bool):
        return _hash(b"constant", str(part).encode())
    if isinstance(part, int):
        return _hash(b"int", hex(part).encode())
    if isinstance(part, float):
        return _hash(b"float", struct.pack("<d", part))
    if isinstance(part, str):
        return _hash(b"text", part.encode("utf-8", "surrogatepass"))
    if isinstance(part, bytes):
        return _hash(b"bytes", part)
    raise TypeError(f"no fingerprint of a {type(part).__name__}: give text, numbers, arrays, lists or mappings of them")


def _array(array: np.ndarray) -> bytes:
    if array.dtype.kind not in "biufc":
        raise TypeError(f"no fingerprint of an array of {array.dtype}: give a list of its values")
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
    return _hash(f"array {plain.dtype.str} {array.shape}".encode(), plain.tobytes())


def _hash(tag: bytes, content: bytes) -> bytes:
    return hashlib.sha256(tag + b"\0" + content).digest()
