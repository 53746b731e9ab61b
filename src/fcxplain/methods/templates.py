"""Counterfactual templates: which features may change, for all rows alike or for each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, Fault, did_you_mean

Template = Any
"""A list of names, a list of such lists, or a table of booleans."""
Bools = NDArray[np.bool_]


def read_template(template: Template | None, names: Sequence[str], rows: pd.DataFrame) -> Bools:
    """Whether each feature of each row may change, `rows x features`; None is all of them."""
    if template is None:
        return np.ones((len(rows), len(names)), dtype=bool)
    if isinstance(template, pd.DataFrame):
        return _of_table(template, names, rows)
    if isinstance(template, str) or not isinstance(template, Sequence):
        raise DataError("", [Fault("template", f"is {template!r}", "Give a list of names, or one for each row.")])
    if all(isinstance(name, str) for name in template):
        return np.repeat(_of_lists([template], names), len(rows), axis=0)
    _refuse([*_length(len(template), rows), *_no_lists(template)])
    return _of_lists(template, names)


def _of_table(table: pd.DataFrame, names: Sequence[str], rows: pd.DataFrame) -> Bools:
    faults = [*_length(len(table), rows), *_strange(list(table.columns), names)]
    mixed = [name for name in table.columns if table[name].dtype != bool]
    faults += [Fault(f"template: {name!r}", "holds other values than True and False") for name in mixed]
    by_place = table.index.equals(pd.RangeIndex(len(table)))
    if not by_place and not table.index.equals(rows.index):
        faults.append(Fault("template", "has other index labels than the rows", "Give it the index of the rows."))
    _refuse(faults)
    return np.asarray(table.reindex(columns=list(names), fill_value=False), dtype=bool)


def _of_lists(lists: Sequence[Sequence[str]], names: Sequence[str]) -> Bools:
    _refuse(_strange(list(dict.fromkeys(name for one in lists for name in one)), names))
    may = np.zeros((len(lists), len(names)), dtype=bool)
    place = {name: i for i, name in enumerate(names)}
    for line, one in zip(may, lists, strict=True):
        line[[place[name] for name in one]] = True
    return may


def _length(given: int, rows: pd.DataFrame) -> list[Fault]:
    if given == len(rows):
        return []
    return [Fault("template", f"has {given:,} lines for {len(rows):,} rows", "Give one for each row, or one for all.")]


def _no_lists(template: Sequence[object]) -> list[Fault]:
    wrong = [i for i, one in enumerate(template) if isinstance(one, str) or not isinstance(one, Sequence)]
    return [Fault(f"template, line {i}", f"is {template[i]!r}", "Give a list of names.") for i in wrong]


def _strange(given: Sequence[object], names: Sequence[str]) -> list[Fault]:
    return [Fault(f"template: {n!r}", "is no feature", did_you_mean(n, names)) for n in given if n not in names]


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise DataError("this template cannot be used", faults)
