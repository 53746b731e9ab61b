"""Named tensors to and from the bytes of a safetensors file; only plain kinds of numbers, finite unless told."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ..errors import Fault, FormatError
from .manifest import AGAIN, refusal

DTYPES = (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool)
# safetensors keeps this name for itself: a tensor of that name could not be read again.
RESERVED = "__metadata__"


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a safetensors file. Tensors must be free of `faults_in`; views and shared memory are copied."""
    plain = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    return save(plain)


def unpack(data: bytes, path: Path, non_finite: Collection[str]) -> dict[str, Tensor]:
    """The tensors in these bytes, which came from the file at `path`. Nothing is allocated on a header's word."""
    try:
        # By name: safetensors gives them in any order.
        tensors = dict(sorted(load(data).items()))
    # Beside its own error, safetensors lets through what torch says to types and shapes that torch does not have.
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, MemoryError) as error:
        reason = str(error).partition("\n")[0]
        raise refusal(path, f"is not a sound safetensors file ({reason})") from error
    if faults := list(faults_in(tensors, non_finite)):
        raise FormatError(str(path), faults)
    return tensors


def faults_in(tensors: Mapping[str, Tensor], non_finite: Collection[str]) -> Iterator[Fault]:
    """What is not kept in files: other kinds of numbers, and inf or NaN in tensors not named in `non_finite`."""
    for name, tensor in tensors.items():
        place = f"tensor {name!r}"
        if name == RESERVED:
            yield Fault(place, "is a reserved name", "Give the tensor another name.")
        if tensor.dtype not in DTYPES:
            kinds = ", ".join(str(kind).removeprefix("torch.") for kind in DTYPES)
            yield Fault(place, f"is of {tensor.dtype}", f"Only these are kept: {kinds}.")
        elif tensor.is_floating_point() and name not in non_finite and not tensor.isfinite().all():
            yield Fault(place, "has values that are not finite", AGAIN)
        elif tensor.dtype == torch.bool and (tensor.view(torch.uint8) > 1).any():
            yield Fault(place, "has values that are neither true nor false", AGAIN)


def below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, by what follows it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
