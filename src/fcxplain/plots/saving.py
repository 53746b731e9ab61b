"""Pictures as files: written whole or not at all, and the same bytes for the same picture."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ..errors import DataError, Fault
from ..writing import write_whole
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
        write_whole(target, content)
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
