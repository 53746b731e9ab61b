"""The table's contract: features, their legal values, and which may change."""

from .column import fitting_dtype
from .column import natural as natural_column
from .feature import KINDS, Feature, Kind, Level, level_named
from .inference import Guess
from .schema import Natural, Schema

__all__ = [
    "KINDS",
    "Feature",
    "Guess",
    "Kind",
    "Level",
    "Natural",
    "Schema",
    "fitting_dtype",
    "level_named",
    "natural_column",
]
