"""The exact reading of a rule: whether it holds, on real values, vectorised over rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, Fault
from ..schema import Feature, Natural, natural_column
from .nodes import OPPOSITE, Abs, Affine, And, Compare, Formula, Implies, Member, Not, Op, Or, Ref, Same
from .rule import Rule

Bools = NDArray[np.bool_]
Table: TypeAlias = pd.DataFrame | Mapping[str, NDArray[Any]]

# Two sums are the same if they differ by no more than rounding: 0.1 * 3 is 0.3.
ROUNDING = 8 * np.finfo(np.float64).eps
# Stands for a level of another category that this one lacks: no value has this code.
ELSEWHERE = np.iinfo(np.int64).min


def holds(rules: Rule | Iterable[Rule], before: Table, after: Table) -> Bools:
    """Whether each row of `after` keeps the rule (or all rules) with respect to its row of `before`.

    Parameters
    ----------
    rules
        One rule, or several.
    before, after
        Tables with the same number of rows, or natural columns as `Schema.natural` makes them.

    Returns
    -------
    ndarray of bool

    Raises
    ------
    DataError
        If a column that a rule needs is missing, or has values that are missing or not known.

    Examples
    --------
    >>> never_younger = parse("age' >= age", schema)  # doctest: +SKIP
    >>> holds(never_younger, rows, counterfactuals).all()  # doctest: +SKIP
    """
    rules = [rules] if isinstance(rules, Rule) else list(rules)
    first, second = natural_of(before, rules, primed=False), natural_of(after, rules, primed=True)
    if len(before) != len(after) and isinstance(before, pd.DataFrame) and isinstance(after, pd.DataFrame):
        raise DataError(f"before has {len(before):,} rows and after has {len(after):,}; they must form pairs")
    result = np.ones(_length(after) or _length(before), dtype=bool)
    for rule in rules:
        result &= truth(rule.formula, first, second)
    return result


def truth(formula: Formula, before: Natural, after: Natural, wanted: bool = True) -> Bools:
    """Whether a formula is surely true, or with `wanted=False` surely false, row by row, on natural columns.

    Without any column there is one result for all rows. A comparison with a missing value is undecided (Kleene's
    logic), except for `f' == f`, which holds where both are missing.
    """
    match formula:
        case Compare(op=op):
            return compare(formula.difference, op if wanted else OPPOSITE[op], before, after)
        case Member(ref=ref, values=values, negated=negated):
            return is_member(ref.feature, value_of(ref, before, after), values, negated == wanted)
        case Same(left=left, right=right, negated=negated):
            return same_level(left, right, before, after, negated == wanted)
        case And(items=items) | Or(items=items):
            joins, start = (np.logical_and, True) if isinstance(formula, And) == wanted else (np.logical_or, False)
            return reduce(joins, (truth(i, before, after, wanted) for i in items), np.asarray(start))
        case Not(item=item):
            return truth(item, before, after, not wanted)
        case Implies(condition=condition, consequence=consequence):
            parts = truth(condition, before, after, not wanted), truth(consequence, before, after, wanted)
            return np.logical_or(*parts) if wanted else np.logical_and(*parts)


def compare(difference: Affine, op: Op, before: Natural, after: Natural) -> Bools:
    """Whether `difference op 0`, up to rounding."""
    value, size = evaluate(difference, before, after)
    found = sign_is(value, op, ROUNDING * size)
    own = identity(difference) if op == "==" else None
    if own is not None:
        # A missing value that stays missing is the same.
        found = found | (own.is_missing(before[own.name]) & own.is_missing(after[own.name]))
    return found


def identity(difference: Affine) -> Feature | None:
    """The feature whose change the expression is, if it is nothing else."""
    if len(difference.terms) != 2 or difference.constant:
        return None
    (a, first), (b, second) = difference.terms
    is_change = a == -b and isinstance(first, Ref) and isinstance(second, Ref) and first.name == second.name
    return first.feature if is_change and isinstance(first, Ref) else None


def sign_is(value: NDArray[np.float64], op: Op, slack: NDArray[np.float64] | float) -> Bools:
    """Whether `value op 0`, where anything within the slack counts as 0."""
    match op:
        case "<":
            return np.asarray(value < -slack)
        case "<=":
            return np.asarray(value <= slack)
        case ">":
            return np.asarray(value > slack)
        case ">=":
            return np.asarray(value >= -slack)
        case "==":
            return np.asarray(np.abs(value) <= slack)
        case "!=":
            return np.asarray(np.abs(value) > slack)


def evaluate(affine: Affine, before: Natural, after: Natural) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The value of an expression in each row, and the sum of the sizes of its parts (for rounding)."""
    value: Any = np.float64(affine.constant)
    size: Any = np.float64(abs(affine.constant))
    for weight, atom in affine.terms:
        if isinstance(atom, Abs):
            inner, inner_size = evaluate(atom.inside, before, after)
            value, size = value + weight * np.abs(inner), size + abs(weight) * inner_size
        else:
            part = weight * measure(atom.feature, value_of(atom, before, after))
            value, size = value + part, size + np.abs(part)
    return value, size


def measure(feature: Feature, natural: NDArray[Any]) -> NDArray[np.float64]:
    """What arithmetic sees of a value: a number itself, an ordinal's rank."""
    if feature.is_number:
        return natural
    if not natural.size or natural.min() >= 0:
        return np.asarray(feature.rank_of_level[natural])
    return np.where(natural < 0, np.nan, feature.rank_of_level[np.maximum(natural, 0)])


def is_member(feature: Feature, natural: NDArray[Any], values: tuple[float, ...], without: bool = False) -> Bools:
    """Whether values are surely in a set of level codes or numbers, or surely `without`."""
    if feature.is_category:
        allowed = np.zeros(len(feature.levels), dtype=bool)
        allowed[list(map(int, values))] = True
        found = allowed[np.maximum(natural, 0)] & (natural >= 0)
    else:
        slack = ROUNDING * np.abs(natural)
        found = np.logical_or.reduce([np.abs(natural - v) <= slack for v in values])
    return np.asarray((found ^ without) & ~feature.is_missing(natural))


def same_level(left: Ref, right: Ref, before: Natural, after: Natural, other: bool = False) -> Bools:
    """Whether two categories surely have the same level, by its written form, or surely an `other` one."""
    a, b = value_of(left, before, after), value_of(right, before, after)
    missing = left.feature.is_missing(a) | right.feature.is_missing(b)
    found = np.asarray(a == translated(right.feature, left.feature, b))
    return (~found if other else found) & (~missing | (found & (left.name == right.name)))


def translated(source: Feature, target: Feature, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Codes of one category as codes of another. Values that are not levels have no counterpart."""
    known = [target.level_of_text.get(str(level), ELSEWHERE) for level in source.levels]
    found = np.asarray(known, dtype=np.int64)[np.maximum(codes, 0)]
    if not codes.size or codes.min() >= 0:
        return found
    return np.where(codes >= 0, found, codes if source.name == target.name else ELSEWHERE)


def value_of(ref: Ref, before: Natural, after: Natural) -> NDArray[Any]:
    """The natural values that a name stands for."""
    return (after if ref.primed else before)[ref.name]


def natural_of(table: Table, rules: Iterable[Rule], *, primed: bool) -> Natural:
    """The columns that the names of one side need; missing and unknown values are refused unless allowed."""
    if not isinstance(table, pd.DataFrame):
        return table
    refs, natural, faults = frozenset(ref for rule in rules for ref in rule.refs), {}, []
    for feature in {r.name: r.feature for r in refs if r.primed == primed}.values():
        if feature.name not in table.columns:
            faults.append(Fault(f"column {feature.name!r}", "is needed by a rule but is not in the table"))
            continue
        values = natural_column(feature, table[feature.name])
        unknown = (np.isnan(values) if feature.is_number else values < 0) & ~feature.may_stay(values)
        if unknown.any():
            problem = "is missing or not a known level, but a rule needs it"
            first = table.index[unknown][0]
            faults.append(Fault(f"column {feature.name!r}", problem, "", int(unknown.sum()), first))
        natural[feature.name] = values
    if faults:
        raise DataError("the rules cannot be checked", faults)
    return natural


def _length(table: Table) -> int:
    """How many rows there are; natural columns without any column have 0."""
    return len(table if isinstance(table, pd.DataFrame) else next(iter(table.values()), ()))
