"""The correlation matrix of a table's encoded columns, a block per feature.

Rows are read in chunks, so that memory does not grow with them. Within each block the columns are turned so that
they are uncorrelated with variance one; columns that add nothing (a constant, the last level) vanish there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..schema import Feature, Natural, Schema

# Rows whose columns are expanded at a time.
CHUNK = 8_192
# Levels that so few counting rows have are taken together: no approximation holds for them one by one.
RARE = 10
# Directions of a block with less variance than this are rounding: relative to its largest, and to the range.
NEGLIGIBLE, ROUNDING = 1e-10, 1e-14


@dataclass(frozen=True)
class Blocks:
    """A correlation matrix and the columns of each feature in it."""

    correlation: NDArray[np.float64]
    spans: dict[str, slice]


@dataclass(frozen=True)
class Column:
    """How a feature becomes columns: a number is centred and scaled, a category's code chooses a column.

    `table` gives the value of each code (an ordinal's rank) or its column; it is empty for a number.
    """

    width: int
    table: NDArray[Any]
    centre: float = 0.0
    scale: float = 1.0

    def fill(self, out: NDArray[np.float64], values: NDArray[Any]) -> None:
        """Write the columns of some rows into `out`, which holds zeros."""
        if self.width > 1:
            out[np.arange(len(out)), self.table[values]] = 1.0
        elif self.width:
            numbers = self.table[values] if len(self.table) else values
            out[:, 0] = (numbers - self.centre) / self.scale


def correlation(columns: Natural, schema: Schema, rows: NDArray[np.int64] | None, n: int) -> Blocks:
    """The blocks of all rows, or of the given ones (which may repeat); `n` is the number of rows that count."""
    shapes = {f.name: _column(f, columns[f.name], n) for f in schema}
    spans, start = {}, 0
    for name, shape in shapes.items():
        spans[name] = slice(start, start + shape.width)
        start += shape.width
    return _whitened(_covariance(columns, shapes, spans, rows), spans)


def _column(feature: Feature, values: NDArray[Any], n: int) -> Column:
    if feature.kind == "categorical":
        return _levels(np.bincount(values, minlength=len(feature.levels)), n)
    table = feature.rank_of_level if feature.kind == "ordinal" else np.zeros(0)
    numbers = table[values] if len(table) else values
    low, high = float(numbers.min()), float(numbers.max())
    if low == high:
        return Column(0, table)
    # Halves first: the middle of the largest floats must not overflow.
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    return Column(1, table, middle + half * float(np.mean((numbers - middle) / half)), half)


def _levels(counts: NDArray[np.int64], n: int) -> Column:
    """A column per level that occurs often enough; all rare levels share one."""
    often = counts * (n / counts.sum()) >= RARE
    places = np.where(often, np.cumsum(often) - 1, often.sum())
    width = int(often.sum()) + bool(counts[~often].sum())
    return Column(width if width > 1 else 0, places)


def _covariance(
    columns: Natural, shapes: dict[str, Column], spans: dict[str, slice], rows: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    """Covariance about the mean; values are centred beforehand, so that nothing large is subtracted."""
    width = sum(s.width for s in shapes.values())
    n = len(rows) if rows is not None else len(next(iter(columns.values())))
    total, squares, chunk = np.zeros(width), np.zeros((width, width)), np.zeros((CHUNK, width))
    for start in range(0, n, CHUNK):
        part: Any = slice(start, start + CHUNK) if rows is None else rows[start : start + CHUNK]
        x = chunk[: min(CHUNK, n - start)]
        x[:] = 0
        for name, shape in shapes.items():
            shape.fill(x[:, spans[name]], columns[name][part])
        total += x.sum(axis=0)
        squares += x.T @ x
    mean = total / n
    return np.asarray(squares / n - np.outer(mean, mean))


def _whitened(covariance: NDArray[np.float64], spans: dict[str, slice]) -> Blocks:
    roots, kept, start = [], {}, 0
    for name, span in spans.items():
        roots.append(_root(covariance[span, span]))
        kept[name] = slice(start, start + roots[-1].shape[1])
        start += roots[-1].shape[1]
    out = np.zeros((start, start))
    for a, left in zip(spans, roots, strict=True):
        for b, right in zip(spans, roots, strict=True):
            out[kept[a], kept[b]] = left.T @ covariance[spans[a], spans[b]] @ right
    return Blocks(out, kept)


def _root(block: NDArray[np.float64]) -> NDArray[np.float64]:
    if not len(block):
        return np.zeros((0, 0))
    values, vectors = np.linalg.eigh(block)
    # One level's column is what the others leave: that direction has no variance at all.
    used = values > max(NEGLIGIBLE * values[-1], ROUNDING)
    return np.asarray(vectors[:, used] / np.sqrt(values[used]))
