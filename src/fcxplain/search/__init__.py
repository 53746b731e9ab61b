"""The search that keeps the promise: propose, repair, verify, sparsify, shrink, rank (see `pipeline`)."""

from .budget import Budget, as_budget
from .pipeline import Search
from .propose import Draws
from .rank import PREFERENCES, Weights
from .whynot import why_not

__all__ = ["PREFERENCES", "Budget", "Draws", "Search", "Weights", "as_budget", "why_not"]
