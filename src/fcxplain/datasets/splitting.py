"""Seeded, stratified samples and the 80/10/10 split. Rows keep their order and their index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError
from ..schema import Level
from ..schema.feature import plain

# Validation and test each get this share of every class.
HELD_OUT = 0.1
# The fewest rows of a class of which one goes to validation and one to test.
MIN_ROWS = 5


@dataclass(frozen=True)
class Parts:
    """The three parts of a table."""

    train: pd.DataFrame
    validation: pd.DataFrame
    test: pd.DataFrame


def classes(label: pd.Series) -> tuple[Level, ...]:
    """The classes of a label, sorted where they can be."""
    values = [plain(v) for v in label.dropna().unique()]
    try:
        return tuple(sorted(values))
    except TypeError:
        return tuple(sorted(values, key=str))


def sample(table: pd.DataFrame, label: str, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """`rows` rows in which every class has its share of the table."""
    if rows >= len(table):
        return table
    members = _members(table[label])
    shares = np.asarray([len(m) * rows / len(table) for m in members])
    counts = np.floor(shares).astype(int)
    # The rows left over by rounding down go to the classes that lost most.
    most = np.argsort(counts - shares, kind="stable")[: rows - int(counts.sum())]
    counts[most] += 1
    chosen = [rng.permutation(m)[:c] for m, c in zip(members, counts, strict=True)]
    return table.iloc[np.sort(np.concatenate(chosen))]


def split(table: pd.DataFrame, label: str, rng: np.random.Generator) -> Parts:
    """Train, validation and test: 80, 10 and 10 % of every class; tiny classes go to train."""
    train: list[NDArray[np.int64]] = []
    validation: list[NDArray[np.int64]] = []
    test: list[NDArray[np.int64]] = []
    for members in _members(table[label]):
        mixed, held = rng.permutation(members), int(len(members) * HELD_OUT + 0.5)
        validation.append(mixed[:held])
        test.append(mixed[held : 2 * held])
        train.append(mixed[2 * held :])
    parts = [table.iloc[np.sort(np.concatenate(p))].copy() for p in (train, validation, test)]
    if not all(len(p) for p in parts):
        raise too_few(len(table))
    return Parts(*parts)


def too_few(rows: int) -> DataError:
    """The error for a table that cannot be split."""
    count = "1 row is" if rows == 1 else f"{rows:,} rows are"
    return DataError(
        f"{count} too few to split into training, validation and test parts; "
        f"at least {MIN_ROWS} of one class are needed"
    )


def _members(label: pd.Series) -> list[NDArray[np.int64]]:
    """The positions of each class's rows."""
    values = label.to_numpy()
    return [np.flatnonzero(np.asarray(values == c, dtype=bool)) for c in classes(label)]
