"""Folders that are replaced whole. A crash at any moment leaves the old folder or the new one, never neither.

The new folder is written beside the target (`.NAME.fcxplain-new-...`) and synced to disk. The old one is renamed
aside (`.NAME.fcxplain-old`), the new one renamed in, and the old one removed. After a crash between the two renames
the target is missing and the old folder lies aside, complete: readers then read it there, where it is (reading never
writes), and the next writer renames its new folder in and removes it. Where the target exists, it is complete, and
whatever lies aside is a leftover that the next writer removes, with half-written new folders of dead writers.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from .manifest import MANIFEST, WEIGHTS, refusal

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
