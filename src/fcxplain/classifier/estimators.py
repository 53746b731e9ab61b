"""Scikit-learn estimators and pipelines on raw columns, and models with the same interface (XGBoost, LightGBM)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_object_dtype, is_string_dtype

from ..errors import ClassifierError, Fault, did_you_mean, some
from ..schema import Schema
from .protocol import AdapterOptions, CheckedClassifier, checked
from .rows import matched

# Separators between a feature's name and its level in the names of one-hot columns.
MARKS = ("_", "=")
# Attributes in which scikit-learn's wrappers keep the fitted model that they delegate to.
SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
THRESHOLDED = ("FixedThresholdClassifier", "TunedThresholdClassifierCV")
INSIDE = {
    "Pipeline": "steps",
    "FrozenEstimator": "estimator",
    **dict.fromkeys(SEARCHES, "best_estimator_"),
    **dict.fromkeys(THRESHOLDED, "estimator_"),
}


@dataclass(frozen=True)
class Asking:
    """Queries an estimator on rows in the form that it expects: with its own column names, or as plain arrays."""

    model: Any
    shown: Callable[[pd.DataFrame], Any]
    _prepared: list[tuple[pd.DataFrame, Any]] = field(default_factory=list, repr=False, compare=False)
    """The last rows, and their output of all pipeline steps but the last; see `preparing_once`."""

    def __call__(self, rows: pd.DataFrame) -> object:
        """The estimator's probabilities, or a regressor's output.

        If it needs categories but gets text, the error explains how to pass them.
        """
        return self._asked("predict" if is_regressor(self.model) else "predict_proba", rows)

    def predict(self, rows: pd.DataFrame) -> object:
        """The classes by the estimator's own `predict`."""
        return self._asked("predict", rows)

    @property
    def adds_up(self) -> bool:
        """Whether it is a linear model or a perceptron, whose sums may round differently in each batch."""
        *_, last = chain(self.model)
        return hasattr(last, "coef_") or hasattr(last, "coefs_")

    def _asked(self, question: str, rows: pd.DataFrame) -> object:
        shown = self.shown(rows)
        try:
            if isinstance(shown, pd.DataFrame) and _is_plain_pipeline(self.model):
                return getattr(self.model.steps[-1][1], question)(self._prepare(shown))
            return getattr(self.model, question)(shown)
        except (TypeError, ValueError) as error:
            names = _text_columns(shown)
            if not names or hasattr(self.model, "steps") or "categor" not in str(error):
                raise
            raise ClassifierError("", [_wants_categories(_name(self.model), names, error)]) from error

    @contextmanager
    def preparing_once(self) -> Iterator[None]:
        """A context in which repeated rows are preprocessed only once; outside of it the model may change."""
        self._prepared[:] = [(pd.DataFrame(), None)]
        try:
            yield
        finally:
            self._prepared.clear()

    def _prepare(self, shown: pd.DataFrame) -> Any:
        """The input of a pipeline's last step."""
        for known, made in self._prepared:
            if made is not None and known.equals(shown):
                return made.copy()
        kept, made = shown.copy(), self.model[:-1].transform(shown)
        if self._prepared and hasattr(made, "copy"):
            self._prepared[:] = [(kept, made.copy())]
        return made


def _is_plain_pipeline(model: Any) -> bool:
    """Whether a model is scikit-learn's own pipeline of several steps, which preprocesses all queries alike."""
    from sklearn.pipeline import Pipeline

    return type(model) is Pipeline and len(model.steps) > 1 and not {"predict", "predict_proba"} & set(vars(model))


def _text_columns(rows: Any) -> list[str]:
    kinds = rows.dtypes.items() if isinstance(rows, pd.DataFrame) else ()
    return [str(name) for name, kind in kinds if is_object_dtype(kind) or is_string_dtype(kind)]


def _wants_categories(model: str, names: list[str], error: Exception) -> Fault:
    """The error for a model that was fitted on pandas categories, as LightGBM and XGBoost models can be."""
    remedy = (
        f"With dtypes = trained_on.dtypes[{names}], of the table that it was fitted on, either "
        "Task(table.astype(dtypes), model, ...) or, for a file, a function that converts: "
        "lambda rows: model.predict_proba(rows.astype(dtypes)), with classes=model.classes_ (--classes). "
        "Or fit a pipeline that encodes text."
    )
    problem = f"needs pandas categories, but {some(names)} {'is' if len(names) == 1 else 'are'} text ({error})"
    return Fault(model, problem, remedy)


def is_estimator(model: object) -> bool:
    """Whether this looks like a scikit-learn estimator."""
    return hasattr(model, "predict_proba") or (hasattr(model, "fit") and hasattr(model, "predict"))


def classifier(model: Any, options: AdapterOptions) -> CheckedClassifier:
    """A fitted estimator as a classifier; `classes` renames the estimator's own classes, in their order."""
    name, schema = _name(model), options.schema
    _check_kind(model, name, regression=options.regression)
    _check_fitted(model, name)
    known, asking = _classes(model), _answer(model, name, schema)
    if is_regressor(model):
        return checked(asking, replace(options, regression=True), name)
    made = CheckedClassifier(
        asking,
        schema,
        name=name,
        classes=known,
        threshold=own_threshold(model, known),
        encoder=options.encoder,
        own=asking.predict if hasattr(model, "predict") else None,
    )
    return made.replace(classes=options.classes, threshold=options.threshold)


def _name(model: Any) -> str:
    steps = getattr(model, "steps", None)
    return f"Pipeline({type(steps[-1][1]).__name__})" if steps else type(model).__name__


def _check_kind(model: Any, name: str, *, regression: bool) -> None:
    if is_regressor(model):
        return
    if regression:
        remedy = "For a range, give a callable that returns one number per row: lambda rows: model.predict(rows)."
        raise ClassifierError("", [Fault(name, "is not a regressor", remedy)])
    if not hasattr(model, "predict_proba"):
        remedy = "Wrap it in CalibratedClassifierCV and fit that."
        raise ClassifierError("", [Fault(name, "has no predict_proba, only labels", remedy)])


def is_regressor(model: Any) -> bool:
    """Whether an estimator declares that it predicts numbers."""
    from sklearn.base import is_regressor as says_so

    if hasattr(model, "__sklearn_tags__"):
        return bool(says_so(model))
    return getattr(model, "_estimator_type", None) == "regressor"


def _check_fitted(model: Any, name: str) -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if _classes(model) is not None or not hasattr(model, "fit"):
        return
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise ClassifierError("", [Fault(name, "is not fitted yet", "Call its fit(rows, labels) first.")]) from error


def _classes(model: Any) -> tuple[Any, ...] | None:
    found = getattr(model, "classes_", None)
    return None if found is None else tuple(pd.Index(found).tolist())


def chain(model: Any) -> Iterator[Any]:
    """A model, the model that it delegates to, and so on, through scikit-learn's own wrappers only."""
    while model is not None:
        yield model
        kind, part = type(model), INSIDE.get(type(model).__name__)
        if part is None or not kind.__module__.startswith("sklearn."):
            return
        model = model.steps[-1][1] if part == "steps" else getattr(model, part, None)


def thresholded(model: Any) -> Any:
    """The scikit-learn threshold classifier that decides for a model, if there is one."""
    return next((m for m in chain(model) if type(m).__name__ in THRESHOLDED), None)


def own_threshold(model: Any, classes: tuple[Any, ...] | None) -> float | None:
    """The probability of the second class from which on a scikit-learn threshold classifier predicts it.

    None if there is no threshold classifier, or its threshold is unknown; the model's own `predict` always decides.
    """
    found = thresholded(model)
    if found is None or classes is None or len(classes) != 2 or found.response_method == "decision_function":
        return None
    try:
        is_fixed = hasattr(found, "threshold")
        positive = found.pos_label if is_fixed else found._curve_scorer._get_pos_label()
        threshold = found.threshold if is_fixed else found.best_threshold_
        score = 0.5 if isinstance(threshold, str) else float(threshold)
    except (AttributeError, TypeError, ValueError):
        return None
    # The first class is predicted at its threshold or above, so the second only strictly above the complement.
    second = score if positive in (None, classes[1]) else float(np.nextafter(1 - score, 1))
    return second if 0 <= second <= 1 else None


def _answer(model: Any, name: str, schema: Schema) -> Asking:
    """How the estimator expects its rows: with its own column names, as plain arrays, or unchanged."""
    wanted = getattr(model, "feature_names_in_", None)
    # LightGBM generates such names if it was fitted on arrays.
    if wanted is not None and not all(re.fullmatch(r"Column_\d+", str(n)) for n in wanted):
        return _by_name(model, name, [str(n) for n in wanted], schema)
    count = getattr(model, "n_features_in_", None)
    if count is None:
        return Asking(model, _as_is)
    if count != len(schema.names):
        remedy = "Fit a pipeline that starts from the raw columns, as a DataFrame."
        problem = f"was fitted on {count} columns without names, but the schema has {len(schema.names)} features"
        raise ClassifierError("", [Fault(name, problem, remedy)])
    return Asking(model, lambda rows: rows.to_numpy())


def _by_name(model: Any, name: str, wanted: list[str], schema: Schema) -> Asking:
    source = matched(wanted, schema.names)
    lacking = [n for n in wanted if n not in source]
    if lacking:
        raise ClassifierError(f"{name} was fitted on other columns", list(_faults(lacking, schema)))
    columns = [source[n] for n in wanted]
    ready = _without_unused if _is_xgboost(model) else _as_is
    return Asking(model, lambda rows: ready(rows[columns].set_axis(wanted, axis=1)))


def _faults(lacking: list[str], schema: Schema) -> Iterator[Fault]:
    """Faults of columns that the schema does not have; those of a one-hot encoded feature are one fault."""
    encoded = one_hot(lacking, schema)
    if encoded:
        shown = ", ".join(f"{len(columns)} columns {name}{mark}*" for (name, mark), columns in encoded.items())
        yield Fault("it looks one-hot encoded", shown, _unencoded(encoded))
    known = {column for columns in encoded.values() for column in columns}
    for column in (n for n in lacking if n not in known):
        remedy = did_you_mean(column, schema.names) or "Fit the model on the schema's features only."
        yield Fault(f"column {column!r}", "is needed by the model, but not in the schema", remedy)


def one_hot(columns: list[str], schema: Schema) -> dict[tuple[str, str], list[str]]:
    """Columns named after a level of a category, as `feature_level` or `feature=level`, by feature and mark."""
    owners = {f"{f.name}{mark}{level}": (f.name, mark) for f in schema for mark in MARKS for level in f.levels}
    found: dict[tuple[str, str], list[str]] = {}
    for column in columns:
        if column in owners:
            found.setdefault(owners[column], []).append(column)
    return found


def _unencoded(encoded: dict[tuple[str, str], list[str]]) -> str:
    names, mark = list(dict.fromkeys(name for name, _ in encoded)), next(iter(encoded))[1]
    separator = "" if mark == "_" else f", prefix_sep={mark!r}"
    made = f"pd.get_dummies(rows, columns={names}{separator})"
    ask = f"lambda rows: model.predict_proba({made}.reindex(columns=model.feature_names_in_, fill_value=0))"
    return (
        "Put the encoder into a pipeline with the model, or give a callable that encodes: "
        f"Task(table, {ask}, classes=model.classes_, ...)."
    )


def _is_xgboost(model: Any) -> bool:
    steps = getattr(model, "steps", None)
    return type(steps[-1][1] if steps else model).__module__.startswith("xgboost")


def _as_is(rows: pd.DataFrame) -> pd.DataFrame:
    return rows


def _without_unused(rows: pd.DataFrame) -> pd.DataFrame:
    """Drop unused categories, since XGBoost refuses those that it was not fitted on, even if no row has them.

    Only the last ones are dropped, where the encoder appends them: the codes of the others must stay.
    """
    changed = {}
    for name, column in rows.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            used = column.cat.categories[: column.cat.codes.max() + 1]
            changed[name] = column.cat.set_categories(used)
    return rows.assign(**changed) if changed else rows
