"""Rules to review, suggested by names, data and the causal graph. None is applied automatically."""

from .suggesting import suggest
from .suggestion import Kind, Suggestion

__all__ = ["Kind", "Suggestion", "suggest"]
