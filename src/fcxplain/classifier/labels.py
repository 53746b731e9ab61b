"""The true classes of a training table: which column holds them, and how well a model's predictions agree with them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, Fault, did_you_mean, some
from ..outcome import as_target, read_range
from ..schema import Schema, level_named
from .estimators import is_estimator, is_regressor
from .protocol import CheckedClassifier, Classifier

# How much better another order must agree, and by how many standard errors, to exclude a bad model or chance.
FAR, ERRORS = 0.1, 4.0
# A model with the same prediction for all rows gives no order, unless it predicts the rarer class.
FAR_ALONE = 0.3


@dataclass(frozen=True)
class Agreement:
    """The share of rows that agree, with equal weight per class: for the given order of the names, and for the best."""

    given: float
    best: float
    order: tuple[Any, ...]
    """The names in the order that agrees best with the model's own classes."""
    is_other: bool
    """Whether the best order differs, and is too much better for this to be chance."""


def agreement(answers: NDArray[np.int64], labels: pd.Series, names: Sequence[Any]) -> Agreement | None:
    """Agreement of predictions, as indices of the model's classes, with labels; None if no label is among the names."""
    # Slow to load, and rarely needed.
    from scipy.optimize import linear_sum_assignment

    codes = pd.Index(names, tupleize_cols=False).get_indexer(pd.Index(labels, tupleize_cols=False))
    known = codes >= 0
    if not known.any():
        return None
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, (answers[known], codes[known]), 1)
    # A class that no label has gives no information.
    seen = np.flatnonzero(counts.sum(axis=0))
    label = np.arange(len(names))
    is_constant = bool((counts.sum(axis=1) > 0).sum() == 1)
    rows = np.full(len(names), known.sum() / len(seen)) if is_constant else np.maximum(counts.sum(axis=0), 1)
    shares = counts / rows
    # Without evidence for another order, the given one stays.
    sure = shares[np.ix_(seen, seen)] + 1e-9 * np.eye(len(seen))
    label[seen] = seen[linear_sum_assignment(sure, maximize=True)[1]]
    given, best = (float(s[seen].mean()) for s in (np.diag(shares), shares[np.argsort(label), np.arange(len(names))]))
    is_other = best - given > FAR_ALONE if is_constant else _is_other(shares, rows, label)
    return Agreement(given, best, tuple(names[i] for i in label.tolist()), bool(is_other))


def _is_other(shares: NDArray[np.float64], rows: NDArray[np.float64], label: NDArray[np.int64]) -> bool:
    """Whether the classes that would be renamed then agree far better."""
    moved = [(i, j) for i, j in enumerate(label.tolist()) if i != j]
    if not moved:
        return False
    gap = float(np.mean([shares[i, j] - shares[j, j] for i, j in moved]))
    error = float(np.sqrt(sum(1 / rows[j] for _, j in moved))) / len(moved)
    return gap > max(FAR, ERRORS * error)


# A column with more values than this does not hold classes.
MOST_CLASSES = 100


def split_label(
    train: pd.DataFrame, label: str | None, schema: Schema | None, model: Any, classes: tuple[Any, ...] | None
) -> tuple[pd.DataFrame, pd.Series | None]:
    """Split features from true classes. An unnamed label is recognised as the remaining column."""
    if label is None:
        label = _leftover(train, schema, model, classes)
    if label is None:
        return train, None
    if label not in train.columns:
        remedy = did_you_mean(label, train.columns) or f"The table has {some(train.columns)}."
        raise DataError("", [Fault(f"label {label!r}", "is not a column of train", remedy)])
    if schema is not None and label in schema:
        raise DataError(
            "", [Fault(f"label {label!r}", "is also a feature of the schema", "Remove it from one of the two.")]
        )
    return train.drop(columns=label), train[label]


def classes_of(labels: pd.Series | None, model: Any) -> tuple[Any, ...] | None:
    """The labels' classes in order, for models that do not name their own."""
    if labels is None or isinstance(model, Classifier) or hasattr(model, "classes_"):
        return None
    values = _values(labels)
    return values if 2 <= len(values) <= MOST_CLASSES else None


def checked_target(target: Any, classes: tuple[Any, ...], named_so: Callable[[], str] | None = None) -> Any:
    """The class, or the `Outcome`, that the target names; see `as_target`.

    `named_so` returns a remedy for names that belong to a column and not to the model.
    """
    if target is None and len(classes) > 2:
        raise DataError(f"there are {len(classes)} classes, so a target must be named: {some(classes)}")
    try:
        return as_target(target, classes)
    except DataError:
        remedy = named_so() if named_so is not None and classes else ""
        return as_target(target, classes, remedy)


def is_regression(model: Any, target: Any, classes: tuple[Any, ...] | None, labels: pd.Series | None) -> bool:
    """Whether a model predicts numbers: it declares so, or its target is a range and nothing names classes."""
    if isinstance(model, CheckedClassifier):
        return model.regression
    if classes is not None or isinstance(model, Classifier) or hasattr(model, "classes_"):
        return False
    if is_estimator(model) and not hasattr(model, "predict_proba") and is_regressor(model):
        return True
    is_class = labels is not None and bool((labels.astype(object) == target).any())
    return read_range(target) is not None and not is_class and not hasattr(model, "predict_proba")


def called_otherwise(
    target: Any, train: pd.DataFrame, features: Iterable[str], answers: NDArray[np.int64], classes: tuple[Any, ...]
) -> str:
    """The remedy for a target that is not a class of the model, but a value of a column that the model does not read.

    `answers` are indices of the model's classes, for the rows of `train`.
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
    names = f"The model calls its classes {some(classes)}, and the column {column!r} {some(values)}"
    option = f"--classes {shlex.quote(','.join(map(str, found.order)))} on the command line"
    return f"{names}: name them in the model's order, classes={found.order!r} ({option}; {order})."


def _leftover(train: pd.DataFrame, schema: Schema | None, model: Any, named: tuple[Any, ...] | None) -> str | None:
    """The only column that is not a feature and could hold classes; None if there are several or none."""
    names = schema.names if schema is not None else names_read(model)
    extra = [c for c in train.columns if c not in names] if names else []
    own = getattr(model, "classes", None) if isinstance(model, Classifier) else None
    own = own if own is not None else getattr(model, "classes_", None)
    classes = own if named is None else named
    if len(extra) != 1 or classes is None:
        return None
    return extra[0] if train[extra[0]].dropna().isin(list(classes)).all() else None


def names_read(model: Any) -> tuple[str, ...]:
    """The columns that a model reports it was fitted on; empty if it does not report them."""
    return tuple(map(str, getattr(model, "feature_names_in_", ())))


def _values(labels: pd.Series) -> tuple[Any, ...]:
    """The different values in order."""
    try:
        values = labels.dropna().unique().tolist()
        return tuple(sorted(values, key=lambda v: (str(type(v)), v)))
    except TypeError:
        # Lists and other unhashable values are not classes.
        return ()
