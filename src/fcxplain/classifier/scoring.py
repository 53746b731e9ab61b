"""How well a classifier does on labelled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..errors import ClassifierError, DataError, did_you_mean, some
from .protocol import Classifier


@dataclass(frozen=True)
class ClassScore:
    """One class: its share of the rows, its share of the answers, and how many of its rows were told."""

    name: Any
    share: float
    predicted: float
    recall: float
    """NaN where the table has no row of this class."""


@dataclass(frozen=True)
class Score:
    """Accuracy on `rows` rows; the balanced one is the mean recall of the classes that the table has."""

    rows: int
    accuracy: float
    balanced_accuracy: float
    classes: tuple[ClassScore, ...]


def score(classifier: Classifier, table: pd.DataFrame, label: str) -> Score:
    """Compare the classifier's answers with a table's label column."""
    if label not in table.columns:
        raise DataError(f"no label column {label!r} in the table. {did_you_mean(label, table.columns)}".rstrip())
    if not len(table):
        raise DataError("a table without rows cannot be scored")
    truth = table[label].to_numpy(dtype=object)
    answers = classifier.predict(table)
    names = classifier.classes
    unknown = [v for v in pd.unique(truth) if v not in names]
    if len(unknown) == len(pd.unique(truth)):
        told = f"label {label!r} has {some(unknown)}, but the classifier's classes are {some(names)}"
        raise ClassifierError(f"{told}. Name them alike with as_classifier(..., classes=...).")
    right = answers == truth
    classes = tuple(_class_score(name, truth == name, answers == name) for name in names)
    recalls = [c.recall for c in classes if c.share > 0] + [0.0] * len(unknown)
    return Score(len(table), float(right.mean()), float(np.mean(recalls)), classes)


def _class_score(name: Any, true: Any, answered: Any) -> ClassScore:
    recall = float(answered[true].mean()) if true.any() else float("nan")
    return ClassScore(name, float(true.mean()), float(answered.mean()), recall)
