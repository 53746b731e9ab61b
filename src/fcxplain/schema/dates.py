"""Dates as days: whole numbers since 1970-01-01 to calculate with, and ISO text (2026-12-31) for people and files."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .definition import is_missing

ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# What databases and pandas append to a date that they store as a timestamp.
MIDNIGHT = re.compile(r"[T ]00:00(:00(\.0+)?)?$")
# The range of Python's dates and of four-digit years.
FIRST, LAST = (int(np.datetime64(text, "D").astype(np.int64)) for text in ("0001-01-01", "9999-12-31"))
DEFAULT = np.dtype("datetime64[s]")
_OBJECTS = ("date", "datetime", "datetime64")
_A_DAY = np.timedelta64(1, "D")


def day_of(value: Any) -> float:
    """The day of a single date (text, date, timestamp) or of a number of days; NaN for a missing one.

    A time of day is a fraction. Anything else is a `ValueError`.
    """
    if is_missing(value):
        return np.nan
    if isinstance(value, str):
        text = MIDNIGHT.sub("", value.strip())
        if not ISO.fullmatch(text):
            raise ValueError(f"{value!r} is not a date such as 2026-12-31")
        return float(np.datetime64(datetime.date.fromisoformat(text), "D").astype(np.int64))
    if isinstance(value, datetime.datetime):
        return float(_days(np.asarray([value.replace(tzinfo=None)], dtype="datetime64[us]"))[0])
    if isinstance(value, datetime.date | np.datetime64):
        return float(_days(np.asarray([value], dtype="datetime64[us]"))[0])
    return float(value)


def iso(day: float) -> str:
    """A day as text; NaN is not allowed."""
    return str(np.datetime64(round(day), "D"))


def is_date_column(column: pd.Series) -> bool:
    """Whether a column holds dates by its dtype or its objects, or text that is a date throughout."""
    if _has_dates(column.dtype):
        return True
    kind = pd.api.types.infer_dtype(column, skipna=True) if _is_loose(column.dtype) else ""
    return kind in _OBJECTS or (kind == "string" and is_iso_text(column))


def is_iso_text(column: pd.Series) -> bool:
    """Whether every text that is there is a date of the calendar, as 2026-12-31."""
    # The first value rules out most text columns.
    present = column.dropna()
    if not len(present) or not ISO.fullmatch(str(present.iloc[0]).strip()):
        return False
    try:
        _ = [day_of(text) for text in present.unique()]
    except ValueError:
        return False
    # A model trained on text gets dates in this form.
    return not any(MIDNIGHT.search(str(text)) for text in present.unique())


def days_in(column: pd.Series) -> NDArray[np.float64]:
    """The days of a column of dates; missing is NaN, a time of day a fraction, anything else a `ValueError`."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return _days(column.to_numpy())
    if isinstance(dtype, pd.DatetimeTZDtype):
        return _days(column.dt.tz_localize(None).to_numpy())
    if isinstance(dtype, pd.ArrowDtype) and _has_dates(dtype):
        naive = column.dt.tz_localize(None) if "tz=" in str(dtype) else column
        return _days(naive.astype("datetime64[us]").to_numpy())
    if not _is_loose(dtype):
        raise ValueError(f"{dtype} is not a dtype of dates")
    return _looked_up(column)


def written(days: NDArray[np.float64], dtype: Any) -> Any:
    """Days as an array of a dtype; a dtype that cannot hold dates is a `TypeError`."""
    whole = np.rint(np.nan_to_num(days)).astype(np.int64).astype("datetime64[D]")
    whole[np.isnan(days)] = np.datetime64("NaT")
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return whole.astype(dtype)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return pd.DatetimeIndex(whole.astype(f"datetime64[{dtype.unit}]")).tz_localize(dtype.tz).array
    if pd.api.types.is_object_dtype(dtype):
        return whole.astype(object)
    if isinstance(dtype, pd.ArrowDtype) and _has_dates(dtype):
        zone = getattr(dtype.pyarrow_dtype, "tz", None)
        return pd.Series(whole.astype("datetime64[us]")).dt.tz_localize(zone).astype(dtype).array
    if pd.api.types.is_string_dtype(dtype):
        texts = np.datetime_as_string(whole).astype(object)
        texts[np.isnat(whole)] = None
        return pd.array(texts, dtype=dtype)
    raise TypeError(f"{dtype} holds no dates")


def dtype_of_dates(column: pd.Series) -> Any:
    """The dtype of a column of dates, more exactly: plain objects may be dates or text."""
    if not pd.api.types.is_object_dtype(column.dtype):
        return column.dtype
    kind = pd.api.types.infer_dtype(column, skipna=True)
    return column.dtype if kind == "date" else pd.Series(["2026-12-31"]).dtype if kind == "string" else DEFAULT


def _days(moments: NDArray[Any]) -> NDArray[np.float64]:
    """Days and fractions of them; whole ones are exact."""
    floor = moments.astype("datetime64[D]")
    days = floor.astype(np.int64) + (moments - floor.astype(moments.dtype)) / _A_DAY
    return np.asarray(np.where(np.isnat(moments), np.nan, days))


def _looked_up(column: pd.Series) -> NDArray[np.float64]:
    codes, found = pd.factorize(column)
    days = np.asarray([*map(day_of, found.tolist()), np.nan])
    return np.asarray(days[codes])


def _has_dates(dtype: Any) -> bool:
    """Whether a dtype is one of dates or of moments."""
    if isinstance(dtype, pd.ArrowDtype):
        return str(dtype).startswith(("date", "timestamp"))
    return bool(pd.api.types.is_datetime64_any_dtype(dtype))


def _is_loose(dtype: Any) -> bool:
    """Whether a dtype may hold text."""
    return bool(pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype))
