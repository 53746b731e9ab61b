"""Rules to review: what names, data and the causal graph speak for. Nothing here is applied by itself."""

from .suggesting import suggest
from .suggestion import Kind, Suggestion

__all__ = ["Kind", "Suggestion", "suggest"]
