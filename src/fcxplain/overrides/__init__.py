"""Settings for single rows: freezes, allowed values, target, rules, difficulty (see `docs/overrides.md`)."""

from .overrides import Overrides, as_table, read_overrides

__all__ = ["Overrides", "as_table", "read_overrides"]
