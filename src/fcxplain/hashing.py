"""Hashes: fingerprints of any data, keys of integer rows, and random numbers that depend on a key alone."""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Whether this is a torch tensor; does not load torch to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def fingerprint(*parts: object) -> str:
    """The sha256, in hexadecimal, of None, text, bytes, numbers, arrays, tensors, and lists and mappings of them.

    The order of a mapping's keys does not matter; a list equals a tuple, and a tensor an array of the same numbers.
    Types and shapes do matter: 1, 1.0 and True differ, and so do float32 and float64. Numbers are compared to the bit,
    so round values that another machine may compute slightly differently.
    """
    return _digest(parts).hex()


def _digest(part: object) -> bytes:
    """The hash of a tag and its content. Nested parts enter by their digests, which all have the same length."""
    if isinstance(part, Mapping):
        return _hash(b"mapping", b"".join(sorted(_digest(key) + _digest(value) for key, value in part.items())))
    if isinstance(part, (list, tuple)):
        return _hash(b"list", b"".join(map(_digest, part)))
    if is_tensor(part):
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
    raise TypeError(
        f"cannot fingerprint a {type(part).__name__}: give text, numbers, arrays, lists or mappings of them"
    )


def _array(array: np.ndarray) -> bytes:
    if array.dtype.kind not in "biufc":
        raise TypeError(f"cannot fingerprint an array of {array.dtype}: give a list of its values")
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
    return _hash(f"array {plain.dtype.str} {array.shape}".encode(), plain.tobytes())


def _hash(tag: bytes, content: bytes) -> bytes:
    return hashlib.sha256(tag + b"\0" + content).digest()


# The largest key that fits in an int64.
LARGEST = 2**62


def distinct(codes: Codes) -> tuple[Codes, Codes]:
    """The first position of each distinct row of codes, and for each row which of these it equals."""
    key, size = np.zeros(len(codes), dtype=np.int64), 1
    for column in codes.T:
        low = int(column.min(initial=0))
        part, values = column - low, int(column.max(initial=0)) - low + 1
        if size * values >= LARGEST:
            # Renumbered, neither has more values than there are rows.
            (_, key), (_, part) = (np.unique(a, return_inverse=True) for a in (key, part))
            size = values = len(codes)
        key, size = key * values + part, size * values
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return np.asarray(first), np.asarray(inverse).reshape(-1)


Keys = NDArray[np.uint64]
# SplitMix64 (Steele, Lea and Flood 2014): an odd step, and the constants that mix the bits of each number.
STEP = np.uint64(0x9E3779B97F4A7C15)
MIXING = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


def keys_of(codes: Codes, wanted: Codes, seed: int) -> Keys:
    """A key for each row, from its codes, its target and the seed alone."""
    return _folded(seed, (column.astype(np.uint64) * STEP for column in (wanted, *codes.T)), len(codes))


def derived(keys: Keys, numbers: Codes | int) -> Keys:
    """A separate key for each number of a key."""
    return _mixed(keys + (np.atleast_1d(numbers).astype(np.uint64) + np.uint64(1)) * STEP)


def uniform(keys: Keys, numbers: Codes | int) -> Floats:
    """A number in [0, 1) for each key; `numbers` distinguish those of the same key."""
    return np.asarray((derived(keys, numbers) >> np.uint64(11)) * 2.0**-53)


def row_noise(codes: Codes, count: int, seed: int, draw: int = 0) -> Floats:
    """`n x count` standard normal values for rows of codes, `n x features`; equal rows get equal noise."""
    from scipy.special import ndtri

    first, second = _mixed(np.array([seed % 2**64, (draw + int(STEP)) % 2**64], dtype=np.uint64)).tolist()
    keys = _folded(first ^ second, (column.astype(np.uint64) + STEP for column in codes.T), len(codes))
    return np.asarray(ndtri(uniform(keys[:, None], np.arange(count)) + 2.0**-54))


def _folded(start: int, columns: Iterable[Keys], rows: int) -> Keys:
    """The key of each row: its columns mixed into a start value, one after the other."""
    key = np.full(rows, start, dtype=np.uint64)
    for column in columns:
        key = _mixed(key + column)
    return key


def _mixed(bits: Keys) -> Keys:
    for shift, factor in MIXING:
        bits = (bits ^ (bits >> np.uint64(shift))) * factor
    return np.asarray(bits ^ (bits >> np.uint64(31)))
