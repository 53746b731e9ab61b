"""Files that are written whole or not at all: to a temporary name beside the target, then renamed."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import DataError, Fault


class NoFolderError(DataError, FileNotFoundError):
    """There is no folder to write to; an `OSError` too, for those who say in their own words what cannot be written."""

    # An OSError would show what it takes for a number first.
    __str__ = Exception.__str__


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write text (UTF-8, lines ending as given) or bytes."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary file to write to, which takes the place of `path` if all goes well, and is gone if not."""
    target = Path(path).resolve()  # what a link points to is replaced, not the link
    if not target.parent.is_dir():
        # Told in the words of the caller: the temporary name would mean nothing to anybody.
        raise NoFolderError("", [Fault(str(path), f"there is no folder {Path(path).parent}", "Create it first.")])
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
    """Permissions of the file as it is, or those that a new one would get."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    # The mask can only be read by setting it.
    mask = os.umask(0o022)
    os.umask(mask)
    return 0o666 & ~mask
