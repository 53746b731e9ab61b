"""The rule language: one tree and its readings (see `docs/rules.md`).

`region` works out what rules leave to rows, and so repair and conflicts; its names can be imported from here too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .check import holds
from .parser import RuleFault, RuleSource, parse, parse_rules, read_rules
from .rule import Rule, rules_grid
from .wording import in_words

if TYPE_CHECKING:
    from ..region.conflict import Breakage, Finding, breakage, contradiction, lint
    from ..region.repair import Repaired, Repairer, repair
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

# Loaded on first use: `hinge` needs torch, and `region` is built on this package.
_ELSEWHERE = {
    ".hinge": ("penalty",),
    "..region.repair": ("Repaired", "Repairer", "repair"),
    "..region.conflict": ("Breakage", "Finding", "breakage", "contradiction", "lint"),
}
_HOMES = {name: home for home, names in _ELSEWHERE.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
