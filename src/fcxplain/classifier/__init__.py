"""The model to be explained: one protocol for every kind of classifier, and functions to train or imitate one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .adapters import as_classifier
from .protocol import CheckedClassifier, Classifier
from .training import KINDS, ClassScore, Score, SplitTable, score, train_classifier

if TYPE_CHECKING:
    from .distillation import Differentiable, differentiable

__all__ = [
    "KINDS",
    "CheckedClassifier",
    "ClassScore",
    "Classifier",
    "Differentiable",
    "Score",
    "SplitTable",
    "as_classifier",
    "differentiable",
    "score",
    "train_classifier",
]


def __getattr__(name: str) -> Any:
    # Loaded on first use, since it needs torch.
    if name in ("Differentiable", "differentiable"):
        from . import distillation

        return getattr(distillation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
