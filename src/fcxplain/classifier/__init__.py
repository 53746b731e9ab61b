"""The model to be explained: one protocol for every kind of classifier, and ways to train or imitate one."""

from .adapters import as_classifier
from .distillation import Differentiable, Problem, differentiable
from .protocol import CheckedClassifier, Classifier
from .training import KINDS, ClassScore, Score, SplitTable, score, train_classifier

__all__ = [
    "KINDS",
    "CheckedClassifier",
    "ClassScore",
    "Classifier",
    "Differentiable",
    "Problem",
    "Score",
    "SplitTable",
    "as_classifier",
    "differentiable",
    "score",
    "train_classifier",
]
