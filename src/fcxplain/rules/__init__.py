"""The rule language: one tree, five readings (see `docs/rules.md`)."""

from .check import holds
from .nodes import Rule
from .parser import RuleFault, parse, parse_rules
from .penalty import penalty
from .repair import Repaired, Repairer, repair

__all__ = ["Repaired", "Repairer", "Rule", "RuleFault", "holds", "parse", "parse_rules", "penalty", "repair"]
