"""Numbers written as text: 1234.5, 1,234.50, 1.234,50, 1 234,5, 12 %.

A column is a number if every value is, in one notation. Which notation is told by the values that fit only
one; where '1,234' or '1.234' could be either and nothing else in the file tells, that is an error.
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

# Grouping marks that are never decimal marks: blank, no-break blanks, apostrophes.
_NEUTRAL = " \u00a0\u202f'\u2019"
_NAMES = {".": "point", ",": "comma"}
# Written in number columns where there is no number.
_PLACEHOLDERS = ("None", "none", "-", "--", ".")
# Up to this many different values that begin with a zero are codes of a category, not numbers.
MAX_CODES = 20
HEAD = 100


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


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A text column by its different values: `codes` says which one stands in each row, -1 for none."""

    name: str
    codes: NDArray[np.intp]
    values: pd.Series
    percent: bool
    allowed: tuple[Notation, ...]

    @cached_property
    def plain(self) -> NDArray[Any] | None:
        """The values as numbers if they all are, without grouping or decimal commas: the quick, common case."""
        if ENGLISH not in self.allowed or not len(self.values):
            return None
        text = pa.array(self.values, type=pa.large_string())
        # Arrow takes 0x1F for a number; people mean a code.
        if pc.any(pc.match_substring(text, "x", ignore_case=True)).as_py():
            return None
        for kind in (pa.int64(), pa.float64()):
            try:
                return np.asarray(pc.cast(text, kind))
            except pa.ArrowInvalid:
                continue
        return None

    @cached_property
    def fitting(self) -> tuple[Notation, ...]:
        """The notations in which every value is a number."""
        return tuple(n for n in self.allowed if self._fits(n))

    def _fits(self, notation: Notation) -> bool:
        if notation == ENGLISH and self.plain is not None:
            return True
        # The first values are enough to see that most columns do not fit.
        parts = (self.values[:HEAD], self.values[HEAD:])
        return bool(len(self.values)) and all(notation.fits(part).all() for part in parts)

    @cached_property
    def marked(self) -> pd.Series:
        """The values with a point or a comma in them."""
        return self.values[self.values.str.contains("[.,]", regex=True).astype(bool)]

    @cached_property
    def is_ambiguous(self) -> bool:
        """Whether the values mean different numbers in different notations."""
        return len(self.fitting) > 1 and len(self.marked) > 0

    @property
    def notation(self) -> Notation | None:
        """The only notation that fits, or any if they all agree."""
        return self.fitting[0] if self.fitting else None

    def numbers(self, notation: Notation) -> NDArray[Any]:
        """The rows as numbers, int64 where all are written so, else float64 with NaN for none."""
        simple = notation == ENGLISH and self.plain is not None
        numbers = np.asarray(self.plain if simple else notation.numbers(self.values))
        if (self.codes < 0).any():
            numbers = np.append(numbers.astype(np.float64), np.nan)
        return numbers[self.codes]


@dataclass(frozen=True)
class Numbers:
    """The converted columns, and notes on what was not plain."""

    columns: Mapping[str, pd.Series]
    notes: tuple[str, ...]


def notations(decimal: str | None, thousands: str | None) -> tuple[Notation, ...]:
    """The notations that the user's settings leave open."""
    if decimal not in (None, ".", ","):
        raise DataError(f"decimal {decimal!r} is neither '.' nor ','")
    if thousands is not None and (len(thousands) != 1 or thousands not in f".,{_NEUTRAL}"):
        raise DataError(f"thousands {thousands!r} is none of '.', ',', ' ' and \"'\"")
    if decimal is not None and decimal == thousands:
        raise DataError(f"decimal and thousands are both {decimal!r}")
    return tuple(n for n in (ENGLISH, EUROPEAN) if decimal in (None, n.decimal) and thousands != n.decimal)


def to_numbers(table: pd.DataFrame, separator: str, allowed: tuple[Notation, ...]) -> Numbers:
    """Every column of text that holds numbers, as numbers; missing values are NaN already."""
    columns = {name: _column(str(name), table[name], allowed) for name in table.columns}
    told = {c.notation for c in columns.values() if c.notation and not c.is_ambiguous and len(c.marked)}
    faults, chosen = [], {}
    for name, column in columns.items():
        notation = _usual(column, separator, told) if column.is_ambiguous else column.notation
        if notation is not None and not _are_codes(column):
            chosen[name] = notation
        elif column.is_ambiguous or _is_mixed(column, allowed):
            faults.append(_fault(column))
    if faults:
        raise DataError("numbers that can be read in two ways", faults)
    converted = {name: pd.Series(columns[name].numbers(n), table.index) for name, n in chosen.items()}
    return Numbers(converted, _notes(columns, chosen))


def _column(name: str, column: pd.Series, allowed: tuple[Notation, ...]) -> NumberColumn:
    codes, found = pd.factorize(column)
    values = pd.Series(found, dtype=column.dtype)
    kept = ~values.isin(_PLACEHOLDERS).to_numpy()
    places = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
    values = values[kept].reset_index(drop=True)
    percent = bool(len(values)) and bool(values.str.endswith("%").all())
    if percent:
        values = values.str.removesuffix("%").str.strip()
    return NumberColumn(name, places[codes], values, percent, allowed)


def _usual(column: NumberColumn, separator: str, told: set[Notation]) -> Notation | None:
    """The notation of the file's other numbers; without any, what such files usually mean, if it is clear."""
    if len(told) == 1:
        return next(iter(told))
    only_points = not column.marked.str.contains(",", regex=False).any()
    if not told and (separator == "," or (separator in "\t|" and only_points)):
        return ENGLISH
    return None


def _are_codes(column: NumberColumn) -> bool:
    """Whether values such as '007' would lose what they are if read as numbers."""
    return len(column.values) <= MAX_CODES and _has_padding(column)


def _has_padding(column: NumberColumn) -> bool:
    return bool(column.values.str.fullmatch("0[0-9]+").any())


def _is_mixed(column: NumberColumn, allowed: tuple[Notation, ...]) -> bool:
    """Whether every value is a number, but no one notation fits them all."""
    if len(allowed) < 2 or column.notation is not None or not len(column.values):
        return False
    either = [n.fits(column.values) for n in allowed]
    return bool(np.logical_or.reduce(either).all())


def _fault(column: NumberColumn) -> Fault:
    example = column.marked.iloc[0]
    mark = "," if "," in example else "."
    if not column.is_ambiguous:
        other = column.marked[~column.marked.str.contains(mark, regex=False)]
        problem = f"mixes decimal points and commas, e.g. {some([example, *other[:1]])}"
        return Fault(f"column {column.name!r}", problem, "Write them all in one way.")
    whole, broken = example.replace(mark, ""), example.replace(mark, ".")
    problem = f"{example!r} may be {whole} or {broken}"
    remedy = f"Say thousands={mark!r} for the first or decimal={mark!r} for the second."
    return Fault(f"column {column.name!r}", problem, remedy)


def _notes(columns: Mapping[str, NumberColumn], chosen: Mapping[str, Notation]) -> tuple[str, ...]:
    notes = []
    for notation, mark, what in (
        (ENGLISH, ",", "thousands separator"),
        (EUROPEAN, ".", "thousands separator"),
        (EUROPEAN, ",", "decimal mark"),
    ):
        names = [name for name, n in chosen.items() if n == notation and _contains(columns[name], mark)]
        if names:
            notes.append(f"The {_NAMES[mark]} is read as the {what} in {some(names)}.")
    percent = [name for name in chosen if columns[name].percent]
    if percent:
        notes.append(f"The percent sign is taken off in {some(percent)}.")
    zeros = [n for n in chosen if _has_padding(columns[n])]
    if zeros:
        notes.append(f"Leading zeros are lost in {some(zeros)}.")
    return tuple(notes)


def _contains(column: NumberColumn, mark: str) -> bool:
    return bool(column.marked.str.contains(mark, regex=False).any())
