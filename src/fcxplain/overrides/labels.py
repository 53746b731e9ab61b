"""Match the lines of an overrides table to rows, and its columns to features."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import Fault, did_you_mean, some
from ..schema import Schema
from ..schema.feature import plain

FREEZE, TARGET, RULES, DIFFICULTY = SPECIAL = ("freeze", "target", "rules", "difficulty")
PREFIX = "allow_"


def shown(label: Hashable) -> str:
    """A row's label as plain Python, for messages."""
    return repr(tuple(plain(part) for part in label) if isinstance(label, tuple) else plain(label))


def positions(table: pd.DataFrame, rows: pd.DataFrame, faults: list[Fault]) -> NDArray[np.int64]:
    """The position of each line's row, or -1."""
    if _is_only_counted(table.index, rows.index):
        problem = "is a plain row count, and the rows to explain have another index"
        remedy = "Set overrides.index = rows.index if both are in the same order; otherwise set it to their labels."
        faults.append(Fault("index of the overrides", problem, remedy))
        return np.full(len(table), -1, dtype=np.int64)
    exact, written = _places(rows.index, plain), _places(rows.index, as_written)
    found = [exact.get(plain(label)) or written.get(as_written(label)) or [] for label in table.index.tolist()]
    faults += _label_faults(table.index, found, rows)
    return np.array([place[0] if len(place) == 1 else -1 for place in found], dtype=np.int64)


def _is_only_counted(index: pd.Index, rows: pd.Index) -> bool:
    """Whether an index is pandas' default while the rows have another, so that it cannot match them."""
    counted = isinstance(index, pd.RangeIndex) and index.equals(pd.RangeIndex(len(rows)))
    return counted and len(rows) > 0 and not index.equals(rows)


def _places(index: pd.Index, key: Any) -> dict[Hashable, list[int]]:
    places: dict[Hashable, list[int]] = {}
    for place, label in enumerate(index.tolist()):
        places.setdefault(key(label), []).append(place)
    return places


def as_written(label: Hashable) -> str:
    """A label as text: 7 and 7.0 are equal, and a date has no time of day."""
    label = plain(label)
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    if isinstance(label, pd.Timestamp) and label.tz is None and label == label.normalize():
        return str(label.date())
    return str(label).strip()


def _label_faults(index: pd.Index, found: list[list[int]], rows: pd.DataFrame) -> list[Fault]:
    faults, seen = [], set()
    for label, places in zip(index.tolist(), found, strict=True):
        place = f"row {shown(label)}"
        if not places:
            remedy = did_you_mean(label, rows.index[:1000]) or f"Their labels are {some(rows.index, 3)}."
            faults.append(Fault(place, "is not one of the rows to explain", remedy))
        elif len(places) > 1:
            problem = f"is the label of {len(places)} of the rows to explain"
            faults.append(Fault(place, problem, "Give the rows unique labels, e.g. rows.reset_index(drop=True)."))
        elif places[0] in seen:
            faults.append(Fault(place, "appears in the overrides more than once", "Merge its entries into one line."))
        seen |= set(places[:1])
    return faults


def meanings(columns: pd.Index, schema: Schema, faults: list[Fault]) -> dict[int, str | None]:
    """By the position of each column: the feature whose values it limits, or None for a special column."""
    found: dict[int, str | None] = {}
    for place, column in enumerate(columns):
        meant, earlier = _meant(column, schema), list(columns[:place])
        if column not in SPECIAL and meant is None:
            faults.append(_unknown(column, schema))
        elif column in earlier or (meant is not None and meant in found.values()):
            problem = f"limits {meant!r} a second time" if meant else "appears in the table more than once"
            faults.append(Fault(f"column {column!r}", problem, "Drop one of the two."))
        else:
            found[place] = meant
    return found


def _meant(column: Any, schema: Schema) -> str | None:
    """The feature of a column: its own name, or the name after `allow_`."""
    rest = str(column).removeprefix(PREFIX) if str(column).startswith(PREFIX) else None
    if column in SPECIAL:
        return None
    if rest in SPECIAL and rest in schema:
        return rest
    if column in schema:
        return str(column)
    return rest if rest in schema else None


def _unknown(column: Any, schema: Schema) -> Fault:
    known = [*SPECIAL, *schema.names, *(PREFIX + n for n in schema.names if n in SPECIAL)]
    remedy = did_you_mean(column, known)
    return Fault(
        f"column {column!r}", "is neither a feature nor an override", remedy or f"Known columns are {some(known, 20)}."
    )


def ambiguity(column: str, schema: Schema) -> str:
    """A hint for a special column that has the same name as a feature."""
    return f"To limit the feature {column!r}, name the column {PREFIX + column!r}." if column in schema else ""
