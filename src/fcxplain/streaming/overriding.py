"""Overrides of a file's rows, held against its labels before the first row is explained.

Part by part, an override of a row that is nowhere in the file would never be missed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ..overrides import Overrides
from ..overrides.labels import as_written, positions
from ..schema.feature import plain
from ..task import Task
from .rows import RowFile

# Labels read at a time, and how many are kept to show what the file's labels look like.
CHUNK, SHOWN = 100_000, 1_000


def matched(overrides: pd.DataFrame, source: Path, task: Task, index: str | None = None) -> pd.DataFrame:
    """The overrides, labelled as the file labels its rows; everything that is wrong with them is raised at once."""
    rows = pd.DataFrame(index=_near(overrides.index, RowFile(source, task, index)))
    if not len(rows):
        # A file without rows is refused as such.
        return overrides
    Overrides.read(overrides, rows, task)
    return overrides.set_axis(rows.index[positions(overrides, rows, [])], axis=0)


def _near(wanted: pd.Index, file: RowFile) -> pd.Index:
    """Labels of the file that may be meant, and the first of all, so that a large file is never held as a whole."""
    exact, written = {plain(label) for label in wanted.tolist()}, {as_written(label) for label in wanted.tolist()}
    kept, seen = [pd.Index([])], 0
    for labels in file.labels(CHUNK):
        near = [plain(label) in exact or as_written(label) in written for label in labels.tolist()]
        kept.append(labels[np.array(near, dtype=bool) | (np.arange(len(labels)) < SHOWN - seen)])
        seen += len(labels)
    return kept[-1] if len(kept) < 3 else kept[1].append(kept[2:])
