"""The rule language: one tree and its readings (see `docs/rules.md`).

`region` works out what rules leave to rows, and so repair and conflicts; its names can be imported from here too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .check import holds
from .parser import RuleFault, RuleSource, parse, parse_rules, read_rules
from .rule import Rule, in_words, rules_grid

if TYPE_CHECKING:
    from ..region.conflict import lint
    from ..region.repair import repair
    from .hinge import penalty

__all__ = [
    "Rule", "RuleFault", "RuleSource", "holds", "in_words", "lint", "parse", "parse_rules", "penalty", "read_rules",
    "repair", "rules_grid",
]  # fmt: skip

# Loaded on first use: `hinge` needs torch, and `region` is built on this package.
_HOMES = {"penalty": ".hinge", "repair": "..region.repair", "lint": "..region.conflict"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
