"""The answer: counterfactuals for rows, what was checked of each, and the files they are kept in."""

from .answer import Effort, Explanation, Status
from .certificate import Certificate, Change, RuleVerdict, certificate_schema
from .checks import Checks, check
from .joining import joined
from .loading import read_answers
from .prices import Prices
from .reasons import Obstacle, Relaxation, WhyNot
from .steps import Step, Steps, steps_of
from .verification import Verification, verify

__all__ = [
    "Certificate",
    "Change",
    "Checks",
    "Effort",
    "Explanation",
    "Obstacle",
    "Prices",
    "Relaxation",
    "RuleVerdict",
    "Status",
    "Step",
    "Steps",
    "Verification",
    "WhyNot",
    "certificate_schema",
    "check",
    "joined",
    "read_answers",
    "steps_of",
    "verify",
]
