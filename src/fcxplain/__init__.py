"""Feasible counterfactual explanations for tables: what could I change to get the other answer?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .causal import CausalGraph, Knowledge, discover
    from .classifier import Classifier, as_classifier, differentiable, train_classifier
    from .contract import check_explainer
    from .datasets import DATASETS, Dataset, load_dataset, load_table, write_dataset
    from .encoding import TableEncoder
    from .errors import FcxError
    from .explainer import FCx
    from .explanation import Certificate, Explanation, Status, WhyNot, read_answers, verify
    from .generator.settings import Architecture, LossWeights, TermSettings
    from .generator.training import Callback
    from .methods import METHODS, Method
    from .metrics import METRICS, Evaluation, Figure, evaluate
    from .overrides import Overrides, read_overrides
    from .rules import Rule, parse, parse_rules
    from .schema import Feature, Schema
    from .search import Budget, CostWeights
    from .streaming import Streamed
    from .suggestions import Suggestion, suggest
    from .task import Task
    from .training_loop import Schedule

__version__ = "0.1.0"

# The public names of each module. They are loaded when first asked for, so that `import fcxplain` stays quick.
_NAMES = {
    "causal": ("CausalGraph", "Knowledge", "discover"),
    "classifier": ("Classifier", "as_classifier", "differentiable", "train_classifier"),
    "contract": ("check_explainer",),
    "datasets": ("DATASETS", "Dataset", "load_dataset", "load_table", "write_dataset"),
    "encoding": ("TableEncoder",),
    "errors": ("FcxError",),
    "explainer": ("FCx",),
    "explanation": ("Certificate", "Explanation", "Status", "WhyNot", "read_answers", "verify"),
    "generator.settings": ("Architecture", "LossWeights", "TermSettings"),
    "generator.training": ("Callback",),
    "methods": ("METHODS", "Method"),
    "metrics": ("METRICS", "Evaluation", "Figure", "evaluate"),
    "overrides": ("Overrides", "read_overrides"),
    "rules": ("Rule", "parse", "parse_rules"),
    "schema": ("Feature", "Schema"),
    "search": ("Budget", "CostWeights"),
    "streaming": ("Streamed",),
    "suggestions": ("Suggestion", "suggest"),
    "task": ("Task",),
    "training_loop": ("Schedule",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "DATASETS",
    "METHODS",
    "METRICS",
    "Architecture",
    "Budget",
    "Callback",
    "CausalGraph",
    "Certificate",
    "Classifier",
    "CostWeights",
    "Dataset",
    "Evaluation",
    "Explanation",
    "FCx",
    "FcxError",
    "Feature",
    "Figure",
    "Knowledge",
    "LossWeights",
    "Method",
    "Overrides",
    "Rule",
    "Schedule",
    "Schema",
    "Status",
    "Streamed",
    "Suggestion",
    "TableEncoder",
    "Task",
    "TermSettings",
    "WhyNot",
    "as_classifier",
    "check_explainer",
    "differentiable",
    "discover",
    "evaluate",
    "load_dataset",
    "load_table",
    "parse",
    "parse_rules",
    "read_answers",
    "read_overrides",
    "suggest",
    "train_classifier",
    "verify",
    "write_dataset",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
