"""Roles of the columns of a user's table: one labels the rows, some are not features, the rest are."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pandas as pd

from ..errors import DataError, Fault, FcxWarning, did_you_mean, some
from .inference import identifiers, leaving_out
from .schema import Schema
from .validation import EMPTY


def called_by(table: pd.DataFrame, index: str | None, schema: Schema | None, where: str) -> pd.DataFrame:
    """The table with a column as its index, which is then not a feature."""
    if index is None:
        return table
    faults = list(_index_faults(table, index, schema))
    if faults:
        raise DataError(where, faults)
    return table.set_index(index)


def _index_faults(table: pd.DataFrame, index: str, schema: Schema | None) -> Iterator[Fault]:
    place = f"index {index!r}"
    if index not in table.columns:
        yield _no_column(place, index, table)
        return
    if schema is not None and index in schema:
        yield Fault(place, "is also a feature of the schema", "Take it out of one.")
    empty, again = table[index].isna(), table[index].duplicated()
    if empty.any():
        yield Fault(place, EMPTY, "Fill it in, or choose another column.", int(empty.sum()), empty.idxmax())
    elif again.any():
        problem = f"has the same value in several rows, e.g. {some(table[index][again].tolist()[:1])}"
        yield Fault(place, problem, "Choose another column.", int(again.sum()), again.idxmax())


def without_ignored(
    table: pd.DataFrame, ignore: tuple[str, ...], features: tuple[str, ...], label: str | None, where: str = ""
) -> pd.DataFrame:
    """The table without ignored columns; unknown names, known features and the label are refused."""
    faults = [_no_column(f"ignore {n!r}", n, table) for n in ignore if n not in table.columns]
    faults += [
        Fault(f"ignore {n!r}", "is also named as the label or as a feature", "Drop one of the two.")
        for n in ignore
        if n == label or n in features
    ]
    if faults:
        raise DataError(where, faults)
    return table.drop(columns=list(ignore))


def without_identifiers(
    table: pd.DataFrame, label: str, features: tuple[str, ...]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The table without identifiers, with a warning and a note for each; known `features` stay."""
    others = [n for n in table.columns if n != label and n not in features]
    found = identifiers(table, others)
    # If nothing is left, the error about the schema says more.
    if len(found) == len(others):
        return table, ()
    for name, fault in found.items():
        message = leaving_out(name, fault, f", or use it as the row labels with index={name!r}")
        warnings.warn(message, FcxWarning, stacklevel=3)
    notes = tuple(f"Left out {name!r}, which {fault.problem}." for name, fault in found.items())
    return table.drop(columns=list(found)), notes


def _no_column(place: str, name: str, table: pd.DataFrame) -> Fault:
    return Fault(place, "is not a column", did_you_mean(name, table.columns) or f"The table has {some(table.columns)}.")
