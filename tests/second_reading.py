"""Rules, legal values and changes read a second time, in whole numbers, sharing no code with the library.

A sentence knows its own text, which the library gets to read, and its own truth. Numbers are counted in units of a
ten-thousandth, so that nothing is ever rounded; categories by the place of their level.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
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
# What stands for a missing value, and what a level is called that the schema does not know: its place is the last.
GAP, UNSEEN = -(2**60), "never seen"


def units(number: float) -> int:
    """A number as it is written, in ten-thousandths."""
    counted = Decimal(repr(float(number))) * UNITS
    assert counted == int(counted), f"{number} has more than four decimals"
    return int(counted)


def read(schema: Schema, table: pd.DataFrame, short: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Columns of whole numbers; a level that there is not is an error, and so is a number of more than four decimals.

    Those named in `short` may be as near to such a number as single or half precision gets.
    """
    return {f.name: _read(f, table[f.name], f.name in short) for f in schema}


def _read(feature: Feature, column: pd.Series, short: bool) -> np.ndarray:
    if feature.kind not in ("integer", "continuous"):
        place = {(type(level) is bool, level): i for i, level in enumerate(feature.levels)}
        place |= {(False, UNSEEN): len(feature.levels)} if "levels" in feature.guessed else {}
        values = [None if pd.isna(v) else (isinstance(v, bool | np.bool_), v) for v in column.tolist()]
        return np.array([GAP if v is None else place[v] for v in values], dtype=np.int64)
    given = column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = np.nan_to_num(given)
    kinds = (np.float64, np.float32, np.float16) if short else (np.float64,)
    whole, found = np.zeros(len(values), dtype=np.int64), np.zeros(len(values), dtype=bool)
    # Half precision cannot tell most ten-thousandths apart, but hundredths and sixteenths it can.
    for unit in (UNITS // 100, UNITS // 16, 1) if short else (1,):
        near = np.rint(values * UNITS / unit).astype(np.int64) * unit
        same = np.logical_or.reduce([(near / UNITS).astype(kind).astype(np.float64) == values for kind in kinds])
        whole, found = np.where(same & ~found, near, whole), found | same
    assert found.all(), f"{feature.name}: {values[~found][:3]} are numbers of more than four decimals"
    return np.where(np.isnan(given), GAP, whole)


def take(columns: Columns, rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[rows] for name, values in columns.items()}


def grid(feature: Feature) -> np.ndarray:
    """Every legal value that a change may lead to."""
    if feature.kind in ("integer", "continuous"):
        return np.arange(units(feature.low), units(feature.high) + 1, units(feature.step), dtype=np.int64)
    return np.arange(len(feature.levels))


def legal(schema: Schema, now: Columns, then: Columns) -> np.ndarray:
    """On the grid or as it was, and what may not change as it was; so is a gap, unless it may be filled."""
    kept = []
    for f in schema.features:
        free = bool(f.mutable) & ((now[f.name] != GAP) | (f.missing == "may_be_filled"))
        kept.append((np.isin(then[f.name], grid(f)) & free) | (then[f.name] == now[f.name]))
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
    """Whether every rule is surely kept, row by row: what a gap leaves undecided is not."""
    rows = len(next(iter(then.values())))
    result = np.ones(rows, dtype=bool)
    for sentence in sentences:
        result &= _sure(sentence, now, then, True)[0]
    return result


def _sure(sentence: Sentence, now: Columns, then: Columns, top: bool) -> tuple[np.ndarray, np.ndarray]:
    """Where a sentence surely holds, and where it surely does not."""
    if isinstance(sentence, Logic):
        inner = [_sure(item, now, then, top and sentence.word == "and") for item in sentence.items]
        if sentence.word in ("not", "=>"):
            inner[0] = inner[0][::-1]
        joins = (np.logical_and, np.logical_or) if sentence.word == "and" else (np.logical_or, np.logical_and)
        return reduce(joins[0], [t for t, _ in inner]), reduce(joins[1], [f for _, f in inner])
    names = _names(sentence)
    gaps = np.logical_or.reduce([n.codes(now, then) == GAP for n in names]) if names else np.zeros(1, dtype=bool)
    if not gaps.any():
        found = sentence.truth(now, then, top)
        return found, ~found
    found = sentence.truth(*({n: np.where(v == GAP, 0, v) for n, v in side.items()} for side in (now, then)), top)
    yes, no = found & ~gaps, ~found & ~gaps
    if _is_identity(sentence):
        both = np.logical_and.reduce([n.codes(now, then) == GAP for n in names])
        negated = sentence.negated if isinstance(sentence, Alike) else sentence.op == "!="
        yes, no = (yes, no | both) if negated else (yes | both, no)
    return yes, no


def _terms(sentence: Comparison) -> list[tuple[int, Name]]:
    """What each value counts for in the difference of both sides."""
    every = [(sign * w, n) for sign, side in ((1, sentence.left), (-1, sentence.right)) for w, n in side.terms]
    names = {n.text: n for _, n in every}
    return [(sum(w for w, other in every if other.text == text), name) for text, name in names.items()]


def _names(sentence: Any) -> list[Name]:
    """The values that the truth of a comparison hangs on."""
    if isinstance(sentence, Comparison):
        absolute = sentence.left.absolute or sentence.right.absolute
        return [name for weight, name in _terms(sentence) if weight or absolute]
    return [sentence.name] if isinstance(sentence, Level | Among) else [sentence.left, sentence.right]


def _is_identity(sentence: Any) -> bool:
    """Whether it says that a value stays, or does not, and nothing else."""
    names = _names(sentence)
    if len(names) != 2 or names[0].feature.name != names[1].feature.name or names[0].primed == names[1].primed:
        return False
    if not isinstance(sentence, Comparison):
        return isinstance(sentence, Alike) or sentence.op in ("==", "!=")
    weight, constant = sum(w for w, _ in _terms(sentence)), sentence.left.constant - sentence.right.constant
    absolute = sentence.left.absolute or sentence.right.absolute
    return sentence.op in ("==", "!=") and not (weight or constant or absolute)
