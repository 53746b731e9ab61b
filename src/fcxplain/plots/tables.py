"""Tables of results in long form, checked and averaged over seeds.

One line for each thing measured: `value`, one line per seed, of which mean and standard deviation are taken; or
`mean` and, where it is known, `deviation`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ..errors import DataError, Fault, did_you_mean, some


def averaged(table: pd.DataFrame, keys: Sequence[str], optional: Sequence[str], what: str) -> pd.DataFrame:
    """One line per key, in the order of their first lines, with `mean` and `deviation`; missing figures are left out.

    Keys that are `optional` may be missing from the table, and are empty text then. One seed has no deviation.
    """
    if not isinstance(table, pd.DataFrame):
        raise DataError(f"{what} is a {type(table).__name__}, not a DataFrame in long form")
    numbers = ["value"] if "value" in table else ["mean", "deviation"]
    _check(table, keys, numbers, what)
    own = table.assign(**{name: "" for name in optional if name not in table})
    by = [*keys, *optional]
    own = own[own[numbers[0]].notna()]
    if numbers == ["value"]:
        found = own.groupby(by, sort=False, dropna=False)["value"].agg(mean="mean", deviation="std").reset_index()
    else:
        found = own.reindex(columns=[*by, *numbers])
        twice = found[found.duplicated(by)][by].itertuples(index=False, name=None)
        faults = [Fault(f"{what}, {some(key)}", "stands in two lines", "Give one mean, or `value`.") for key in twice]
        if faults:
            raise DataError("", faults)
    return found.astype({"mean": float, "deviation": float})


def _check(table: pd.DataFrame, keys: Sequence[str], numbers: Sequence[str], what: str) -> None:
    faults = [
        Fault(f"{what}, column {name!r}", "is missing", did_you_mean(name, table.columns) or _form(keys))
        for name in (*keys, numbers[0])
        if name not in table
    ]
    for name in numbers:
        if name in table and not pd.api.types.is_numeric_dtype(table[name]):
            faults.append(Fault(f"{what}, column {name!r}", f"holds {table[name].dtype}, not numbers"))
    if not faults and table[numbers[0]].notna().sum() == 0:
        faults.append(Fault(what, "has no figures"))
    if faults:
        raise DataError("nothing can be drawn", faults)


def _form(keys: Sequence[str]) -> str:
    return f"Needed are {', '.join(keys)}, and value, or mean and deviation."
