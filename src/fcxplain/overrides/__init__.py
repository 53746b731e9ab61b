"""What holds for single rows only: freezes, allowed values, target, rules, difficulty (see `docs/overrides.md`)."""

from .files import read_overrides
from .overrides import Overrides
from .reading import as_table

__all__ = ["Overrides", "as_table", "read_overrides"]
