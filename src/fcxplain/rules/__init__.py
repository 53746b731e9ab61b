"""The rule language: one tree, five readings (see `docs/rules.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .check import holds
from .conflict import Breakage, Finding, breakage, contradiction, lint
from .listing import rules_grid
from .nodes import Rule
from .parser import RuleFault, RuleSource, parse, parse_rules, read_rules
from .repair import Repaired, Repairer, repair
from .wording import in_words

if TYPE_CHECKING:
    from .hinge import penalty

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


def __getattr__(name: str) -> Any:
    # The one reading that needs torch; rules are read, checked and repaired without waiting for it.
    if name == "penalty":
        from .hinge import penalty

        return penalty
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
