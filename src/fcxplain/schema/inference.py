"""Guessing the features of a table, and what is left open in those that a person gave."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterable

import pandas as pd

from ..errors import Fault, FcxWarning, SchemaError, did_you_mean
from .column import is_numeric
from .feature import Feature
from .grid import decimals_of, default_step
from .guessing import Guess, NoFeature, distinct_values, guess_feature, levels_of, unusable, widened
from .steps import decimal_step
from .validation import not_a_table


def infer(
    table: pd.DataFrame, *, label: str | None, immutable: tuple[str, ...], ignore: tuple[str, ...] = ()
) -> tuple[tuple[Feature, ...], tuple[Guess, ...]]:
    """Features and guesses for every column but the label and those to ignore.

    An identifier is left out with a warning; any other column that cannot be used is a fault.
    """
    _refuse(_table_faults(table, label, immutable, ignore))
    features, guesses, faults, left_out = [], [], list[Fault](), dict[str, Fault]()
    for name in [c for c in table.columns if c != label and c not in ignore]:
        try:
            feature, guess = guess_feature(name, table[name])
        except SchemaError as error:
            if isinstance(error, NoFeature) and name not in immutable:
                left_out[name] = error.faults[0]
            else:
                faults += error.faults
            continue
        features.append(feature.replace(mutable=name not in immutable))
        guesses.append(guess)
    if not faults and not features:
        faults = list(left_out.values())
        _refuse(faults or [Fault("table", "has no feature columns")])
    unusable_ones = [c for c in table.columns if any(f.place == f"column {c!r}" for f in faults)]
    _refuse(faults, f"; mend these columns, or leave them out with ignore={unusable_ones}")
    for name, fault in left_out.items():
        warnings.warn(leaving_out(name, fault), FcxWarning, stacklevel=3)
    return tuple(features), tuple(guesses)


def identifiers(table: pd.DataFrame, names: Iterable[str]) -> dict[str, Fault]:
    """Which of these columns of a table are identifiers or free text, and what gives them away."""
    found: dict[str, Fault] = {}
    for name in names:
        try:
            # What is no text is no identifier that anybody could tell from a number.
            _ = None if is_numeric(table[name]) else guess_feature(name, table[name])
        except NoFeature as error:
            found[name] = error.faults[0]
        except SchemaError:
            continue
    return found


def leaving_out(name: str, fault: Fault, also: str = "") -> str:
    """What to say of an identifier that is left out, with the words by which a person agrees; `also` has other ways."""
    agree = f"If that is right, say so with ignore=[{name!r}] (--ignore {shlex.quote(name)} on the command line)"
    return f"{fault.place} is left out, since it {fault.problem}, as identifiers and free text have. {agree}{also}."


def _refuse(faults: list[Fault], remedy: str = "") -> None:
    if faults:
        raise SchemaError(f"no schema can be inferred from this table{remedy}", faults)


def complete(features: Iterable[Feature], table: pd.DataFrame) -> tuple[Feature, ...]:
    """Fill in bounds, steps and levels that were left open, from the values of a table."""
    done: list[Feature] = []
    faults: list[Fault] = []
    for feature in features:
        try:
            done.append(feature if feature.is_complete else _filled(feature, table[feature.name]))
        except SchemaError as error:
            faults += error.faults
    if faults:
        raise SchemaError("the schema cannot be completed from this table", faults)
    return tuple(done)


def _filled(feature: Feature, column: pd.Series) -> Feature:
    if feature.is_category:
        return feature.replace(levels=levels_of(feature.name, column))
    if not is_numeric(column) and not pd.api.types.is_bool_dtype(column.dtype):
        remedy = "Convert it to numbers."
        raise unusable(feature.name, f"should be {feature.kind} but is {column.dtype}", remedy)
    values = distinct_values(feature.name, column)
    low = float(values[0]) if feature.low is None else feature.low
    high = float(values[-1]) if feature.high is None else feature.high
    step = feature.step or decimal_step(values) or default_step(low, high)
    # Bounds that the schema gives stand as they are; those of the data are widened to hold every row.
    down, up = widened(low, high, 10.0 ** -decimals_of(step))
    return feature.replace(
        low=down if feature.low is None else low, high=up if feature.high is None else high, step=step
    )


def _table_faults(
    table: pd.DataFrame, label: str | None, immutable: tuple[str, ...], ignore: tuple[str, ...]
) -> list[Fault]:
    if not isinstance(table, pd.DataFrame):
        return [not_a_table(table)]
    faults = [
        Fault(f"column {c!r}", "stands in the table more than once", "Rename or drop one.")
        for c in table.columns[table.columns.duplicated()].unique()
    ]
    faults += [
        Fault(f"column {c!r}", f"has a {type(c).__name__} for a name", "Name it with text.")
        for c in table.columns
        if not isinstance(c, str)
    ]
    wanted = [*immutable, *ignore, *([label] if label is not None else [])]
    faults += [
        Fault(f"column {name!r}", "is not in the table", did_you_mean(name, table.columns))
        for name in wanted
        if name not in table.columns
    ]
    faults += [
        Fault(f"column {name!r}", "is to be ignored, but is named as a feature or the label too", "Drop one.")
        for name in ignore
        if name in (*immutable, label)
    ]
    if not len(table):
        faults.append(Fault("table", "has no rows", "Give it at least one."))
    return faults
