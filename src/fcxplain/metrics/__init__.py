"""Metrics of answers. A metric takes one `Explanation` and the `Task` to evaluate it under, and returns a number."""

from .evaluation import CONVENTIONS, METRICS, Evaluation, evaluate
from .figure import Figure, Metric, absent

__all__ = ["CONVENTIONS", "METRICS", "Evaluation", "Figure", "Metric", "absent", "evaluate"]
