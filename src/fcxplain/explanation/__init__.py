"""The answer: counterfactuals for rows, what was checked of each, and the files they are saved in."""

from .certificate import Certificate, Change, RuleVerdict, certificate_schema
from .change_by_change import Step, Steps, steps_of
from .checks import ChangeCosts, Checks, check
from .explanation import Effort, Explanation, joined
from .files.loading import read_answers
from .files.verification import Verification, verify
from .reasons import Obstacle, Relaxation, Status, WhyNot

__all__ = [
    "Certificate",
    "Change",
    "ChangeCosts",
    "Checks",
    "Effort",
    "Explanation",
    "Obstacle",
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
