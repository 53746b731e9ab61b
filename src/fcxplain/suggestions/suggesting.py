"""`suggest`: rules that a table, its names and its causal graph speak for, for a person to review."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations

import pandas as pd

from ..causal import CausalGraph
from ..errors import DataError, Fault, did_you_mean
from ..schema import Schema
from .chance import Bar
from .columns import Column, columns_of
from .edges import edge_rules
from .levels import level_rules
from .names import is_inborn, name_rules
from .orders import order_rules
from .ranges import range_rules
from .suggestion import Candidate, Suggestion
from .weighing import weighed_changes, weighed_rows
from .writing import Writer

LEAST_SUPPORT = 30


def suggest(
    table: pd.DataFrame,
    schema: Schema | None = None,
    graph: CausalGraph | None = None,
    *,
    label: str | None = None,
    least_support: int = LEAST_SUPPORT,
    seed: int = 0,
) -> tuple[Suggestion, ...]:
    """Rules to review: what names suggest, what moves together along the graph, and what no row of the table breaks.

    The schema is inferred if it is not given; `label` names a column that is no feature. Values that are missing say
    nothing. A rule needs `least_support` rows that it speaks of, and as many that it would forbid. The strongest
    come first, and nothing is applied: pass what you accept as the `rules` of a task.
    """
    known = _schema(table, schema, label)
    _check(known, graph, least_support)
    columns, writer = columns_of(table, known), Writer(known)
    named = weighed_changes(name_rules([c.feature for c in columns.values()], writer), columns, known, seed)
    moving = [] if graph is None else weighed_changes(edge_rules(graph, columns, writer, seed), columns, known, seed)
    seen = weighed_rows(_row_rules(columns, least_support, writer), columns, known, seed)
    told = {s.rule.text for s in named}
    rest = [*seen, *((s.strength, s) for s in moving if s.rule.text not in told)]
    return (*named, *(s for _, s in sorted(rest, key=lambda pair: -pair[0])))


def _schema(table: pd.DataFrame, schema: Schema | None, label: str | None) -> Schema:
    if schema is None:
        return Schema.infer(table, label=label)
    kept = tuple(f for f in schema if f.name != label)
    return Schema(kept).complete(table)


def _check(schema: Schema, graph: CausalGraph | None, least_support: int) -> None:
    faults = []
    if least_support < 1:
        faults.append(Fault("least_support", f"is {least_support}", "Ask for at least 1 row."))
    for name in () if graph is None else graph.nodes:
        if name not in schema:
            faults.append(Fault(f"node {name!r}", "of the graph is no feature", did_you_mean(name, schema.names)))
    if faults:
        raise DataError("suggest", faults)


def _row_rules(columns: Mapping[str, Column], least_support: int, writer: Writer) -> Iterator[Candidate]:
    """Rules between two features that no row breaks, and that chance does not account for."""
    usable = list(columns.values())
    fixed = {c.feature.name for c in usable if not c.feature.mutable or is_inborn(c.feature)}
    pairs = [(a, b) for a, b in permutations(usable, 2) if not {a.feature.name, b.feature.name} <= fixed]
    bar = Bar(least_support, sum(_looked_at(a, b) for a, b in pairs))
    for first, second in pairs:
        if second.is_ordered:
            yield from range_rules(first, second, bar, writer)
        else:
            yield from level_rules(first, second, bar, writer)
        if first.feature.is_number and second.feature.is_number:
            yield from order_rules(first, second, bar, writer)


def _looked_at(first: Column, second: Column) -> int:
    """How many rules between two features are looked at, so that chance can be shared among them."""
    conditions = len(first.conditions) * (1 if first.is_ordered else 2)
    return conditions * (2 if second.is_ordered else len(second.parts)) + 1
