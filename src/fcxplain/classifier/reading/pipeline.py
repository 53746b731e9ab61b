"""Scikit-learn models other than trees as numbers: their preprocessing, and linear models and perceptrons as layers.

Preprocessing must work column by column. Then each column depends on one feature, and can be tabulated by its values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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

# Rows preprocessed at a time, and the most numbers that the output may have in all.
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


def final_step(model: Any) -> tuple[Callable[[Any], Any], Any]:
    """The preprocessing of a model, and its last estimator; a ValueError if the preprocessing is unknown."""
    first, *further = chain(model)
    refuse_replaced(first)
    if not further:
        return (lambda x: x), model
    then, last = final_step(further[0])
    if not hasattr(model, "steps") or len(model.steps) == 1:
        return then, last
    mixing = [type(step).__name__ for _, step in model.steps[:-1] if not is_column_by_column(step)]
    if mixing:
        raise ValueError(f"its step {mixing[0]} may combine several features in a column")
    before = model[:-1].transform
    return (lambda x: then(before(x))), last


def is_column_by_column(step: Any) -> bool:
    """Whether each output column of a fitted step depends on at most one input column."""
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
    """Whether a function is None, a numpy function of one number, or the first step in `train_classifier`."""
    from ..training import natural_columns

    if isinstance(function, partial):
        return function.func is natural_columns
    return function is None or (isinstance(function, np.ufunc) and function.nin == 1)


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """The input of a model's last estimator, tabulated by values of features; each column depends on one feature."""

    base: Floats
    """The columns for the row in which every feature has its first value."""
    values: list[Floats]
    """The same row with each feature at each of its values, `values x columns` by feature."""
    owned: list[NDArray[np.int64]]
    """The columns that change with each feature."""


def column_values(
    table: Callable[[Natural], pd.DataFrame], columns: Callable[[pd.DataFrame], Floats], values: Natural
) -> ColumnValues:
    """Apply a model's preprocessing to the values of each feature; `table` makes rows from natural columns."""
    ends = np.cumsum([len(own) for own in values.values()])
    natural = {}
    for (name, own), end in zip(values.items(), ends, strict=True):
        natural[name] = np.full(ends[-1], own[0])
        natural[name][end - len(own) : end] = own
    rows, parts = table(natural), []
    for start in range(0, len(rows), SHOWN):
        try:
            parts.append(columns(rows.iloc[start : start + SHOWN]))
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise ClassifierError(f"the model's preprocessing failed on legal values. {said}") from error
        if parts[0].shape[1] * len(rows) > MOST_NUMBERS:
            raise ClassifierError("the model has too many columns for this many legal values")
    x = np.concatenate(parts)
    # With every feature at its first value, these rows are all equal.
    base, split = x[0], np.split(x, ends[:-1])
    changed = np.stack([((own != base) & ~(np.isnan(own) & np.isnan(base))).any(axis=0) for own in split])
    if (changed.sum(axis=0) > 1).any():
        raise ClassifierError("a column that the model reads depends on several features")
    return ColumnValues(base, split, [np.flatnonzero(own) for own in changed])


# Classifiers that are a weighted sum of columns before a logistic function or a softmax.
LINEAR = frozenset(
    {"LinearDiscriminantAnalysis", "LogisticRegression", "LogisticRegressionCV", "RidgeClassifier", "SGDClassifier"}
)
# Regressors that are a weighted sum of columns.
LINEAR_REGRESSORS = frozenset(
    {
        "ARDRegression",
        "BayesianRidge",
        "ElasticNet",
        "ElasticNetCV",
        "HuberRegressor",
        "Lars",
        "Lasso",
        "LassoCV",
        "LassoLars",
        "LinearRegression",
        "LinearSVR",
        "QuantileRegressor",
        "Ridge",
        "RidgeCV",
        "SGDRegressor",
        "TheilSenRegressor",
    }
)
PERCEPTRONS = frozenset({"MLPClassifier", "MLPRegressor"})


def _relu(x: Floats) -> Floats:
    return np.maximum(x, 0.0)


def _logistic(x: Floats) -> Floats:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * x))


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "identity": np.asarray,
    "logistic": _logistic,
    "relu": _relu,
    "tanh": np.tanh,
}


@dataclass(frozen=True, eq=False)
class Layers:
    """Successive layers, `inputs x outputs` each, with an activation in between."""

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    activation: Callable[[Floats], Floats]

    def after_first(self, hidden: Floats) -> Floats:
        """Scores, `n x classes`, from the outputs of the first layer."""
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            hidden = self.activation(hidden) @ weight + bias
        # For two classes, models have only the score of the second; for a regressor, that is its output.
        return hidden if hidden.shape[1] > 1 else np.column_stack([np.zeros(len(hidden)), hidden])


def is_layered(model: Any) -> bool:
    """Whether an estimator is of a scikit-learn class that is read here."""
    kind = type(model)
    return kind.__module__.startswith("sklearn.") and kind.__name__ in LINEAR | LINEAR_REGRESSORS | PERCEPTRONS


def read_layers(model: Any) -> Layers | None:
    """The layers of a fitted estimator, or None if it is of another kind."""
    if not is_layered(model):
        return None
    refuse_replaced(model)
    if type(model).__name__ in PERCEPTRONS:
        return Layers(_doubles(model.coefs_), _doubles(model.intercepts_), ACTIVATIONS[model.activation])
    return Layers(_doubles([np.atleast_2d(model.coef_).T]), _doubles([model.intercept_]), ACTIVATIONS["identity"])


def _doubles(arrays: Iterable[Any]) -> tuple[Floats, ...]:
    return tuple(np.atleast_1d(np.array(a, dtype=np.float64)) for a in arrays)
