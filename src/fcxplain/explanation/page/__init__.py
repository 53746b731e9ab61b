"""The report page: answers as one HTML file, for people who do not read tables or run code."""

from .page import render

__all__ = ["render"]
