"""Rules for people to look over: as written and in words."""

from __future__ import annotations

from collections.abc import Sequence

from ..markup import Glance, Grid, cut, grid
from .nodes import Rule
from .wording import in_words

HEAD = ("rule", "in words")


def shown(rule: Rule) -> str:
    """A rule in one line, as it stands among others in a list."""
    return f"<rule {cut(rule.text)}: {cut(in_words(rule))}>"


def glance(rule: Rule) -> Glance:
    """A rule as it is written, and what it says."""
    return Glance(rule.text, facts=(("in words", in_words(rule)), ("about", ", ".join(rule.features))))


def rules_grid(rules: Sequence[Rule]) -> Grid:
    """A table with a line for each rule."""
    return grid(HEAD, [(rule.text, in_words(rule)) for rule in rules], "rule")
