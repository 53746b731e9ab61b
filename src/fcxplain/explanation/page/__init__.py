"""The page: answers as one HTML file that opens from disk, for people who read no tables and run no code."""

from .page import render

__all__ = ["render"]
