"""Saved objects as folders that are replaced atomically: a manifest and weights with checksums, never code."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import secrets
import stat
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..errors import Fault, FormatError, also, did_you_mean, some
from .manifest import (
    AGAIN,
    LARGEST,
    MANIFEST,
    WEIGHTS,
    Numbers,
    check,
    compose,
    faults_in,
    pack,
    parse,
    refusal,
    tensor_faults,
    unpack,
)

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger(__name__)


def locate(folder: str | Path) -> Path:
    """The folder at a path; for a link, its target is read and replaced, not the link."""
    try:
        return Path(folder).resolve()
    # RuntimeError means a cycle of links.
    except (OSError, ValueError, RuntimeError) as error:
        raise refusal(Path(folder), f"is not a usable path ({error})", "Choose another name.") from error


def current(path: Path) -> Path:
    """The complete folder: at `path`, or set aside if a writer died between its two renames."""
    aside = _aside(path)
    return aside if not os.path.lexists(path) and (aside / MANIFEST).is_file() else path


def stamp(path: Path) -> tuple[Path, int, int] | None:
    """A value that changes when a writer replaces the folder at `path`; None if there is none.

    It includes the time, since inode numbers of removed folders are soon reused.
    """
    source = current(path)
    try:
        found = source.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return source, found.st_ino, found.st_mtime_ns


@contextmanager
def only_writer(parent: Path) -> Iterator[bool]:
    """Wait for other writers in this folder. False where locks are not supported (Windows, some network drives).

    The operating system's lock is on the folder itself: it needs no file and ends with the process.
    """
    if sys.platform == "win32":
        yield False
        return
    handle = os.open(parent, os.O_RDONLY)
    try:
        locked = False
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
            locked = True
        yield locked
    finally:
        os.close(handle)


def put(path: Path, files: Mapping[str, bytes]) -> None:
    """Make `path` a folder with exactly these files, replacing an existing folder."""
    new = path.parent / f"{_new_prefix(path)}{secrets.token_hex(4)}"
    try:
        os.mkdir(new)
        for name, data in files.items():
            with open(new / name, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        if path.exists():
            os.chmod(new, stat.S_IMODE(path.stat().st_mode))
        _sync(new)
        _swap(new, path)
    except BaseException:
        _discard(new)
        raise
    _discard(_aside(path))


def clear(path: Path) -> None:
    """Remove unfinished folders of dead writers; only while holding the lock."""
    for entry in path.parent.iterdir():
        if entry.name.startswith(_new_prefix(path)):
            _discard(entry)


def _swap(new: Path, path: Path) -> None:
    aside = _aside(path)
    if path.exists():
        _discard(aside)
        os.rename(path, aside)
    try:
        os.rename(new, path)
    except BaseException:
        if not path.exists() and aside.exists():
            os.rename(aside, path)
        raise
    # The old folder may be removed only when the new name is on disk.
    _sync(path.parent)


def _discard(folder: Path) -> None:
    """Remove a folder of ours, or its remains. A link, or a folder with other files, is kept and logged."""
    try:
        if folder.is_symlink() or not set(os.listdir(folder)) <= {MANIFEST, WEIGHTS}:
            raise FileExistsError("it holds other files")
        # Without its manifest, the rest is never mistaken for a complete folder.
        for name in (MANIFEST, WEIGHTS):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("%s: a leftover that could not be removed (%s)", folder, error.strerror or error)


def _sync(folder: Path) -> None:
    """Write the names in a folder to disk. Windows and some network drives cannot sync folders."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def _aside(path: Path) -> Path:
    return path.parent / f".{path.name}.fcxplain-old"


def _new_prefix(path: Path) -> str:
    return f".{path.name}.fcxplain-new-"


_ELSEWHERE = "Choose another name."
_RIGHTS = "Check the permissions and the free disk space."
# How often a folder that is replaced while being read is read again.
_ATTEMPTS = 20


@dataclass(frozen=True)
class Saved:
    """The content of a folder: plain data, and tensors by name (as arrays)."""

    content: dict[str, Any]
    tensors: dict[str, NDArray[Any]]


def write(
    folder: str | Path,
    kind: str,
    content: Mapping[str, Any],
    tensors: Mapping[str, Numbers],
    *,
    overwrite: bool = False,
    non_finite: Collection[str] = (),
) -> None:
    """Save plain data and tensors, completely or not at all.

    `content` consists of dicts with text keys, lists, text, integers, finite floats (restored to the bit), booleans and
    None. Tensors must be finite except for those named in `non_finite`. `overwrite` replaces a saved object of the same
    kind; any other folder is left alone.
    """
    path = locate(folder)
    weights, manifest = _files(path, kind, content, tensors, non_finite)
    with _refusing(path, "written", _RIGHTS):
        _check_parent(path.parent)
        with only_writer(path.parent) as alone:
            _check_present(path, kind, overwrite)
            if alone:
                clear(path)
            put(path, {WEIGHTS: weights, MANIFEST: manifest})


def read(folder: str | Path, kind: str, *, non_finite: Collection[str] = ()) -> Saved:
    """Read what `write` saved. A `FormatError` if anything is missing, added, changed, newer or of another kind."""
    path = locate(folder)
    with _refusing(path, "read", "Check the permissions."):
        return _steady(path, kind, non_finite)


def check_target(folder: str | Path, kind: str, *, overwrite: bool = False) -> None:
    """Raise the errors that `write` would raise about the folder, before hours of work."""
    path = locate(folder)
    with _refusing(path, "written", _RIGHTS):
        _check_parent(path.parent)
        _check_present(path, kind, overwrite)


def is_there(folder: str | Path) -> bool:
    """Whether there is anything to read; an empty folder does not count."""
    path = locate(folder)
    with _refusing(path, "read", "Check the permissions."):
        source = current(path)
        return source.exists() and (not source.is_dir() or any(source.iterdir()))


@contextmanager
def _refusing(path: Path, done: str, remedy: str) -> Iterator[None]:
    """Turn errors of the operating system into a `FormatError` that names the folder."""
    try:
        yield
    except FormatError:
        raise
    except OSError as error:
        raise refusal(path, f"cannot be {done} ({error})", remedy) from error


def _files(
    path: Path,
    kind: str,
    content: Mapping[str, Any],
    tensors: Mapping[str, Numbers],
    non_finite: Collection[str],
) -> tuple[bytes, bytes]:
    """The bytes of the weights and of the manifest. Raises every fault of the content."""
    try:
        plain = dict(content)
        if faults := [*faults_in(plain, "content"), *tensor_faults(tensors, non_finite)]:
            raise FormatError(f"{path} cannot be written", faults)
        weights = pack(tensors)
        manifest = compose(kind, plain, weights)
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise refusal(
            path, f"cannot be written: the content is nested too deeply or too long ({error})", "Save less."
        ) from error
    if len(manifest) > LARGEST:
        problem = f"cannot be written: the manifest would have {len(manifest):,} bytes, the limit is {LARGEST:,}"
        raise refusal(path, problem, "Put long lists of numbers into tensors.")
    return weights, manifest


def _check_parent(parent: Path) -> None:
    if not parent.exists():
        raise refusal(parent, "does not exist", "Create this folder first.")
    if not parent.is_dir():
        raise refusal(parent, "is a file, so nothing can be saved below it", _ELSEWHERE)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise refusal(parent, "is not writable", "Choose another folder, or change its permissions.")


def _check_present(path: Path, kind: str, overwrite: bool) -> None:
    """Refuse to replace anything but a saved object of the same kind or an empty folder, with `overwrite`."""
    source = current(path)
    if not os.path.lexists(source):
        return
    if not source.is_dir():
        raise refusal(source, "is a file, not a folder", _ELSEWHERE)
    entries = _entries(source)
    if entries:
        _check_ours(source, entries, kind)
    if not overwrite:
        raise refusal(path, "exists already", "Choose another name, or pass overwrite=True to replace it.")


def _check_ours(source: Path, entries: Mapping[str, bool], kind: str) -> None:
    remedy = "It was not changed: choose another name, or remove it yourself."
    if faults := _foreign(source, entries):
        raise FormatError(f"{source} is not overwritten", faults)
    if MANIFEST not in entries:
        raise refusal(source, "was not saved by fcxplain", remedy)
    try:
        found = parse(_contents(source / MANIFEST, LARGEST), source / MANIFEST)
    except FormatError as error:
        raise refusal(source, f"cannot be identified as ours ({error})", remedy) from error
    if found.get("kind") != kind:
        raise refusal(source, f"holds a saved {some([found.get('kind')])}, not a {kind!r}", remedy)


def _steady(path: Path, kind: str, non_finite: Collection[str]) -> Saved:
    """Read, and read again if the folder was replaced meanwhile: its files may be from two saves, or be gone."""
    for attempt in count(1):
        before, source = stamp(path), current(path)
        try:
            saved = _load(source, kind, non_finite)
            break
        except (FormatError, FileNotFoundError):
            if attempt == _ATTEMPTS or stamp(path) == before:
                raise
    if source != path:
        logger.warning("%s: a save was interrupted or is in progress; reading the previous one from %s", path, source)
    return saved


def _load(source: Path, kind: str, non_finite: Collection[str]) -> Saved:
    if not os.path.lexists(source):
        there = [found.parent.name for found in source.parent.glob(f"*/{MANIFEST}")]
        fault = Fault(str(source), "does not exist", did_you_mean(source.name, there) or "Check the path.")
        raise also(FormatError, FileNotFoundError)("", [fault])
    if not source.is_dir():
        raise refusal(source, f"is a file; a saved {kind} is a folder", "Give the folder.")
    entries = _entries(source)
    if not entries.get(MANIFEST):
        raise refusal(source, f"is not a saved {kind}: it has no {MANIFEST}", "Check the path.")
    place = source / MANIFEST
    manifest = parse(_contents(place, LARGEST), place)
    check(manifest, place, kind)
    missing = [] if WEIGHTS in entries else [Fault(str(source / WEIGHTS), "is missing", AGAIN)]
    if faults := [*_foreign(source, entries), *missing]:
        raise FormatError("the saved folder is damaged", faults)
    file = manifest["files"][WEIGHTS]
    data = _weights(source / WEIGHTS, file["bytes"], file["sha256"])
    return Saved(manifest["content"], unpack(data, source / WEIGHTS, non_finite))


def _weights(path: Path, size: int, sha256: str) -> bytes:
    actual = path.stat().st_size
    if actual != size:
        raise refusal(path, f"has {actual:,} bytes, the manifest says {some([size])}")
    data = _contents(path, size)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise refusal(path, "was changed after it was written (its sha256 differs from the manifest)")
    return data


def _entries(folder: Path) -> dict[str, bool]:
    """Names in a folder, and whether each is a regular file (no link, folder or pipe)."""
    with os.scandir(folder) as found:
        return {entry.name: entry.is_file(follow_symlinks=False) for entry in found}


def _foreign(folder: Path, entries: Mapping[str, bool]) -> list[Fault]:
    extra = sorted(name for name in entries if name not in (MANIFEST, WEIGHTS))
    odd = [name for name in (MANIFEST, WEIGHTS) if not entries.get(name, True)]
    faults = [Fault(str(folder / name), "is not a regular file", "Links and folders are not read.") for name in odd]
    if extra:
        problem = f"has files that do not belong there: {some(extra)}"
        faults.insert(0, Fault(str(folder), problem, "Move them away."))
    return faults


def _contents(path: Path, limit: int) -> bytes:
    size = path.stat().st_size
    if size > limit:
        raise refusal(path, f"has {size:,} bytes, the limit is {limit:,}")
    try:
        return path.read_bytes()
    except MemoryError as error:
        raise refusal(path, f"does not fit in memory ({size:,} bytes)", "Read it on a larger machine.") from error
