"""What holds for single rows only: freezes, allowed values, target, rules, difficulty (see `docs/overrides.md`)."""

from .files import read_overrides
from .overrides import Overrides

__all__ = ["Overrides", "read_overrides"]
