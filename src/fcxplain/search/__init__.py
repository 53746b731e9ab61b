"""The search that keeps the promise: propose, repair, verify, sparsify, shrink, rank (see `pipeline`)."""

from .pipeline import Search
from .propose import Draws
from .rank import Weights

__all__ = ["Draws", "Search", "Weights"]
