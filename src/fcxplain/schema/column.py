"""Between a column of any dtype and its natural values: float64 for a number, level codes for a category."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import Fault, SchemaError
from . import dates
from .definition import is_missing
from .feature import MISSING, Feature, plain

# Up to this many values of a category are looked up one by one.
FEW = 16
# Unseen levels that are remembered: this many, and beside them those of as many of the largest tables.
ROOM, TABLES = 2**16, 4
# Dtypes that hold every value of a number.
DEFAULTS = {"integer": np.dtype(np.int64), "continuous": np.dtype(np.float64), "date": dates.DEFAULT}


def is_numeric(column: pd.Series) -> bool:
    """Whether a column holds numbers (not booleans, not text), whatever its dtype."""
    if _is_plain(column.dtype):
        return True
    if pd.api.types.is_bool_dtype(column.dtype):
        return False
    if pd.api.types.is_numeric_dtype(column.dtype):
        return not pd.api.types.is_complex_dtype(column.dtype)
    kinds = ("integer", "floating", "mixed-integer-float", "decimal", "empty")
    return pd.api.types.is_object_dtype(column.dtype) and pd.api.types.infer_dtype(column, skipna=True) in kinds


def is_time(column: pd.Series) -> bool:
    """Whether a column holds times of day, durations or periods."""
    dtype = column.dtype
    if isinstance(dtype, pd.PeriodDtype) or str(dtype).startswith(("time32", "time64", "timedelta", "duration")):
        return True
    kinds = ("time", "timedelta", "period")
    return pd.api.types.is_object_dtype(dtype) and pd.api.types.infer_dtype(column, skipna=True) in kinds


def first_label(column: pd.Series, rows: NDArray[np.bool_]) -> Hashable:
    """The index label of the first of these rows, in plain Python so that it reads well."""
    label = column.index[int(rows.argmax())]
    return tuple(map(plain, label)) if isinstance(label, tuple) else cast(Hashable, plain(label))


def natural(feature: Feature, column: pd.Series) -> NDArray[Any]:
    """The column as float64 (numbers; missing is NaN) or as level codes (missing: -1, not a level: below)."""
    return numbers(feature, column) if feature.is_number else level_codes(feature, column)


def column_of(feature: Feature, values: NDArray[Any], index: pd.Index, dtype: Any = None) -> Any:
    """Natural values as a column of `dtype`, or of a wider one if that cannot hold every legal value.

    An array, since a table would align a series by its index.
    """
    fitting = fitting_dtype(feature, dtype)
    # A continuous value off the grid may have a fraction, even where the training rows have none.
    if feature.kind == "continuous" and pd.api.types.is_integer_dtype(fitting) and (values % 1 > 0).any():
        fitting = np.dtype(np.float64)
    column = written(feature, values, fitting)
    # Without its dtype an array of bare objects would be taken for text.
    bare = _is_object(getattr(column, "dtype", fitting))
    return pd.Series(column, index=index, dtype=object, copy=False) if bare else column


def numbers(feature: Feature, column: pd.Series) -> NDArray[np.float64]:
    """The column as float64; missing is NaN."""
    try:
        values = dates.days_in(column) if feature.kind == "date" else float64(column)
    except (TypeError, ValueError, OverflowError) as error:
        problem = f"should be {feature.kind} but is {column.dtype}"
        raise SchemaError("table", [Fault(f"column {feature.name!r}", problem, str(error))]) from error
    short = short_float(column.dtype)
    if short is None or feature.step is None:
        return values
    # 0.1 in single precision means the grid's 0.1, not 0.10000000149; the same holds for bounds off the grid.
    for exact in (feature.at(feature.codes(np.nan_to_num(values))), feature.low, feature.high):
        if exact is not None:
            values = np.where(np.asarray(exact, dtype=np.float64).astype(short) == values, exact, values)
    return values


def float64(column: pd.Series) -> NDArray[np.float64]:
    """Numbers of any dtype in double precision; missing is NaN."""
    if _is_plain(column.dtype):
        return np.asarray(column.to_numpy().astype(np.float64, copy=False))
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def short_float(dtype: Any) -> np.dtype[Any] | None:
    """The numpy dtype of a column of floats shorter than a double, else None."""
    inner = getattr(dtype, "numpy_dtype", dtype)
    is_short = isinstance(inner, np.dtype) and inner.kind == "f" and inner.itemsize < 8
    return inner if is_short else None


def level_codes(feature: Feature, column: pd.Series) -> NDArray[np.int64]:
    """The index of each row's level; missing is -1, and a value that is not a level has a lower code."""
    known = known_levels(feature, column) if len(column) <= FEW else None
    if known is not None:
        return known
    if isinstance(column.dtype, pd.CategoricalDtype):
        found, values = column.cat.codes.to_numpy(), column.cat.categories
    else:
        try:
            found, values = pd.factorize(column)
        except (TypeError, NotImplementedError) as error:
            problem, remedy = f"holds values that are not levels ({error})", "Convert them to text."
            raise SchemaError("table", [Fault(f"column {feature.name!r}", problem, remedy)]) from error
    codes = [*UNSEEN.codes(feature, values), MISSING]
    return np.asarray(np.asarray(codes, dtype=np.int64)[found])


class UnseenLevels:
    """Codes of values: the index of a level, or that of an unseen one, with its value, so that rows can keep it.

    The latter is a hash of the value and means nothing else. Values that were not used for longest are forgotten, so
    that a stream of free text takes no more memory than a few of its largest tables, which are the ones in use.
    """

    def __init__(self) -> None:
        self._values: OrderedDict[int, Any] = OrderedDict()
        self._most: dict[str, int] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def codes(self, feature: Feature, values: Iterable[Any]) -> list[int]:
        """The codes of the different values of a column."""
        values = list(values)
        known = [MISSING if is_missing(v) else feature.code_of_level.get(v) for v in values]
        unseen = known.count(None)
        if not unseen:
            return cast("list[int]", known)
        with self._lock:
            codes = [self._code(v) if code is None else code for code, v in zip(known, values, strict=True)]
            self._most[feature.name] = max(self._most.get(feature.name, 0), unseen)
            for _ in range(len(self) - ROOM - TABLES * sum(self._most.values())):
                self._values.popitem(last=False)
        return codes

    def _code(self, value: Any) -> int:
        digest = hashlib.blake2b(f"{type(value).__qualname__} {value!r}".encode(), digest_size=8).digest()
        # 52 bits, so that a column of floats can hold a code as well.
        code = MISSING - 1 - (int.from_bytes(digest) >> 12)
        while (held := self._values.setdefault(code, value)) is not value and not _is_same(held, value):
            code -= 1
        self._values.move_to_end(code)
        return code

    def value(self, feature: Feature, code: int) -> Any:
        """The value that a code stands for; None where it is missing."""
        if code >= MISSING:
            return feature.levels[code] if code >= 0 else None
        with self._lock:
            if code in self._values:
                self._values.move_to_end(code)
                return self._values[code]
        problem, remedy = "has an unseen level that was read too long ago", "Read the rows again."
        raise SchemaError("table", [Fault(f"column {feature.name!r}", problem, remedy)])


UNSEEN = UnseenLevels()


def _is_same(held: Any, value: Any) -> bool:
    return type(held) is type(value) and bool(held == value)


def known_levels(feature: Feature, column: pd.Series) -> NDArray[np.int64] | None:
    """The codes of a few values if all are levels: a lookup is quicker for these."""
    is_text = isinstance(column.dtype, pd.StringDtype)
    values = column.array.to_numpy(dtype=object).tolist() if is_text else column.tolist()
    try:
        found = [feature.code_of_level[value] for value in values]
    except (KeyError, TypeError):
        return None
    return np.asarray(found, dtype=np.int64)


def written(feature: Feature, natural: NDArray[Any], dtype: Any) -> Any:
    """Natural values as a column of a dtype that can hold them."""
    if feature.is_number:
        return _written_number(feature, natural, dtype)
    if len(natural) and natural.min() < 0:
        return _written_others(feature, natural, dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        places = {level: i for i, level in enumerate(dtype.categories)}
        codes = np.asarray([places[level] for level in feature.levels], dtype=np.int64)
        return pd.Categorical.from_codes(codes[natural], dtype=dtype)
    levels = _levels_as(feature, dtype)
    # A slice for a single one: `take` costs many times as much.
    return levels[natural[0] : natural[0] + 1].copy() if len(natural) == 1 else levels.take(natural)


def _written_others(feature: Feature, natural: NDArray[np.int64], dtype: Any) -> Any:
    """Level codes with missing ones or values that are not levels, in the dtype if it can hold them."""
    back, codes = pd.factorize(natural)
    values = np.empty(len(codes), dtype=object)
    values[:] = [UNSEEN.value(feature, code) for code in codes.tolist()]
    if isinstance(dtype, pd.CategoricalDtype):
        every = dict.fromkeys([*dtype.categories, *(v for v in values if v is not None)])
        dtype = dtype if len(every) == len(dtype.categories) else pd.CategoricalDtype(list(every), dtype.ordered)
        return pd.Categorical(values[back], dtype=dtype)
    try:
        found = pd.array(values[back], dtype=dtype)
        if _is_kept(values[back], found):
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    return pd.array(values[back], dtype=object)


def _is_kept(values: NDArray[Any], column: Any) -> bool:
    """Whether a dtype holds values unchanged, without turning them into text."""
    pairs = zip(values.tolist(), column.tolist(), strict=True)
    return all(is_missing(a) == is_missing(b) and isinstance(a, str) == isinstance(b, str) for a, b in pairs)


def _written_number(feature: Feature, natural: NDArray[np.float64], dtype: Any) -> Any:
    if feature.kind == "date":
        return dates.written(natural, dtype)
    is_whole = pd.api.types.is_integer_dtype(dtype) or (feature.kind == "integer" and _is_object(dtype))
    gaps = np.isnan(natural)
    if is_whole and _is_plain(dtype):
        # What a column of whole numbers cannot hold makes it a wider one.
        limits = np.iinfo(dtype)
        if gaps.any():
            return natural
        fits = not len(natural) or (natural.min() >= limits.min and natural.max() <= limits.max)
        return np.rint(natural).astype(dtype if fits else np.int64)
    if _is_plain(dtype):
        return natural.astype(dtype)
    values: Any = np.where(gaps, 0, np.rint(natural)).astype(np.int64) if is_whole else natural
    if gaps.any():
        values = pd.Series(values, dtype=object).where(~gaps, None)
    return pd.array(values, dtype=dtype)


def _is_plain(dtype: Any) -> bool:
    """Whether a column is numpy's own numbers."""
    return isinstance(dtype, np.dtype) and dtype.kind in "iuf"


def _is_object(dtype: Any) -> bool:
    return bool(pd.api.types.is_object_dtype(dtype))


def _levels_as(feature: Feature, dtype: Any) -> Any:
    """A category's levels as an array of a dtype, made once."""
    key = ("levels", dtype)
    if key not in feature.by_dtype:
        levels = np.empty(len(feature.levels), dtype=object)
        levels[:] = feature.levels
        feature.by_dtype[key] = pd.array(levels, dtype=dtype)
    return feature.by_dtype[key]


def own_dtype(feature: Feature, column: pd.Series) -> Any:
    """The dtype of a training column in a form that can be saved: plain objects may be dates or text."""
    return dates.dtype_of_dates(column) if feature.kind == "date" else column.dtype


def fitting_dtype(feature: Feature, wanted: Any) -> Any:
    """`wanted` if every legal value survives it, else the nearest dtype that holds them all."""
    if isinstance(wanted, pd.CategoricalDtype) and feature.is_category:
        return _widened(feature, wanted)
    key = ("fitting", wanted)
    if key not in feature.by_dtype:
        survives = wanted is not None and _survives(feature, wanted)
        feature.by_dtype[key] = wanted if survives else DEFAULTS.get(feature.kind, object)
    return feature.by_dtype[key]


def _widened(feature: Feature, dtype: pd.CategoricalDtype) -> pd.CategoricalDtype:
    """The category with the levels that it lacks; an ordered one follows the order of the feature."""
    if set(feature.levels) <= set(dtype.categories):
        return dtype
    first, then = (feature.levels, dtype.categories) if dtype.ordered else (dtype.categories, feature.levels)
    return pd.CategoricalDtype(list(dict.fromkeys([*first, *then])), dtype.ordered)


def _survives(feature: Feature, dtype: Any) -> bool:
    """Whether legal values survive a round trip; for numbers the ends of the grid are tested."""
    if feature.top is None:
        return True
    ends = {0, min(1, feature.top), max(0, feature.top - 1), feature.top}
    codes = np.arange(len(feature.levels)) if feature.is_category else np.array(sorted(ends))
    legal = feature.at(codes)
    try:
        with np.errstate(all="ignore"):
            column = pd.Series(written(feature, legal, dtype), dtype=dtype)
            return bool(np.array_equal(natural(feature, column), legal))
    except (TypeError, ValueError, OverflowError, ArithmeticError, SchemaError, NotImplementedError):
        return False
