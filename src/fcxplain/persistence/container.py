"""Saved things as folders: `manifest.json` and `weights.safetensors`, checked to the last bit when read.

Nothing in such a folder is ever executed. How folders are replaced and how crashes are survived is in `folder`,
what the manifest holds and how its format is numbered in `manifest`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import Fault, FormatError, did_you_mean, some
from .folder import clear, current, locate, logger, only_writer, put, stamp
from .manifest import AGAIN, LARGEST, MANIFEST, WEIGHTS, check, compose, faults_in, parse, refusal
from .weights import faults_in as tensor_faults
from .weights import pack, unpack

_ELSEWHERE = "Choose another name."
_RIGHTS = "Check the permissions and the room on the disk."
# A folder that is replaced while it is being read is read anew, but not for ever.
_ATTEMPTS = 20


@dataclass(frozen=True)
class Saved:
    """What was in a folder: plain data, tensors by name, and where it lay."""

    content: dict[str, Any]
    tensors: dict[str, Tensor]
    path: Path


def write(
    folder: str | Path,
    kind: str,
    content: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    overwrite: bool = False,
    non_finite: Collection[str] = (),
) -> None:
    """Save plain data and tensors, whole or not at all.

    `content` is made of dicts with text as keys, lists, text, whole numbers, finite floats (they come back to the
    bit), true, false and None. Tensors must be finite but for those named in `non_finite`. `overwrite` replaces a
    saved thing of the same kind; any other folder is left alone.
    """
    path = locate(folder)
    weights, manifest = _files(path, kind, content, tensors, non_finite)
    try:
        _check_parent(path.parent)
        with only_writer(path.parent) as alone:
            _check_present(path, kind, overwrite)
            if alone:
                clear(path)
            put(path, {WEIGHTS: weights, MANIFEST: manifest})
    except OSError as error:
        raise refusal(path, f"cannot be written ({error})", _RIGHTS) from error


def read(folder: str | Path, kind: str, *, non_finite: Collection[str] = ()) -> Saved:
    """What `write` saved there. `FormatError` for anything missing, added, changed, newer or of another kind."""
    path = locate(folder)
    try:
        return _steady(path, kind, non_finite)
    except OSError as error:
        raise refusal(path, f"cannot be read ({error})", "Check the permissions.") from error


def check_target(folder: str | Path, kind: str, *, overwrite: bool = False) -> None:
    """Raise now what `write` would raise about the place: for those who write only after hours of work."""
    path = locate(folder)
    try:
        _check_parent(path.parent)
        _check_present(path, kind, overwrite)
    except OSError as error:
        raise refusal(path, f"cannot be written ({error})", _RIGHTS) from error


def is_there(folder: str | Path) -> bool:
    """Whether there is anything to read; an empty folder is nothing."""
    path = locate(folder)
    try:
        source = current(path)
        return source.exists() and (not source.is_dir() or any(source.iterdir()))
    except OSError as error:
        raise refusal(path, f"cannot be read ({error})", "Check the permissions.") from error


def _files(
    path: Path, kind: str, content: Mapping[str, Any], tensors: Mapping[str, Tensor], non_finite: Collection[str]
) -> tuple[bytes, bytes]:
    """The bytes of the weights and of the manifest, or every reason why they cannot be had."""
    try:
        plain = dict(content)
        if faults := [*faults_in(plain, "content"), *tensor_faults(tensors, non_finite)]:
            raise FormatError(f"{path} cannot be written", faults)
        weights = pack(tensors)
        manifest = compose(kind, plain, weights)
    except (ValueError, RecursionError) as error:
        raise refusal(path, f"cannot be written: content is too deep or too long ({error})", "Save less.") from error
    if len(manifest) > LARGEST:
        problem = f"cannot be written: the manifest would have {len(manifest):,} bytes, {LARGEST:,} are allowed"
        raise refusal(path, problem, "Put long lists of numbers into tensors.")
    return weights, manifest


def _check_parent(parent: Path) -> None:
    if not parent.exists():
        raise refusal(parent, "does not exist", "Create this folder first.")
    if not parent.is_dir():
        raise refusal(parent, "is a file, so nothing can be saved below it", _ELSEWHERE)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise refusal(parent, "may not be written to", "Choose another folder, or change its permissions.")


def _check_present(path: Path, kind: str, overwrite: bool) -> None:
    """Refuse to replace anything but a saved thing of the same kind (or an empty folder), and that only if told."""
    source = current(path)
    if not os.path.lexists(source):
        return
    if not source.is_dir():
        raise refusal(source, "is a file, where a folder would be saved", _ELSEWHERE)
    entries = _entries(source)
    if entries:
        _check_ours(source, entries, kind)
    if not overwrite:
        raise refusal(path, "exists already", "Choose another name, or pass overwrite=True to replace it.")


def _check_ours(source: Path, entries: Mapping[str, bool], kind: str) -> None:
    remedy = "It is left as it is: choose another name, or remove it yourself if nobody needs it."
    if faults := _strangers(source, entries):
        raise FormatError(f"{source} is not overwritten", faults)
    if MANIFEST not in entries:
        raise refusal(source, "was not saved by fcxplain", remedy)
    try:
        found = parse(_contents(source / MANIFEST, LARGEST), source / MANIFEST)
    except FormatError as error:
        raise refusal(source, f"cannot be told to be ours ({error})", remedy) from error
    if found.get("kind") != kind:
        raise refusal(source, f"holds a saved {some([found.get('kind')])}, not a {kind!r}", remedy)


def _steady(path: Path, kind: str, non_finite: Collection[str]) -> Saved:
    """Read, and read anew if the folder was replaced meanwhile: its files may then come from two saves, or be gone."""
    for attempt in count(1):
        before, source = stamp(path), current(path)
        try:
            saved = _load(source, kind, non_finite)
            break
        except (FormatError, FileNotFoundError):
            if attempt == _ATTEMPTS or stamp(path) == before:
                raise
    if source != path:
        logger.warning("%s: a save was cut off or is under way; what was saved before is read from %s", path, source)
    return Saved(saved.content, saved.tensors, path)


def _load(source: Path, kind: str, non_finite: Collection[str]) -> Saved:
    if not os.path.lexists(source):
        raise refusal(source, "there is no such folder", _meant(source))
    if not source.is_dir():
        raise refusal(source, f"is a file; a saved {kind} is a folder", "Give the folder.")
    entries = _entries(source)
    if not entries.get(MANIFEST):
        raise refusal(source, f"is not a saved {kind}: it has no {MANIFEST} of its own", "Check the path.")
    place = source / MANIFEST
    manifest = check(parse(_contents(place, LARGEST), place), place, kind)
    missing = [] if WEIGHTS in entries else [Fault(str(source / WEIGHTS), "is missing", AGAIN)]
    if faults := [*_strangers(source, entries), *missing]:
        raise FormatError("the saved folder is damaged", faults)
    data = _weights(source / WEIGHTS, manifest.size, manifest.sha256)
    return Saved(manifest.content, unpack(data, source / WEIGHTS, non_finite), source)


def _meant(path: Path) -> str:
    """The saved folder beside it that is called nearly the same, if there is one."""
    there = [found.parent.name for found in path.parent.glob(f"*/{MANIFEST}")]
    return did_you_mean(path.name, there) or "Check the path."


def _weights(path: Path, size: int, sha256: str) -> bytes:
    actual = path.stat().st_size
    if actual != size:
        raise refusal(path, f"has {actual:,} bytes, the manifest says {some([size])}")
    data = _contents(path, size)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise refusal(path, "was changed after it was written (its sha256 is not that in the manifest)")
    return data


def _entries(folder: Path) -> dict[str, bool]:
    """Names in a folder, and whether each is a plain file (no link, no folder, no pipe)."""
    with os.scandir(folder) as found:
        return {entry.name: entry.is_file(follow_symlinks=False) for entry in found}


def _strangers(folder: Path, entries: Mapping[str, bool]) -> list[Fault]:
    extra = sorted(name for name in entries if name not in (MANIFEST, WEIGHTS))
    odd = [name for name in (MANIFEST, WEIGHTS) if not entries.get(name, True)]
    faults = (
        [Fault(str(folder), f"has files that do not belong there: {some(extra)}", "Move them away.")] if extra else []
    )
    return faults + [
        Fault(str(folder / name), "is not a plain file", "Links and folders are not read.") for name in odd
    ]


def _contents(path: Path, limit: int) -> bytes:
    size = path.stat().st_size
    if size > limit:
        raise refusal(path, f"has {size:,} bytes, at most {limit:,} are read")
    try:
        return path.read_bytes()
    except MemoryError as error:
        raise refusal(path, f"does not fit in memory ({size:,} bytes)", "Read it on a larger machine.") from error
