"""Numbers written as text: 1234.5, 1,234.50, 1.234,50, 1 234,5, 12 %.

A column is numeric if every value is a number in one notation. Values that fit only one notation decide; if '1,234'
or '1.234' could be either and nothing else in the file decides, that is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import DataError, Fault, some
from ..schema import Feature

# Grouping marks that are never decimal marks: blank, no-break blanks, apostrophes.
_NEUTRAL = " \u00a0\u202f'\u2019"
_NAMES = {".": "point", ",": "comma"}
# Placeholders in number columns.
_PLACEHOLDERS = ("None", "none", "-", "--", ".")
# Values that are enough to rule out most columns, and examples that are kept.
FIRST, EXAMPLES = 100, 50


@dataclass(frozen=True)
class Notation:
    """Which mark stands before the decimals; the other one groups thousands."""

    decimal: str

    @property
    def thousands(self) -> str:
        """The mark between groups of three digits."""
        return "." if self.decimal == "," else ","

    def fits(self, values: pd.Series) -> pd.Series:
        """Which values are numbers in this notation."""
        group, point = re.escape(self.thousands) + _NEUTRAL, re.escape(self.decimal)
        whole = rf"(?:[0-9]+|[1-9][0-9]{{0,2}}(?:[{group}][0-9]{{3}})+)"
        number = rf"(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][-+]?[0-9]+)?"
        return values.str.fullmatch(rf"[-+]?(?:{number}|(?i:inf(?:inity)?))").astype(bool)

    def numbers(self, values: pd.Series) -> Any:
        """Values that fit, as int64 if all are written without decimals, else as float64."""
        plain = values.str.replace(rf"[{re.escape(self.thousands)}{_NEUTRAL}]", "", regex=True)
        plain = plain.str.replace(self.decimal, ".", regex=False)
        if plain.str.fullmatch(r"[-+]?[0-9]{1,18}").all():
            return plain.astype("int64").to_numpy()
        return plain.astype("float64").to_numpy()


ENGLISH, EUROPEAN = Notation("."), Notation(",")


@dataclass(frozen=True)
class Evidence:
    """Evidence for the notation of numbers in a column; evidence of several parts can be added.

    `fitting` are the notations in which every value is a number; `either` says whether each is one in some notation,
    `percent` whether each ends in a percent sign, `padded` whether some begin with a zero. `marks` are the points and
    commas in them, `marked` the first values that have one, `filled` says whether there is any value.
    """

    fitting: tuple[Notation, ...]
    either: bool
    percent: bool
    padded: bool
    marks: frozenset[str]
    marked: tuple[str, ...]
    filled: bool

    @property
    def is_ambiguous(self) -> bool:
        """Whether the values mean different numbers in different notations."""
        return len(self.fitting) > 1 and bool(self.marks)

    @property
    def are_codes(self) -> bool:
        """Whether values such as '007' would lose information if read as numbers."""
        return self.padded and not self.marks

    def __add__(self, other: Evidence) -> Evidence:
        if not self.filled or not other.filled:
            return self if self.filled else other
        # A percent sign counts only if all values have one.
        alike = self.percent == other.percent
        return Evidence(
            tuple(n for n in self.fitting if n in other.fitting and alike),
            self.either and other.either and alike,
            self.percent and alike,
            self.padded or other.padded,
            self.marks | other.marks,
            (self.marked + other.marked)[:EXAMPLES],
            True,
        )


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A text column by its distinct values: `codes` has the index of each row's value, -1 for none."""

    codes: NDArray[np.intp]
    values: pd.Series
    percent: bool
    allowed: tuple[Notation, ...]

    @classmethod
    def of(cls, column: pd.Series, allowed: tuple[Notation, ...], *, percent: bool = True) -> NumberColumn:
        """A column of text, in which missing values are NaN already; its values may end in a `percent` sign, or not."""
        codes, found = pd.factorize(column)
        values = pd.Series(found, dtype=column.dtype)
        kept = ~values.isin(_PLACEHOLDERS).to_numpy()
        places = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
        values = values[kept].reset_index(drop=True)
        percent = percent and bool(len(values)) and bool(values.str.endswith("%").all())
        if percent:
            values = values.str.removesuffix("%").str.strip()
        return cls(places[codes], values, percent, allowed)

    @cached_property
    def plain(self) -> NDArray[Any] | None:
        """The values as numbers if they all are, without grouping or decimal commas: the quick, common case."""
        if ENGLISH not in self.allowed or not len(self.values):
            return None
        text = pa.array(self.values, type=pa.large_string())
        # Arrow reads 0x1F as a number; it is meant as a code.
        if pc.any(pc.match_substring(text, "x", ignore_case=True)).as_py():
            return None
        for kind in (pa.int64(), pa.float64()):
            try:
                return np.asarray(pc.cast(text, kind))
            except pa.ArrowInvalid:
                continue
        return None

    @cached_property
    def evidence(self) -> Evidence:
        """The evidence of the values."""
        values = self.values
        marked = values[values.str.contains("[.,]", regex=True).astype(bool)]
        marks = {mark for mark in ".," if marked.str.contains(mark, regex=False).any()}
        fitting, filled = tuple(n for n in self.allowed if self._fits(n)), len(values) > 0
        either = bool(fitting) or (filled and bool(np.logical_or.reduce([n.fits(values) for n in self.allowed]).all()))
        # One example per mark.
        examples = [marked[marked.str.contains(mark, regex=False)].iloc[0] for mark in sorted(marks)]
        shown, padded = (*marked[:EXAMPLES], *examples), bool(values.str.fullmatch("0[0-9]+").any())
        return Evidence(fitting, either, self.percent, padded, frozenset(marks), shown, filled)

    def _fits(self, notation: Notation) -> bool:
        if notation == ENGLISH and self.plain is not None:
            return True
        # The first values are enough to see that most columns do not fit.
        parts = (self.values[:FIRST], self.values[FIRST:])
        return bool(len(self.values)) and all(notation.fits(part).all() for part in parts)

    def strangers(self, notation: Notation) -> NDArray[np.bool_]:
        """Which rows hold text that is not a number in this notation."""
        odd = np.append(~notation.fits(self.values).to_numpy(dtype=bool), False)
        return np.asarray(odd[self.codes], dtype=bool)

    def numbers(self, notation: Notation) -> NDArray[Any]:
        """The rows as numbers: int64 if all are whole and present, else float64 with NaN."""
        simple = notation == ENGLISH and self.plain is not None
        numbers = np.asarray(self.plain if simple else notation.numbers(self.values))
        if (self.codes < 0).any():
            numbers = np.append(numbers.astype(np.float64), np.nan)
        return numbers[self.codes]


def notations(decimal: str | None, thousands: str | None) -> tuple[Notation, ...]:
    """The notations that the user's settings leave open."""
    if decimal not in (None, ".", ","):
        raise DataError(f"decimal {decimal!r} is neither '.' nor ','")
    if thousands is not None and (len(thousands) != 1 or thousands not in f".,{_NEUTRAL}"):
        raise DataError(f"thousands {thousands!r} is not one of '.', ',', ' ' and \"'\"")
    if decimal is not None and decimal == thousands:
        raise DataError(f"decimal and thousands are both {decimal!r}")
    return tuple(n for n in (ENGLISH, EUROPEAN) if decimal in (None, n.decimal) and thousands != n.decimal)


def decided(
    columns: Mapping[str, Evidence],
    separator: str,
    allowed: tuple[Notation, ...],
    known: Mapping[str, Feature] | None = None,
) -> dict[str, Notation]:
    """The notation of each numeric column. `known` columns are numeric whatever they contain.

    Other columns are then only evidence for the notation of the file.
    """
    certain = {e.fitting[0] for e in columns.values() if e.fitting and e.marks and not e.is_ambiguous}
    faults, chosen = [], dict[str, Notation]()
    for name, e in columns.items() if known is None else ((n, columns[n]) for n in known):
        notation = (e.fitting or (None,))[0]
        if e.is_ambiguous:
            notation = _usual(e, separator, certain) or (None if known is None else _legal(e, known[name]))
        if notation is not None and (known is not None or not e.are_codes):
            chosen[name] = notation
        elif e.is_ambiguous or (len(allowed) > 1 and e.either and not e.fitting):
            faults.append(_fault(name, e))
        elif known is not None:
            chosen[name] = next(iter(certain)) if len(certain) == 1 else allowed[0]
    if faults:
        raise DataError("numbers that can be read in two ways", faults)
    return chosen


def _usual(column: Evidence, separator: str, certain: set[Notation]) -> Notation | None:
    """The notation of the file's other numbers; without any, the usual one for such files, if it is clear."""
    if len(certain) == 1:
        return next(iter(certain))
    if not certain and (separator == "," or (separator in "\t|" and "," not in column.marks)):
        return ENGLISH
    return None


def _legal(column: Evidence, feature: Feature) -> Notation | None:
    """The only notation in which the values are legal for their feature."""
    low, high = (-np.inf if feature.low is None else feature.low), (np.inf if feature.high is None else feature.high)
    found = []
    for notation in column.fitting:
        numbers = np.asarray(notation.numbers(pd.Series(column.marked, dtype=object)), dtype=np.float64)
        is_whole = feature.kind != "integer" or bool((numbers == np.rint(numbers)).all())
        found += [notation] if is_whole and low <= numbers.min() and numbers.max() <= high else []
    return found[0] if len(found) == 1 else None


def _fault(name: str, column: Evidence) -> Fault:
    example = column.marked[0]
    mark = "," if "," in example else "."
    if not column.is_ambiguous:
        other = [value for value in column.marked if mark not in value]
        problem = f"mixes decimal points and commas, e.g. {some([example, *other[:1]])}"
        return Fault(f"column {name!r}", problem, "Use one notation for all.")
    whole, broken = example.replace(mark, ""), example.replace(mark, ".")
    problem = f"{example!r} may be {whole} or {broken}"
    remedy = f"Say thousands={mark!r} for the first or decimal={mark!r} for the second."
    return Fault(f"column {name!r}", problem, remedy)


def notes(columns: Mapping[str, Evidence], chosen: Mapping[str, Notation]) -> list[str]:
    """Notes on how numbers were read."""
    found = []
    for notation, mark, what in (
        (ENGLISH, ",", "thousands separator"),
        (EUROPEAN, ".", "thousands separator"),
        (EUROPEAN, ",", "decimal mark"),
    ):
        names = [name for name, n in chosen.items() if n == notation and mark in columns[name].marks]
        if names:
            found.append(f"The {_NAMES[mark]} is read as the {what} in {some(names)}.")
    percent = [name for name in chosen if columns[name].percent]
    if percent:
        found.append(f"The percent sign is removed in {some(percent)}.")
    zeros = [name for name in chosen if columns[name].padded]
    if zeros:
        found.append(f"Leading zeros are lost in {some(zeros)}.")
    return found
