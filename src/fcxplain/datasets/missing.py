"""What stands for a missing value in a text file, and what is said of it.

A text such as 'n/a' may well be a level that somebody means; so it is named wherever it costs a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ..errors import DataError, Fault, some
from ..schema.validation import EMPTY

MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "<NA>")
IN_SCHEMA = "if it is a level, write it into `levels` of the schema"
IN_FILE = "if it is a class, write it otherwise in the file"

Marks = Mapping[str, tuple[str, ...]]
"""By column: the texts in it, such as 'n/a', that were read as missing."""


def marks_in(text: pd.DataFrame, table: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """The marks of a table's columns as they are written and as they were read; in a number they are no level."""
    columns = [n for n in table.columns if not pd.api.types.is_numeric_dtype(table[n])]
    found = {name: text[name][table[name].isna()].unique().tolist() for name in columns}
    return {name: kept for name, texts in found.items() if (kept := tuple(t for t in texts if t in MISSING[1:]))}


def in_words(marks: Marks, label: str | None = None) -> list[str]:
    """For each column: which text was read as missing, and what to do if that was a mistake."""
    return [
        f"{some(texts)} in {name!r} {'is' if len(texts) == 1 else 'are'} read as missing; "
        f"{IN_FILE if name == label else IN_SCHEMA}."
        for name, texts in marks.items()
    ]


def without_missing(path: Path, table: pd.DataFrame, label: str, marks: Marks) -> tuple[pd.DataFrame, list[str]]:
    """The rows in which nothing is missing, and notes on the others."""
    absent = table.isna()
    empty = [c for c in table.columns if absent[c].all()]
    if empty:
        faults = [Fault(f"column {c!r}", "has no values at all", f"Leave it out: ignore=[{c!r}].") for c in empty]
        raise DataError(str(path), faults)
    notes, counts = [], absent.drop(columns=label).loc[~absent[label]].sum()
    if absent[label].any():
        notes.append(f"Dropped {int(absent[label].sum()):,} of {len(table):,} rows without {label!r}.")
    kept = table[~absent.any(axis=1)]
    dropped = len(table) - len(kept) - int(absent[label].sum())
    if dropped:
        columns = ", ".join(f"{c} {int(n):,}" for c, n in counts[counts > 0].items())
        notes.append(f"Dropped {dropped:,} of {len(table):,} rows with missing values ({columns}).")
    notes += in_words({name: texts for name, texts in marks.items() if name in table.columns}, label)
    if not len(kept):
        raise DataError(f"{path}: every row has a missing value. {' '.join(notes)}")
    kept = kept.copy()
    for name in table.columns[absent.any()]:
        kept[name] = _retyped(kept[name])
    return kept, notes


def _retyped(column: pd.Series) -> pd.Series:
    """Whole numbers and booleans as such again, now that nothing is missing."""
    if column.dtype == np.float64 and np.isfinite(column).all() and (column == column.round()).all():
        return column.astype("int64") if column.abs().max() < 2**53 else column
    return column.infer_objects() if column.dtype == object else column


def tells_of_missing(note: str) -> bool:
    """Whether a note of `load_table` tells of rows that were dropped, and so was a warning before."""
    return note.startswith("Dropped ") or " read as missing; " in note


def named_in(fault: Fault, marks: Marks) -> Fault:
    """A fault about an empty cell with the text that stands there, if it is not empty."""
    texts = next((texts for name, texts in marks.items() if fault.place == f"column {name!r}"), ())
    if fault.problem != EMPTY or not texts:
        return fault
    said = f"{fault.remedy} {IN_SCHEMA[0].upper()}{IN_SCHEMA[1:]} that the model is fitted with."
    return replace(fault, problem=f"holds {some(texts)}, which is read as missing", remedy=said)
