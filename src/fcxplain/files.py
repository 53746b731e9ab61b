"""Files that are written completely or not at all: to a temporary name next to the target, then renamed.

A lock lets only one run at a time write a target.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .errors import DataError, Fault, also

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write text (UTF-8, lines ending as given) or bytes."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary file to write to, which replaces `path` on success and is removed on failure."""
    target = Path(path).resolve()  # replace the target of a link, not the link
    if not target.parent.is_dir():
        # Name the caller's path: the temporary name would mean nothing to users.
        fault = Fault(str(path), f"there is no folder {Path(path).parent}", "Create it first.")
        raise also(DataError, FileNotFoundError)("", [fault])
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(_mode(target))
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _mode(path: Path) -> int:
    """Permissions of the existing file, or those of a new one."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    # The mask can only be read by setting it.
    mask = os.umask(0o022)
    os.umask(mask)
    return 0o666 & ~mask


def check_output(path: Path, endings: Sequence[str], option: str = "out") -> None:
    """Refuse, before the work, a file that could not be written or whose extension is not a known format."""
    place, folder = f"{option} {path}", path.resolve().parent
    faults = []
    if path.suffix.lower() not in endings:
        known = " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))
        faults.append(Fault(place, "has no known extension", f"Choose {known}."))
    if path.is_dir():
        faults.append(Fault(place, "is a folder", "Name a file."))
    if not folder.is_dir():
        faults.append(Fault(place, f"there is no folder {folder}", "Create it first."))
    elif not os.access(folder, os.W_OK | os.X_OK):
        faults.append(Fault(place, f"the folder {folder} is not writable", "Choose another."))
    if faults:
        raise DataError("", faults)


@contextmanager
def only_run(target: Path) -> Iterator[None]:
    """Refuse to start while another run writes the same file or folder.

    Uses a lock of the operating system on a file next to the target, which ends with the process.
    """
    place = target.expanduser().absolute()
    path = place.with_name(f".{place.name}.lock")
    try:
        file = _locked(path)
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}") from error
    if file is None:
        remedy = "Wait for it, or choose another name. Its work so far is left alone."
        raise DataError("", [Fault(str(target), "is being written by another run", remedy)])
    try:
        yield
    finally:
        if sys.platform == "win32":
            file.close()
        # Elsewhere the name goes before the lock, so that no run locks a file that is about to be removed.
        with suppress(OSError):
            path.unlink()
        file.close()


def _locked(path: Path) -> IO[bytes] | None:
    """The file at this path, opened and locked; None if another run holds it."""
    while True:
        file = path.open("ab")
        if not _lock(file):
            file.close()
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        # The run that held it has ended since the file was opened, and has removed it.
        file.close()


def _lock(file: IO[bytes]) -> bool:
    """Lock a file unless another run holds it. Without lock support (some network drives), none does."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK)
    return True
