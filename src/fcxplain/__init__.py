"""Feasible counterfactual explanations for tables: what could I change to get the other answer?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .causal import CausalGraph, Knowledge, discover
    from .classifier import Classifier, as_classifier, differentiable, train_classifier
    from .contract import check_explainer
    from .datasets import DATASETS, Dataset, load_dataset, load_table
    from .encoding import TableEncoder
    from .errors import FcxError
    from .explainer import FCx
    from .explanation import Certificate, Explanation, Status, read_answers, verify
    from .methods import METHODS
    from .metrics import METRICS, Evaluation, evaluate
    from .overrides import Overrides, read_overrides
    from .rules import Rule, parse, parse_rules
    from .schema import Feature, Schema
    from .search import Budget
    from .suggestions import Suggestion, suggest
    from .task import Task

__version__ = "0.1.0"

# Where each public name lives. They are loaded when first asked for, so that `import fcxplain` stays quick.
_HOMES = {
    "DATASETS": "datasets",
    "METHODS": "methods",
    "METRICS": "metrics",
    "Budget": "search",
    "CausalGraph": "causal",
    "Classifier": "classifier",
    "Dataset": "datasets",
    "Certificate": "explanation",
    "Evaluation": "metrics",
    "Explanation": "explanation",
    "FCx": "explainer",
    "FcxError": "errors",
    "Status": "explanation",
    "Feature": "schema",
    "Knowledge": "causal",
    "Overrides": "overrides",
    "Rule": "rules",
    "Schema": "schema",
    "Suggestion": "suggestions",
    "TableEncoder": "encoding",
    "Task": "task",
    "as_classifier": "classifier",
    "check_explainer": "contract",
    "differentiable": "classifier",
    "discover": "causal",
    "evaluate": "metrics",
    "load_dataset": "datasets",
    "load_table": "datasets",
    "parse": "rules",
    "parse_rules": "rules",
    "read_answers": "explanation",
    "read_overrides": "overrides",
    "suggest": "suggestions",
    "train_classifier": "classifier",
    "verify": "explanation",
}

__all__ = [
    "DATASETS",
    "METHODS",
    "METRICS",
    "Budget",
    "CausalGraph",
    "Certificate",
    "Classifier",
    "Dataset",
    "Evaluation",
    "Explanation",
    "FCx",
    "FcxError",
    "Feature",
    "Knowledge",
    "Overrides",
    "Rule",
    "Schema",
    "Status",
    "Suggestion",
    "TableEncoder",
    "Task",
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
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
