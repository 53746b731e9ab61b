"""What the contract asks of rules: that some row can keep them, and what the training rows say of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..rules import breakage, contradiction, holds, in_words
from ..task import Task
from .report import Item, broken, held, noted, tried


def rule_items(task: Task) -> Iterator[Item]:
    """Every item about the rules."""
    for name, trial in (("rules: can be kept", _kept), ("rules: rows that break them", _broken)):
        yield tried(name, "Look at the rules one by one with `fcxplain rules check`.", partial(trial, name, task))


def _kept(name: str, task: Task) -> Item:
    core = contradiction(task.rules, task.schema)
    if core:
        said = "; ".join(in_words(rule) for rule in core)
        return broken(name, f"no legal row keeps all of: {said}", "Drop or loosen one of them.")
    return held(name, f"{len(task.rules):,} rules, and some legal row keeps them all" if task.rules else "no rules")


def _broken(name: str, task: Task) -> Item:
    found = [b for b in breakage(task.rules, task.train, pairs=1) if b.rows_broken]
    if not found:
        return noted(name, f"none of {len(task.train):,} training rows breaks a rule as it is")
    rows = int((~holds(task.rules, task.train, task.train)).sum())
    worst = max(found, key=lambda b: b.rows_broken)
    said = f"{rows:,} of {len(task.train):,} training rows break a rule as they are and must change to keep it"
    return noted(name, f"{said}; most often, {worst.rows_broken:,} times: {in_words(worst.rule)}")
