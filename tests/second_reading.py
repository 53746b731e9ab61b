"""Rules, legal values and changes read a second time, in whole numbers, sharing no code with the library.

A sentence knows its own text, which the library gets to read, and its own truth. Numbers are counted in units of a
ten-thousandth, so that nothing is ever rounded; categories by the place of their level.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from fcxplain.schema import Feature, Schema

UNITS = 10**4
OPS = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">=": operator.ge, ">": operator.gt}
Columns = Mapping[str, np.ndarray]


def units(number: float) -> int:
    """A number as it is written, in ten-thousandths."""
    counted = Decimal(repr(float(number))) * UNITS
    assert counted == int(counted), f"{number} has more than four decimals"
    return int(counted)


def read(schema: Schema, table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Columns of whole numbers; a level that there is not is an error."""
    return {f.name: np.array([_one(f, v) for v in table[f.name].tolist()], dtype=np.int64) for f in schema}


def _one(feature: Feature, value: Any) -> int:
    return units(value) if feature.kind in ("integer", "continuous") else list(feature.levels).index(value)


def written(schema: Schema, columns: Columns) -> pd.DataFrame:
    """The table that `read` gives these columns for."""
    shown = {}
    for f in schema:
        if f.kind in ("integer", "continuous"):
            values = [int(v) / UNITS for v in columns[f.name]]
            shown[f.name] = pd.Series(values, dtype="int64" if f.kind == "integer" else "float64")
        else:
            shown[f.name] = pd.Series([f.levels[int(v)] for v in columns[f.name]], dtype=object)
    return pd.DataFrame(shown)


def grid(feature: Feature) -> np.ndarray:
    """Every legal value that a change may lead to."""
    if feature.kind in ("integer", "continuous"):
        return np.arange(units(feature.low), units(feature.high) + 1, units(feature.step), dtype=np.int64)
    return np.arange(len(feature.levels))


def legal(schema: Schema, now: Columns, then: Columns) -> np.ndarray:
    """On the grid or as it was, and what may not change as it was."""
    kept = [(np.isin(then[f.name], grid(f)) & bool(f.mutable)) | (then[f.name] == now[f.name]) for f in schema.features]
    return np.logical_and.reduce(kept)


def changes(now: Columns, then: Columns) -> np.ndarray:
    """How many values differ, however little."""
    return np.sum([then[name] != now[name] for name in now], axis=0)


def nudged(schema: Schema, now: Columns, then: Columns) -> np.ndarray:
    """Where a number moved by half a step or less, as it can off the grid only: nobody calls that a change."""
    found = np.zeros(len(then[schema.names[0]]), dtype=bool)
    for f in schema.features:
        if f.kind in ("integer", "continuous"):
            moved = 2 * np.abs(then[f.name] - now[f.name])
            found |= (moved > 0) & (moved <= units(f.step))
    return found


def every_candidate(schema: Schema, now: Columns, row: int) -> dict[str, np.ndarray]:
    """All rows that one row may legally become, the rules apart; immutables as they are."""
    choices = [
        np.union1d(grid(f), now[f.name][row]) if f.mutable else now[f.name][row : row + 1] for f in schema.features
    ]
    spread = np.meshgrid(*choices, indexing="ij")
    return {f.name: part.reshape(-1) for f, part in zip(schema.features, spread, strict=True)}


def repeated(columns: Columns, row: int, times: int) -> dict[str, np.ndarray]:
    return {name: np.repeat(values[row : row + 1], times) for name, values in columns.items()}


@dataclass(frozen=True)
class Name:
    feature: Feature
    primed: bool

    @property
    def text(self) -> str:
        return f"`{self.feature.name}`" + "'" * self.primed

    def codes(self, now: Columns, then: Columns) -> np.ndarray:
        return (then if self.primed else now)[self.feature.name]

    def value(self, now: Columns, then: Columns) -> np.ndarray:
        """What arithmetic sees, in units: a number itself, an ordinal's rank."""
        codes = self.codes(now, then)
        return codes if self.feature.kind != "ordinal" else np.array(self.feature.ranks)[codes] * UNITS


@dataclass(frozen=True)
class Sum:
    """Names with weights in hundredths, and a constant in hundredths; perhaps its absolute value."""

    terms: tuple[tuple[int, Name], ...]
    constant: int = 0
    absolute: bool = False

    @property
    def text(self) -> str:
        parts = [
            f"{Decimal(weight) / 100:f} * {name.text}" if weight != 100 else name.text for weight, name in self.terms
        ]
        if self.constant or not parts:
            parts.append(f"{Decimal(self.constant) / 100:f}")
        joined = " + ".join(parts)
        return f"abs({joined})" if self.absolute else joined

    def value(self, now: Columns, then: Columns) -> np.ndarray:
        """In hundredths of a unit."""
        total = sum((w * name.value(now, then) for w, name in self.terms), np.int64(self.constant * UNITS))
        return np.abs(total) if self.absolute else np.asarray(total)


@dataclass(frozen=True)
class Comparison:
    left: Sum
    op: str
    right: Sum

    @property
    def text(self) -> str:
        return f"{self.left.text} {self.op} {self.right.text}"

    def truth(self, now: Columns, then: Columns, top: bool = False) -> np.ndarray:
        return np.asarray(OPS[self.op](self.left.value(now, then), self.right.value(now, then)))


@dataclass(frozen=True)
class Ranks:
    """Two ordinals by rank; `f' == f` as a rule of its own keeps the level itself."""

    left: Name
    op: str
    right: Name

    @property
    def text(self) -> str:
        return f"{self.left.text} {self.op} {self.right.text}"

    def truth(self, now: Columns, then: Columns, top: bool = False) -> np.ndarray:
        itself = self.left.feature is self.right.feature and self.left.primed != self.right.primed
        if top and self.op == "==" and itself:
            return np.asarray(self.left.codes(now, then) == self.right.codes(now, then))
        return np.asarray(OPS[self.op](self.left.value(now, then), self.right.value(now, then)))


@dataclass(frozen=True)
class Level:
    """An ordinal against one of its levels: `==` and `!=` mean that level, the rest compares ranks."""

    name: Name
    op: str
    place: int

    @property
    def text(self) -> str:
        return f'{self.name.text} {self.op} "{self.name.feature.levels[self.place]}"'

    def truth(self, now: Columns, then: Columns, top: bool = False) -> np.ndarray:
        codes = self.name.codes(now, then)
        if self.op in ("==", "!="):
            return np.asarray(OPS[self.op](codes, self.place))
        ranks = np.array(self.name.feature.ranks)
        return np.asarray(OPS[self.op](ranks[codes], ranks[self.place]))


@dataclass(frozen=True)
class Among:
    """A value in a set of levels (by place) or of numbers (in hundredths)."""

    name: Name
    members: tuple[int, ...]
    negated: bool

    @property
    def text(self) -> str:
        f = self.name.feature
        number = f.kind in ("integer", "continuous")
        items = [f"{Decimal(m) / 100:f}" if number else f'"{f.levels[m]}"' for m in self.members]
        return f"{self.name.text} {'not ' * self.negated}in {{{', '.join(items)}}}"

    def truth(self, now: Columns, then: Columns, top: bool = False) -> np.ndarray:
        number = self.name.feature.kind in ("integer", "continuous")
        members = np.array(self.members) * (UNITS // 100 if number else 1)
        return np.isin(self.name.codes(now, then), members) ^ self.negated


@dataclass(frozen=True)
class Alike:
    """Two categories, at least one of them nominal, by what their levels are called."""

    left: Name
    right: Name
    negated: bool

    @property
    def text(self) -> str:
        return f"{self.left.text} {'!=' if self.negated else '=='} {self.right.text}"

    def truth(self, now: Columns, then: Columns, top: bool = False) -> np.ndarray:
        sides = [[str(n.feature.levels[c]) for c in n.codes(now, then)] for n in (self.left, self.right)]
        same = [a == b for a, b in zip(*sides, strict=True)]
        return np.array(same, dtype=bool) ^ self.negated


@dataclass(frozen=True)
class Logic:
    """`and`, `or`, `=>` of two sentences, or `not` of one."""

    word: str
    items: tuple[Any, ...]

    @property
    def text(self) -> str:
        inner = [f"({item.text})" for item in self.items]
        return f"not {inner[0]}" if self.word == "not" else f" {self.word} ".join(inner)

    def truth(self, now: Columns, then: Columns, top: bool = False) -> np.ndarray:
        inner = [item.truth(now, then, top and self.word == "and") for item in self.items]
        if self.word == "not":
            return ~inner[0]
        if self.word == "=>":
            return ~inner[0] | inner[1]
        return np.asarray(reduce(np.logical_and if self.word == "and" else np.logical_or, inner))


Sentence = Comparison | Ranks | Level | Among | Alike | Logic


def kept(sentences: tuple[Sentence, ...], now: Columns, then: Columns) -> np.ndarray:
    """Whether every rule is kept, row by row."""
    rows = len(next(iter(then.values())))
    result = np.ones(rows, dtype=bool)
    for sentence in sentences:
        result &= sentence.truth(now, then, top=True)
    return result
