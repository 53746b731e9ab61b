"""What stands between raw columns and a model: steps that make each of their columns of a single one.

Only such steps are seen through, and only those that are known: a column that mixes two features cannot be told from
one that does not by trying.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .estimators import chain
from .trees_reading import refuse_replaced

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
    from .training import natural_columns

    if isinstance(function, partial):
        return function.func is natural_columns
    return function is None or (isinstance(function, np.ufunc) and function.nin == 1)


def _same(x: Any) -> Any:
    return x
