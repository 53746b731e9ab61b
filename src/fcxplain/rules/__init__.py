"""The rule language: one tree, five readings (see `docs/rules.md`)."""

from .check import holds
from .conflict import Breakage, Finding, breakage, contradiction, lint
from .listing import rules_grid
from .nodes import Rule
from .parser import RuleFault, RuleSource, parse, parse_rules, read_rules
from .penalty import penalty
from .repair import Repaired, Repairer, repair
from .wording import in_words

__all__ = [
    "Breakage",
    "Finding",
    "Repaired",
    "Repairer",
    "Rule",
    "RuleFault",
    "RuleSource",
    "breakage",
    "contradiction",
    "holds",
    "in_words",
    "lint",
    "parse",
    "parse_rules",
    "penalty",
    "read_rules",
    "repair",
    "rules_grid",
]
