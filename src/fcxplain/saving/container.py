"""Saved things as folders that are replaced whole: a manifest and weights, checked to the last bit, never code."""

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
    """The folder meant: what a link points to is read and replaced, not the link."""
    try:
        return Path(folder).resolve()
    # RuntimeError is a circle of links.
    except (OSError, ValueError, RuntimeError) as error:
        raise refusal(Path(folder), f"is not a usable path ({error})", "Choose another name.") from error


def current(path: Path) -> Path:
    """Where the complete folder is: at `path`, or aside if a writer died between its two renames."""
    aside = _aside(path)
    return aside if not os.path.lexists(path) and (aside / MANIFEST).is_file() else path


def stamp(path: Path) -> tuple[Path, int, int] | None:
    """What changes as soon as a writer replaces the folder meant by `path`; None if there is none.

    The time belongs to it: the number of a removed folder is soon given to another.
    """
    source = current(path)
    try:
        found = source.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return source, found.st_ino, found.st_mtime_ns


@contextmanager
def only_writer(parent: Path) -> Iterator[bool]:
    """Wait for other writers in this folder. False where there are no locks (Windows, some network drives).

    The lock is the system's, on the folder itself: it leaves no file behind and ends with the process.
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
    """Make `path` a folder with just these files, in place of the folder that is there, if any."""
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
    """Remove the new folders that dead writers left half-written; only for who holds the lock."""
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
    # Only when the new name is on the disk may the old folder go.
    _sync(path.parent)


def _discard(folder: Path) -> None:
    """Remove a folder of ours, or what is left of it. A link, or one that holds anything else, stays and is logged."""
    try:
        if folder.is_symlink() or not set(os.listdir(folder)) <= {MANIFEST, WEIGHTS}:
            raise FileExistsError("it is not only ours")
        # Without its manifest the rest is never taken for a complete folder.
        for name in (MANIFEST, WEIGHTS):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("%s: a leftover that could not be removed (%s)", folder, error.strerror or error)


def _sync(folder: Path) -> None:
    """Names reach the disk with their folder. Windows and some network drives cannot sync folders."""
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
_RIGHTS = "Check the permissions and the room on the disk."
# A folder that is replaced while it is being read is read anew, but not for ever.
_ATTEMPTS = 20


@dataclass(frozen=True)
class Saved:
    """What was in a folder: plain data, tensors by name (as arrays), and where it lay."""

    content: dict[str, Any]
    tensors: dict[str, NDArray[Any]]
    path: Path


def write(
    folder: str | Path,
    kind: str,
    content: Mapping[str, Any],
    tensors: Mapping[str, Numbers],
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
    with _refusing(path, "written", _RIGHTS):
        _check_parent(path.parent)
        with only_writer(path.parent) as alone:
            _check_present(path, kind, overwrite)
            if alone:
                clear(path)
            put(path, {WEIGHTS: weights, MANIFEST: manifest})


def read(folder: str | Path, kind: str, *, non_finite: Collection[str] = ()) -> Saved:
    """What `write` saved there. `FormatError` for anything missing, added, changed, newer or of another kind."""
    path = locate(folder)
    with _refusing(path, "read", "Check the permissions."):
        return _steady(path, kind, non_finite)


def check_target(folder: str | Path, kind: str, *, overwrite: bool = False) -> None:
    """Raise now what `write` would raise about the place: for those who write only after hours of work."""
    path = locate(folder)
    with _refusing(path, "written", _RIGHTS):
        _check_parent(path.parent)
        _check_present(path, kind, overwrite)


def is_there(folder: str | Path) -> bool:
    """Whether there is anything to read; an empty folder is nothing."""
    path = locate(folder)
    with _refusing(path, "read", "Check the permissions."):
        source = current(path)
        return source.exists() and (not source.is_dir() or any(source.iterdir()))


@contextmanager
def _refusing(path: Path, done: str, remedy: str) -> Iterator[None]:
    """Whatever the system refuses is a `FormatError` that names the folder."""
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
    """The bytes of the weights and of the manifest, or every reason why they cannot be had."""
    try:
        plain = dict(content)
        if faults := [*faults_in(plain, "content"), *tensor_faults(tensors, non_finite)]:
            raise FormatError(f"{path} cannot be written", faults)
        weights = pack(tensors)
        manifest = compose(kind, plain, weights)
    except FormatError:
        raise
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
    """Refuse to replace anything but a saved thing of the same kind (or an empty folder), and that only if asked."""
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
    if faults := _foreign(source, entries):
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
        fault = Fault(str(source), "there is no such folder", _meant(source))
        raise also(FormatError, FileNotFoundError)("", [fault])
    if not source.is_dir():
        raise refusal(source, f"is a file; a saved {kind} is a folder", "Give the folder.")
    entries = _entries(source)
    if not entries.get(MANIFEST):
        raise refusal(source, f"is not a saved {kind}: it has no {MANIFEST} of its own", "Check the path.")
    place = source / MANIFEST
    manifest = check(parse(_contents(place, LARGEST), place), place, kind)
    missing = [] if WEIGHTS in entries else [Fault(str(source / WEIGHTS), "is missing", AGAIN)]
    if faults := [*_foreign(source, entries), *missing]:
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


def _foreign(folder: Path, entries: Mapping[str, bool]) -> list[Fault]:
    extra = sorted(name for name in entries if name not in (MANIFEST, WEIGHTS))
    odd = [name for name in (MANIFEST, WEIGHTS) if not entries.get(name, True)]
    faults = [Fault(str(folder / name), "is not a plain file", "Links and folders are not read.") for name in odd]
    if extra:
        problem = f"has files that do not belong there: {some(extra)}"
        faults.insert(0, Fault(str(folder), problem, "Move them away."))
    return faults


def _contents(path: Path, limit: int) -> bytes:
    size = path.stat().st_size
    if size > limit:
        raise refusal(path, f"has {size:,} bytes, at most {limit:,} are read")
    try:
        return path.read_bytes()
    except MemoryError as error:
        raise refusal(path, f"does not fit in memory ({size:,} bytes)", "Read it on a larger machine.") from error
