"""Causal graphs: given by a person, read from a file, or discovered over features."""

from .discovery import discover, pc
from .graph import CausalGraph, EdgeScore, as_graph
from .independence import IndependenceTest, causal_learn, chi_square, wilks
from .knowledge import Knowledge

__all__ = [
    "CausalGraph",
    "EdgeScore",
    "IndependenceTest",
    "Knowledge",
    "as_graph",
    "causal_learn",
    "chi_square",
    "discover",
    "pc",
    "wilks",
]
