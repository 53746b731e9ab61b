"""The search for counterfactuals: propose, repair, verify, improve, choose (see `steps`)."""

from .context import ORACLES, imitation_of
from .cost import PREFERENCES, CostWeights
from .propose.draws import Draws
from .search import Search
from .spending import Budget, as_budget
from .steps import UNPROVED
from .why_not import why_not

__all__ = [
    "ORACLES",
    "PREFERENCES",
    "UNPROVED",
    "Budget",
    "CostWeights",
    "Draws",
    "Search",
    "as_budget",
    "imitation_of",
    "why_not",
]
