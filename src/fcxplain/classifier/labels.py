"""The column of a training table that holds the true classes: which one it is, and what it calls them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, Fault, did_you_mean, some
from ..schema import Schema, level_named
from .agreement import agreement
from .protocol import Classifier

# A column with more values than this holds no classes.
MOST_CLASSES = 100


def split_label(
    train: pd.DataFrame, label: str | None, schema: Schema | None, model: Any, classes: tuple[Any, ...] | None
) -> tuple[pd.DataFrame, pd.Series | None]:
    """Features and true classes apart. A label that nobody named is recognised by what is left over."""
    if label is None:
        label = _leftover(train, schema, model, classes)
    if label is None:
        return train, None
    if label not in train.columns:
        remedy = did_you_mean(label, train.columns) or f"The table has {some(train.columns)}."
        raise DataError("", [Fault(f"label {label!r}", "is not a column of train", remedy)])
    if schema is not None and label in schema:
        raise DataError("", [Fault(f"label {label!r}", "is also a feature of the schema", "Take it out of one.")])
    return train.drop(columns=label), train[label]


def classes_of(labels: pd.Series | None, model: Any) -> tuple[Any, ...] | None:
    """The labels' classes in order, for models that do not name their own."""
    if labels is None or isinstance(model, Classifier) or hasattr(model, "classes_"):
        return None
    values = _values(labels)
    return values if 2 <= len(values) <= MOST_CLASSES else None


def checked_target(
    target: Any, classes: tuple[Any, ...], named_so: Callable[[tuple[Any, ...]], str] | None = None
) -> Any:
    """The class that the target names; text such as '1' finds the class 1.

    `named_so` knows a remedy for names that are a column's and not the model's.
    """
    if target is None:
        if len(classes) > 2:
            raise DataError(f"there are {len(classes)} classes, so a target must be named: {some(classes)}")
        return None
    meant = level_named(target, classes)
    if meant is None:
        remedy = named_so(classes) if named_so is not None else ""
        remedy = remedy or f"{did_you_mean(target, classes)} They are {some(classes)}.".strip()
        raise DataError("", [Fault(f"target {target!r}", "is not one of the classes", remedy)])
    return meant


def called_otherwise(
    target: Any, train: pd.DataFrame, features: Iterable[str], answers: NDArray[np.int64], classes: tuple[Any, ...]
) -> str:
    """The remedy for a target that is no class of the model, but a value of a column that the model does not read.

    `answers` are places of the model's classes, for the rows of `train`.
    """
    read = set(features)
    for column in (c for c in train.columns if c not in read):
        values = _values(train[column])
        if len(values) == len(classes) and level_named(target, values) is not None:
            break
    else:
        return ""
    found = agreement(answers, train[column], values)
    assert found is not None
    backwards = agreement(answers, train[column], found.order[::-1])
    is_sure = backwards is not None and backwards.is_other
    order = f"as which they agree on {found.best:.0%} of the rows" if is_sure else "or in another order"
    told = f"The model calls its classes {some(classes)}, and the column {column!r} {some(values)}"
    option = f"--classes {shlex.quote(','.join(map(str, found.order)))} on the command line"
    return f"{told}: name them in the model's order, classes={found.order!r} ({option}; {order})."


def _leftover(train: pd.DataFrame, schema: Schema | None, model: Any, named: tuple[Any, ...] | None) -> str | None:
    """The one column that is no feature and holds classes only, if there is just one."""
    names = schema.names if schema is not None else names_read(model)
    extra = [c for c in train.columns if c not in names] if names else []
    own = getattr(model, "classes", None) if isinstance(model, Classifier) else None
    own = own if own is not None else getattr(model, "classes_", None)
    classes = own if named is None else named
    if len(extra) != 1 or classes is None:
        return None
    return extra[0] if train[extra[0]].dropna().isin(list(classes)).all() else None


def names_read(model: Any) -> tuple[str, ...]:
    """The columns that a model says it was fitted on; none where it does not say."""
    return tuple(map(str, getattr(model, "feature_names_in_", ())))


def _values(labels: pd.Series) -> tuple[Any, ...]:
    """The different values in order."""
    try:
        values = labels.dropna().unique().tolist()
        return tuple(sorted(values, key=lambda v: (str(type(v)), v)))
    except TypeError:
        # Lists and the like are nobody's classes.
        return ()
