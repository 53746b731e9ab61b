"""Metrics of answers. A metric takes one `Explanation` and the `Task` to evaluate it under, and returns a number."""

from .answers import Figure, Metric, absent
from .evaluation import CONVENTIONS, METRICS, Evaluation, evaluate

__all__ = ["CONVENTIONS", "METRICS", "Evaluation", "Figure", "Metric", "absent", "evaluate"]
