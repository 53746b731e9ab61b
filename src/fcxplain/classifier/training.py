"""`train_classifier`: a model to explain for users without one, and its accuracy on labelled rows.

A kind is one function in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..encoding import TableEncoder
from ..errors import ClassifierError, DataError, Fault, did_you_mean, some
from ..progress import OnProgress, no_progress
from ..schema import Schema
from ..schema.feature import plain
from . import estimators
from .protocol import AdapterOptions, CheckedClassifier, Classifier

# The share of the training rows to which the most frequent class is thinned out for a balanced model.
COMMONEST = 0.38
# The most levels of a category in scikit-learn's boosting.
BOOSTING_LEVELS = 255


class SplitTable(Protocol):
    """A data set split into parts: tables with the features and the label."""

    @property
    def train(self) -> pd.DataFrame:
        """The rows to learn from."""

    @property
    def validation(self) -> pd.DataFrame | None:
        """The rows for early stopping; if there are none, some of the training rows are used."""

    @property
    def label(self) -> str:
        """The column with the classes."""

    @property
    def schema(self) -> Schema:
        """The features."""


@dataclass(frozen=True)
class Labelled:
    """Rows and their labels, as indices into the classes."""

    rows: pd.DataFrame
    labels: NDArray[np.int64]

    def take(self, part: NDArray[np.bool_]) -> Labelled:
        """Some of the rows."""
        return Labelled(self.rows[part], self.labels[part])


@dataclass(frozen=True)
class Lesson:
    """The data on which a kind of model is trained."""

    schema: Schema
    classes: tuple[Any, ...]
    train: Labelled
    validation: Labelled
    """May be empty."""
    seed: int
    on_progress: OnProgress = no_progress


def train_classifier(
    data: SplitTable, kind: str = "paper", seed: int = 0, *, on_progress: OnProgress = no_progress
) -> Classifier:
    """Train a classifier on a data set's training part.

    Parameters
    ----------
    data : SplitTable
        The result of `load_dataset` or `load_table`, or anything with `train`, `validation`, `label` and `schema`.
    kind : {"paper", "balanced", "mlp", "logistic", "boosting"}
        Two linear layers with 10 units between them; the same, trained on rows whose most frequent class was thinned
        out to 38 %, as the paper's authors did for Census; 32-32 with ReLUs; or scikit-learn models on raw columns.
    seed : int
        The same seed gives the same model.
    on_progress : callable, optional
        Called after each epoch of a network with a `Progress`: `done` epochs, of at most `total`.

    Returns
    -------
    Classifier

    Examples
    --------
    >>> from fcxplain import load_dataset, train_classifier
    >>> model = train_classifier(load_dataset("adult"), kind="mlp", seed=0)  # doctest: +SKIP
    """
    if kind not in KINDS:
        near = did_you_mean(kind, KINDS) or f"Choose one of {', '.join(KINDS)}."
        raise ClassifierError(f"no kind {kind!r} of classifier. {near}")
    made = KINDS[kind](replace(_lesson(data, seed), on_progress=on_progress))
    made.trained_as = kind
    return made


def _lesson(data: SplitTable, seed: int) -> Lesson:
    """Parts of the data set with checked labels."""
    classes = _classes(data.train, data.label)
    held = getattr(data, "validation", None)
    held = data.train.iloc[:0] if held is None else held
    # A class that occurs only in validation cannot be learnt, and has no loss.
    held = held[held[data.label].isin(classes)]
    train, validation = (_labelled(part, data, classes) for part in (data.train, held))
    return Lesson(data.schema, classes, train, validation, seed)


def _labelled(table: pd.DataFrame, data: SplitTable, classes: tuple[Any, ...]) -> Labelled:
    index = pd.Index(classes, tupleize_cols=False).get_indexer(table[data.label].tolist())
    return Labelled(table[list(data.schema.names)], np.asarray(index, dtype=np.int64))


def _classes(train: pd.DataFrame, label: str) -> tuple[Any, ...]:
    if label not in train.columns:
        raise DataError(f"no label column {label!r} in the table. {did_you_mean(label, train.columns)}".rstrip())
    missing = train[label].isna()
    if missing.any():
        first = plain(train.index[missing.to_numpy()][0])
        fault = Fault(f"label {label!r}", "is missing", "Leave these rows out.", int(missing.sum()), first)
        raise DataError("", [fault])
    found = train[label].unique().tolist()
    if len(found) < 2:
        problem = f"has one class only, {found[0]!r}" if found else "has no rows"
        raise DataError("", [Fault(f"label {label!r}", problem, "A classifier needs rows of two or more.")])
    try:
        return tuple(sorted(found))
    except TypeError:
        return tuple(sorted(found, key=str))


def _network(lesson: Lesson, hidden: tuple[int, ...], *, relu: bool = True) -> CheckedClassifier:
    import torch

    from . import networks, torch_modules

    encoder = TableEncoder().fit(lesson.schema, lesson.train.rows)
    generator = torch.Generator().manual_seed(lesson.seed)
    model = networks.mlp(encoder.width_, len(lesson.classes), generator, encoder.dtype_, hidden, relu=relu)
    train, validation = (
        networks.Examples(encoder.encode(part.rows), torch.from_numpy(part.labels)) for part in _with_validation(lesson)
    )
    networks.fit_network(model, train, validation, generator, on_progress=lesson.on_progress)
    options = AdapterOptions(lesson.schema, encoder, lesson.classes, output="logits")
    return torch_modules.classifier(model, options)


def _paper(lesson: Lesson) -> CheckedClassifier:
    """The black box of the paper: two linear layers with 10 units between them and no activation."""
    return _network(lesson, (10,), relu=False)


def _balanced(lesson: Lesson) -> CheckedClassifier:
    """The paper's network, trained on rows in which the most frequent class is thinned out to `COMMONEST`."""
    random = np.random.default_rng(lesson.seed)
    train, validation = (_thinned(part, random) for part in _with_validation(lesson))
    return _paper(replace(lesson, train=train, validation=validation))


def _thinned(rows: Labelled, random: np.random.Generator) -> Labelled:
    counts = np.bincount(rows.labels)
    common = np.flatnonzero(rows.labels == counts.argmax())
    kept = round((len(rows.labels) - len(common)) * COMMONEST / (1 - COMMONEST))
    part = np.ones(len(rows.labels), dtype=bool)
    part[random.permutation(common)[kept:]] = False
    return rows.take(part) if kept else rows


def _with_validation(lesson: Lesson) -> tuple[Labelled, Labelled]:
    """Training and validation rows; without the latter, a tenth of the former is split off."""
    count = len(lesson.train.rows)
    if len(lesson.validation.rows):
        return lesson.train, lesson.validation
    if count < 10:
        # Too few rows to split: all rows serve as both.
        return lesson.train, lesson.train
    part = np.zeros(count, dtype=bool)
    part[np.random.default_rng(lesson.seed).permutation(count)[: count // 10]] = True
    return lesson.train.take(~part), lesson.train.take(part)


def _logistic(lesson: Lesson) -> CheckedClassifier:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    categories = OneHotEncoder(handle_unknown="ignore")
    return _pipeline(lesson, categories, StandardScaler(), LogisticRegression(max_iter=1000))


def _boosting(lesson: Lesson) -> CheckedClassifier:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.preprocessing import OrdinalEncoder

    # Beyond the limit of boosting, the rarest levels share one code. Unseen levels count as missing.
    categories = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=BOOSTING_LEVELS
    )
    marks = [True] * len(lesson.schema.categories) + [False] * len(lesson.schema.numbers)
    model = HistGradientBoostingClassifier(categorical_features=marks, random_state=lesson.seed)
    return _pipeline(lesson, categories, "passthrough", model)


def _pipeline(lesson: Lesson, categories: Any, numbers: Any, model: Any) -> CheckedClassifier:
    """A fitted pipeline on raw columns: categories first, then numbers."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    schema = lesson.schema.complete(lesson.train.rows)
    columns = ColumnTransformer(
        [("categories", categories, list(schema.categories)), ("numbers", numbers, list(schema.numbers))]
    )
    # The schema allows levels to be text, numbers or both, in columns of any dtype.
    values = FunctionTransformer(partial(natural_columns, schema=schema))
    pipeline = Pipeline([("values", values), ("columns", columns), ("model", model)])
    pipeline.fit(lesson.train.rows, lesson.train.labels)
    return estimators.classifier(pipeline, AdapterOptions(schema, classes=lesson.classes))


def natural_columns(rows: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Levels as codes and numbers as numbers, column by column."""
    return pd.DataFrame(schema.natural(rows))


KINDS: dict[str, Callable[[Lesson], CheckedClassifier]] = {
    "paper": _paper,
    "balanced": _balanced,
    "mlp": partial(_network, hidden=(32, 32)),
    "logistic": _logistic,
    "boosting": _boosting,
}


@dataclass(frozen=True)
class ClassScore:
    """One class: its share of the rows, its share of the predictions, and its recall."""

    name: Any
    share: float
    predicted: float
    recall: float
    """NaN if the table has no row of this class."""


@dataclass(frozen=True)
class Score:
    """Accuracy on `rows` rows; balanced accuracy is the mean recall of the classes in the table."""

    rows: int
    accuracy: float
    balanced_accuracy: float
    classes: tuple[ClassScore, ...]


def score(classifier: Classifier, table: pd.DataFrame, label: str) -> Score:
    """Compare the classifier's predictions with a table's label column."""
    if label not in table.columns:
        raise DataError(f"no label column {label!r} in the table. {did_you_mean(label, table.columns)}".rstrip())
    if not len(table):
        raise DataError("a table without rows cannot be scored")
    truth = table[label].to_numpy(dtype=object)
    answers = classifier.predict(table)
    names = classifier.classes
    unknown = [v for v in pd.unique(truth) if v not in names]
    if len(unknown) == len(pd.unique(truth)):
        problem = f"label {label!r} has {some(unknown)}, but the classifier's classes are {some(names)}"
        raise ClassifierError(f"{problem}. Rename them with as_classifier(..., classes=...).")
    right = answers == truth
    classes = tuple(_class_score(name, truth == name, answers == name) for name in names)
    recalls = [c.recall for c in classes if c.share > 0] + [0.0] * len(unknown)
    return Score(len(table), float(right.mean()), float(np.mean(recalls)), classes)


def _class_score(name: Any, true: Any, answered: Any) -> ClassScore:
    recall = float(answered[true].mean()) if true.any() else float("nan")
    return ClassScore(name, float(true.mean()), float(answered.mean()), recall)
