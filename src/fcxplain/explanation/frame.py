"""An explanation as one table: a line for each row and rank, rows without an answer included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..schema import Schema

if TYPE_CHECKING:
    from .answer import Explanation

# Features whose changes fit into one whole number beside the number of a group.
WORD = 30


def frame_of(explanation: Explanation) -> pd.DataFrame:
    """What was found and checked of each answer, then its features; see `Explanation.frame`."""
    lines = pd.concat([_about(explanation), explanation.answers], axis=1)
    if len(explanation.bare):
        lines = _with_bare(explanation, _nullable(lines))
    return lines.iloc[explanation.lines].reset_index(drop=True)


def column_name(about: str, schema: Schema) -> str:
    """What a column that is no feature is called: `fcx_...` where a feature has its name."""
    while about in schema:
        about = f"fcx_{about}"
    return about


def _about(e: Explanation) -> pd.DataFrame:
    c = e.checks
    values = {
        "row": e.rows.index[e.place].to_flat_index(),
        "rank": e.rank,
        "status": np.where(c.passed, "verified", "best_effort"),
        "wanted": c.wanted,
        "predicted": c.predicted,
        "probability": c.probability,
        "cost": c.cost,
        "changes": c.changes,
        "changed": changed_names(c.changed, e.task.schema.names),
    }
    if e.reasons:
        values["why_not"] = e.why_not.to_numpy()[e.place]
    return pd.DataFrame({e.column(k): v for k, v in values.items()})


def changed_names(changed: NDArray[np.bool_], names: tuple[str, ...]) -> NDArray[Any]:
    """The names of the features that differ, with commas between them, made once for each set of features."""
    group = np.zeros(len(changed), dtype=np.int64)
    for start in range(0, len(names), WORD):
        part = changed[:, start : start + WORD]
        group = pd.factorize((group << WORD) | (part @ (1 << np.arange(part.shape[1]))))[0]
    _, first = np.unique(group, return_index=True)
    words = np.empty(len(first), dtype=object)
    words[:] = [", ".join(name for name, yes in zip(names, changed[i], strict=True) if yes) for i in first]
    return words[group]


def _with_bare(e: Explanation, lines: pd.DataFrame) -> pd.DataFrame:
    """A line at the end for each row without an answer, with its label, status, class wanted and reason."""
    bare = e.bare
    told = {"row": e.rows.index[bare].to_flat_index(), "status": e.row_status[bare], "wanted": e.wanted[bare]}
    if e.reasons:
        told["why_not"] = e.why_not.to_numpy()[bare]
    longer = lines.reindex(range(len(lines) + len(bare)))
    for about, values in told.items():
        name = e.column(about)
        longer[name] = pd.concat([lines[name], pd.Series(values).astype(lines[name].dtype)], ignore_index=True)
    return longer


def _nullable(lines: pd.DataFrame) -> pd.DataFrame:
    """Whole numbers that may be missing stay whole numbers."""
    whole = {c: "Int64" for c in lines.columns if isinstance(lines[c].dtype, np.dtype) and lines[c].dtype.kind in "iu"}
    return lines.astype(whole)
