"""The linter: rules that contradict each other, forbid everything or nothing, or fit no data.

Whether any legal pair of rows keeps some rules is an integer program over both rows at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from ..rules.check import holds
from ..rules.nodes import And, Compare, Formula, Not, refs_of
from ..rules.normal import atoms_of, disjuncts, normal_form, substituted
from ..rules.rule import Rule
from ..schema import Schema
from .program import FEW, Program

Severity = Literal["error", "warning", "note"]
# Row pairs drawn to see whether the data can show a rule.
PAIRS = 10_000
SECONDS = 5.0
# How many times longer to search for rules that a contradiction does not need.
MOST_MINIMISING = 4
# Each rule is compared with all others; beyond this many that takes too long.
MOST_COMPARED = 100
# What to say of a rule without a primed name.
NO_PRIME = "is about the present row only: no change can keep or break it (is a prime missing?)"


@dataclass(frozen=True)
class Finding:
    """Something about one or more rules that their author should know."""

    severity: Severity
    problem: str
    rules: tuple[Rule, ...]
    kind: str = ""

    def __str__(self) -> str:
        lines = ", ".join(f"line {r.line}" for r in self.rules)
        return f"{self.severity} ({lines}): {self.problem}"


@dataclass(frozen=True)
class Breakage:
    """How many real rows break a rule as they are, and how many random pairs of them break it."""

    rule: Rule
    rows: int
    rows_broken: int
    pairs: int
    pairs_broken: int


def contradiction(rules: Iterable[Rule], schema: Schema, *, seconds: float = SECONDS) -> tuple[Rule, ...]:
    """Rules that no legal pair of rows keeps together, a minimal set unless time runs out; empty if there are none."""
    core, end = list(rules), time.monotonic() + MOST_MINIMISING * seconds
    if satisfiable(core, schema, seconds=seconds) is not False:
        return ()
    for rule in tuple(core):
        rest = [r for r in core if r is not rule]
        if time.monotonic() < end and satisfiable(rest, schema, seconds=seconds) is False:
            core = rest
    return tuple(core)


def satisfiable(
    rules: Iterable[Rule], schema: Schema, *, broken: Rule | None = None, seconds: float = SECONDS
) -> bool | None:
    """Whether some legal pair of rows keeps all rules (and breaks `broken`); None if time runs out."""
    frozen, end = frozenset(schema.immutable), time.monotonic() + seconds
    opposite = () if broken is None else (Not(broken.formula),)
    exact = substituted(And((*(r.formula for r in rules), *opposite)), frozen)
    formula = normal_form(exact)
    few = disjuncts(formula, limit=FEW)
    choices: Sequence[Formula] = [formula] if few is None else [And(atoms) for atoms in few]
    known: bool | None = False
    for choice in choices:
        program = Program({})
        program.require(choice)
        status = program.solve(exact, end - time.monotonic()).status
        if status == "found":
            return True
        known = known if status == "none" else None
    return known


def lint(rules: Iterable[Rule], schema: Schema, table: pd.DataFrame | None = None, *, seed: int = 0) -> list[Finding]:
    """Everything that looks wrong with the rules, most serious first; with a table, also what its rows show."""
    rules = tuple(rules)
    findings = [f for r in rules for f in _alone(r, schema)]
    hopeless = {r for f in findings if f.severity == "error" for r in f.rules}
    core = contradiction([r for r in rules if r not in hopeless], schema)
    if core:
        problem = "these rules contradict each other: no row can keep them together"
        findings.append(Finding("error", problem, core, "contradiction"))
    elif not hopeless and len(rules) <= MOST_COMPARED:
        findings += _redundant(rules, schema, findings)
    if table is not None:
        findings += [f for b in breakage(rules, table, seed=seed) for f in _against_data(b)]
    order = ("error", "warning", "note")
    return sorted(findings, key=lambda f: (order.index(f.severity), f.rules[0].line))


def _alone(rule: Rule, schema: Schema) -> list[Finding]:
    if not any(r.primed for r in rule.refs):
        return [Finding("warning", NO_PRIME, (rule,), "no prime")]
    if satisfiable([rule], schema) is False:
        return [Finding("error", "no legal row can keep it", (rule,), "unsatisfiable")]
    if rule.freezes is not None:
        problem = f"{rule.freezes!r} is immutable in the schema already"
        return [Finding("note", problem, (rule,), "redundant")] if rule.freezes in schema.immutable else []
    if satisfiable([], schema, broken=rule) is False:
        return [Finding("warning", "every legal row keeps it: it has no effect", (rule,), "tautology")]
    findings = []
    if {r.name for r in rule.refs if r.primed} <= set(schema.immutable):
        problem = "is about immutable features only: no change can keep or break it"
        findings.append(Finding("warning", problem, (rule,), "immutable"))
    mixed = _mixed_ordinals(rule)
    if mixed:
        problem = f"compares the ranks of {mixed[0]!r} and {mixed[1]!r}, whose levels differ"
        findings.append(Finding("note", problem, (rule,), "ranks"))
    return findings


def _mixed_ordinals(rule: Rule) -> tuple[str, str] | None:
    """The first two ordinals of the rule whose levels differ, if one of its comparisons holds both."""
    ordinals = sorted({r.name: r.feature for r in rule.refs if r.feature.kind == "ordinal"}.items())
    apart = [(a, b) for a, f in ordinals for b, g in ordinals if a < b and f.levels != g.levels]
    compared = [{r.name for r in refs_of(a)} for a in atoms_of(normal_form(rule.formula)) if isinstance(a, Compare)]
    return apart[0] if apart and any(names.issuperset(apart[0]) for names in compared) else None


def _redundant(rules: tuple[Rule, ...], schema: Schema, findings: list[Finding]) -> list[Finding]:
    """Rules that follow from the others; of two that say the same, the later one."""
    noted = {r for f in findings for r in f.rules}
    found, kept = [], list(rules)
    for rule in reversed(rules):
        others = [r for r in kept if r is not rule]
        if rule not in noted and others and satisfiable(others, schema, broken=rule) is False:
            found.append(Finding("note", "follows from the other rules", (rule,), "redundant"))
            kept = others
    return found


def breakage(rules: Iterable[Rule], table: pd.DataFrame, *, pairs: int = PAIRS, seed: int = 0) -> list[Breakage]:
    """For each rule how many rows break it as they are (`x' = x`), and how many random pairs (or all, if few)."""
    count = min(pairs, len(table) ** 2)
    if count < pairs:
        drawn = np.divmod(np.arange(count), max(len(table), 1))
    else:
        drawn = tuple(np.random.default_rng(seed).integers(len(table), size=(2, count)))
    first, second = (table.iloc[rows] for rows in drawn)

    def broken(rule: Rule, before: pd.DataFrame, after: pd.DataFrame) -> int:
        return int((~holds(rule, before, after)).sum())

    return [Breakage(r, len(table), broken(r, table, table), count, broken(r, first, second)) for r in rules]


def _against_data(found: Breakage) -> list[Finding]:
    findings = []
    if found.rows_broken:
        share = f"{found.rows_broken:,} of {found.rows:,} rows break it as they are: they must change to keep it"
        findings.append(Finding("note", share, (found.rule,), "broken already"))
    if found.pairs and found.pairs_broken == found.pairs:
        problem = f"none of {found.pairs:,} pairs of rows keeps it: the data never show it"
        findings.append(Finding("warning", problem, (found.rule,), "never shown"))
    return findings
