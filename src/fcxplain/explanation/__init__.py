"""The answer: counterfactuals for rows, what was checked of each, and the files they are kept in."""

from .answer import Effort, Explanation, Status
from .certificate import Certificate, Change, Checks, RuleVerdict, check
from .loading import read_answers

__all__ = [
    "Certificate",
    "Change",
    "Checks",
    "Effort",
    "Explanation",
    "RuleVerdict",
    "Status",
    "check",
    "read_answers",
]
