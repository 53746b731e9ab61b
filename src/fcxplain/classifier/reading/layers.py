"""Linear models and multilayer perceptrons of scikit-learn as plain layers: weights and activations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .ensembles import refuse_replaced

Floats = NDArray[np.float64]

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
