"""The table behind suggestions: each column's ordered values, and the test whether unbroken rules are significant."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..schema import Feature, Natural, Schema
from ..schema.validation import column_faults, raise_on_faults

# The probability that any suggestion is due to chance alone.
ALPHA = 0.01
# The highest rate that the data leaves open must be at most this fraction of the rate by chance.
WELL_BELOW = 0.5
# A rule that forbids a smaller share of rows than this is not worth reviewing.
LEAST_SHARE = 0.001


def highest_rate(rows: NDArray[np.int64], error: float) -> NDArray[np.float64]:
    """The highest rate of breaking at which no break in this many rows has a probability of at least `error`."""
    return np.asarray(1.0 - error ** (1.0 / np.maximum(rows, 1)))


@dataclass(frozen=True)
class Bar:
    """The test for candidates: enough supporting rows, given the number of candidates tested."""

    least_support: int
    looked_at: int

    def passes(
        self, support: NDArray[np.int64], excluded: NDArray[np.int64], rows: NDArray[np.int64] | int
    ) -> NDArray[np.bool_]:
        """Whether rules that hold in all their `support` rows are significant.

        `excluded` is the number of all `rows` with the value that the rule forbids.
        """
        rate = excluded / np.maximum(rows, 1)
        share = rate * support / np.maximum(rows, 1)
        unlikely = highest_rate(support, ALPHA / max(self.looked_at, 1)) <= WELL_BELOW * rate
        enough = (support >= self.least_support) & (excluded >= self.least_support)
        return np.asarray(enough & unlikely & (share >= LEAST_SHARE))


Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
# A number with no more values than this is divided at each of them.
FEW = 12
# A value of this share of the rows divides a number with many values.
OFTEN = 0.05


@dataclass(frozen=True, eq=False)
class ValueColumn:
    """A feature's values (numbers, ranks of an ordinal, codes of a category; missing is NaN) and their parts.

    `natural` are the same values in the schema's form. `parts` are intervals of values that occur, `parts x 2`, both
    ends included; `part_of` is the part of each row, -1 if its value is missing.
    """

    feature: Feature
    natural: NDArray[Any] = field(repr=False)
    values: Floats = field(repr=False)
    parts: Floats = field(repr=False)
    part_of: NDArray[np.int64] = field(repr=False)

    @property
    def is_ordered(self) -> bool:
        """Whether the values have an order."""
        return self.feature.kind != "categorical"

    @cached_property
    def known(self) -> Bools:
        """Which rows have a value."""
        return np.asarray(~np.isnan(self.values))

    @cached_property
    def in_order(self) -> Floats:
        """The known values in ascending order."""
        return np.sort(self.values[self.known])

    @cached_property
    def by_part(self) -> NDArray[np.int64]:
        """The rows, ordered by part; those without one come first."""
        return np.argsort(self.part_of, kind="stable")

    @cached_property
    def conditions(self) -> Bools:
        """Conditions that a rule may put on the feature, as sets of parts, `conditions x parts`."""
        count = len(self.parts)
        one = np.eye(count, dtype=bool)
        if not self.is_ordered:
            return one
        upwards = np.triu(np.ones((count, count), dtype=bool))[1:]
        points = one[self.parts[:, 0] == self.parts[:, 1]] if self.feature.is_number else one[:0]
        return np.unique(np.concatenate([upwards, ~upwards, points]), axis=0)


def columns_of(table: pd.DataFrame, schema: Schema) -> dict[str, ValueColumn]:
    """The columns of the schema with any known values; missing values and unknown levels are NaN."""
    raise_on_faults(column_faults(schema.features, table))
    natural = schema.natural(table)
    columns = {f.name: _column(f, natural[f.name]) for f in schema}
    return {name: column for name, column in columns.items() if column.known.any()}


def _column(feature: Feature, natural: NDArray[Any]) -> ValueColumn:
    if feature.is_number:
        values = np.where(np.isfinite(natural), natural, np.nan)
        parts = _stretches(values[~np.isnan(values)])
        part_of = np.where(np.isnan(values), -1, np.searchsorted(parts[:, 1], values))
        return ValueColumn(feature, natural, values, parts, part_of)
    measure = feature.rank_of_level if feature.kind == "ordinal" else np.arange(len(feature.levels), dtype=np.float64)
    ranks, places = np.unique(measure, return_inverse=True)
    parts = np.column_stack([ranks, ranks])
    known, code = natural >= 0, np.maximum(natural, 0)
    values = np.where(known, measure[code], np.nan)
    return ValueColumn(feature, natural, values, parts, np.where(known, places[code], -1))


def _stretches(known: Floats) -> Floats:
    """The parts of a number: its values if they are few, else below, at and above a frequent value."""
    values, counts = np.unique(known, return_counts=True)
    if len(values) <= FEW:
        return np.column_stack([values, values])
    mode = int(counts.argmax())
    often = counts[mode] >= OFTEN * len(known)
    runs = [values[:mode], values[mode : mode + 1], values[mode + 1 :]] if often else [values]
    return np.asarray([run[[0, -1]] for run in runs if len(run)])


def made_up(columns: Mapping[str, ValueColumn], rows: int, seed: tuple[int, ...]) -> Natural:
    """Synthetic rows with each value drawn independently from the data, as natural columns.

    The draws of a column do not depend on the others, so that an unrelated column changes no suggestion.
    """
    made = {}
    for name, column in columns.items():
        known = column.natural[column.known]
        made[name] = known[generator(name, *seed).integers(len(known), size=rows)]
    return made


def pairs_of(columns: Mapping[str, ValueColumn], seed: int) -> tuple[Natural, Natural]:
    """Complete rows in random pairs; no row is in two pairs."""
    complete = np.flatnonzero(np.logical_and.reduce([c.known for c in columns.values()]))
    drawn = generator("\n".join(columns), seed).permutation(complete)
    first, second = drawn[: len(drawn) // 2 * 2].reshape(2, -1)
    return (
        {name: c.natural[first] for name, c in columns.items()},
        {name: c.natural[second] for name, c in columns.items()},
    )


def generator(name: str, *seed: int) -> np.random.Generator:
    """Random numbers for one purpose."""
    return np.random.default_rng([*seed, zlib.crc32(name.encode())])
