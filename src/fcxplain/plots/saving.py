"""Pictures as files: written whole or not at all, and the same bytes for the same picture."""

from __future__ import annotations

import io
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ..errors import DataError, Fault
from .style import our_style

# No dates and no versions, so that the same picture is the same file.
METADATA: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None, "Creator": "fcxplain"},
    ".png": {"Software": "fcxplain"},
    ".pdf": {"CreationDate": None, "Creator": "fcxplain", "Producer": "fcxplain"},
}


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format that the name ends in: .svg (text stays text), .png (200 dpi) or .pdf."""
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in METADATA:
        problem = f"ends in {target.suffix!r:.20}, which is no format of ours" if kind else "has no ending"
        raise DataError("picture", [Fault(str(path), problem, f"End it in {', '.join(METADATA)}.")])
    content = _rendered(figure, kind)
    try:
        _write_whole(target, content)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot write the picture {path}: {error}") from error


def _rendered(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    with our_style(), warnings.catch_warnings():
        if kind == ".svg":
            # The text is kept, and who shows it has other fonts than ours.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        figure.savefig(buffer, format=kind[1:], metadata=METADATA[kind])
    return buffer.getvalue()


def _write_whole(path: Path, content: bytes) -> None:
    path = path.resolve()  # what a link points to is replaced, not the link
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(_mode(path))
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _mode(path: Path) -> int:
    """Permissions of the file as it is, or those that a new one would get."""
    if path.exists():
        return path.stat().st_mode & 0o7777
    # The mask can only be read by setting it.
    mask = os.umask(0o022)
    os.umask(mask)
    return 0o666 & ~mask
