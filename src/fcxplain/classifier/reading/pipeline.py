"""What a scikit-learn model does to its input before its last estimator gets it, where that works column by column.

Then a column depends on one feature, and what a model makes of a feature can be looked up value by value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import ClassifierError
from ...schema import Natural
from ..estimators import chain
from .ensembles import refuse_replaced

Floats = NDArray[np.float64]

# Rows shown to the preprocessing at a time, and the most numbers that it may make of all of them.
SHOWN = 16_384
MOST_NUMBERS = 2**27
COLUMN_BY_COLUMN = frozenset(
    {
        "Binarizer",
        "KBinsDiscretizer",
        "MaxAbsScaler",
        "MinMaxScaler",
        "OneHotEncoder",
        "OrdinalEncoder",
        "PowerTransformer",
        "QuantileTransformer",
        "RobustScaler",
        "SelectKBest",
        "SelectPercentile",
        "SimpleImputer",
        "SplineTransformer",
        "StandardScaler",
        "TargetEncoder",
        "VarianceThreshold",
    }
)

Transform = Callable[[Any], Any]


def final_step(model: Any) -> tuple[Transform, Any]:
    """What a model does to its input, and the estimator that gets it; a ValueError where that is not known."""
    first, *further = chain(model)
    refuse_replaced(first)
    if not further:
        return _same, model
    then, last = final_step(further[0])
    if not hasattr(model, "steps") or len(model.steps) == 1:
        return then, last
    mixing = [type(step).__name__ for _, step in model.steps[:-1] if not is_column_by_column(step)]
    if mixing:
        raise ValueError(f"its step {mixing[0]} may make a column of several features")
    before = model[:-1].transform
    return (lambda x: then(before(x))), last


def is_column_by_column(step: Any) -> bool:
    """Whether each column that a fitted step makes depends on one column of its input at most."""
    if step is None or isinstance(step, str):
        return True
    refuse_replaced(step)
    kind = type(step)
    if not kind.__module__.startswith("sklearn."):
        return False
    if kind.__name__ == "Pipeline":
        return all(is_column_by_column(part) for _, part in step.steps)
    if kind.__name__ == "ColumnTransformer":
        return all(is_column_by_column(part) for _, part, _ in step.transformers_)
    if kind.__name__ == "FeatureUnion":
        return all(is_column_by_column(part) for _, part in step.transformer_list)
    if kind.__name__ == "FunctionTransformer":
        return _is_elementwise(step.func)
    return kind.__name__ in COLUMN_BY_COLUMN


def _is_elementwise(function: Any) -> bool:
    """Nothing, one of numpy's functions of one number, or what `train_classifier` begins with."""
    from ..training import natural_columns

    if isinstance(function, partial):
        return function.func is natural_columns
    return function is None or (isinstance(function, np.ufunc) and function.nin == 1)


def _same(x: Any) -> Any:
    return x


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """What a model's last estimator sees of values of features: its columns, each of one feature alone."""

    base: Floats
    """The columns of the row in which every feature has its first value."""
    values: list[Floats]
    """The same row with each feature at each of its values, `values x columns` by feature."""
    owned: list[NDArray[np.int64]]
    """The columns that change with each feature."""


def column_values(
    table: Callable[[Natural], pd.DataFrame], columns: Callable[[pd.DataFrame], Floats], values: Natural
) -> ColumnValues:
    """Push values of each feature through a model's preprocessing; `table` makes rows of natural columns."""
    ends = np.cumsum([len(own) for own in values.values()])
    natural = {}
    for (name, own), end in zip(values.items(), ends, strict=True):
        natural[name] = np.full(ends[-1], own[0])
        natural[name][end - len(own) : end] = own
    rows, parts = table(natural), []
    for start in range(0, len(rows), SHOWN):
        parts.append(_columns(columns, rows.iloc[start : start + SHOWN]))
        if parts[0].shape[1] * len(rows) > MOST_NUMBERS:
            raise ClassifierError("the model's columns are too many for this many legal values")
    x = np.concatenate(parts)
    # With every feature at its first value, these rows are all the same.
    base, split = x[0], np.split(x, ends[:-1])
    changed = np.stack([((own != base) & ~(np.isnan(own) & np.isnan(base))).any(axis=0) for own in split])
    if (changed.sum(axis=0) > 1).any():
        raise ClassifierError("a column that the model reads depends on several features")
    return ColumnValues(base, split, [np.flatnonzero(own) for own in changed])


def _columns(columns: Callable[[pd.DataFrame], Floats], rows: pd.DataFrame) -> Floats:
    try:
        return columns(rows)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise ClassifierError(f"the model's preprocessing failed on legal values. {told}") from error
