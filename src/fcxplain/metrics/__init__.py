"""What is measured of answers. A metric takes one `Explanation` and the `Task` to judge it by, and gives a number."""

from .evaluation import CONVENTIONS, METRICS, Evaluation, evaluate
from .figure import Figure, Metric, absent

__all__ = ["CONVENTIONS", "METRICS", "Evaluation", "Figure", "Metric", "absent", "evaluate"]
