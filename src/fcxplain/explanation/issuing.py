"""Certificates of many answers at once: column by column, since a line of a frame is slow to take and to trust.

What is the same for all answers, such as a rule in words or the fingerprint of the model, is made once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..rules import Rule, in_words
from ..schema import Schema
from ..schema.feature import plain
from .certificate import Certificate, Change, RuleVerdict
from .checks import Bools, lines_of
from .density import lof_to_data, taken
from .identity import model_id, rules_ids

if TYPE_CHECKING:
    from .answer import Explanation

Columns = dict[str, list[Any]]


def issued(explanation: Explanation, which: NDArray[np.int64], density: NDArray[np.float64]) -> list[Certificate]:
    """The certificates of some answers; `density` is told for each of these, NaN where it cannot be had."""
    e, place, checks = explanation, explanation.place[which], explanation.checks.take(which)
    before, after = e.rows.iloc[place], e.answers.iloc[which]
    rules = [*e.task.rules, *(e.own.rules if e.own is not None else ())]
    first, second = _columns(before, rules, primed=False), _columns(after, rules, primed=True)
    calls = repeat(None) if e.calls is None else e.calls[place].tolist()
    cut_short = repeat(None) if e.cut_short is None else e.cut_short[place].tolist()
    # In the order of the certificate's fields: by position is half as slow as by name.
    return list(
        map(
            Certificate,
            labels(e.rows.index[place]),
            e.rank[which].tolist(),
            np.where(checks.passed, "verified", "best_effort").tolist(),
            repeat(e.method),
            e.found_by[which].tolist(),
            map(plain, checks.wanted.tolist()),
            map(plain, checks.predicted.tolist()),
            checks.probability.tolist(),
            checks.valid.tolist(),
            checks.feasible.tolist(),
            checks.in_domain.tolist(),
            checks.immutables_kept.tolist(),
            checks.cost.tolist(),
            changes_of(e.task.schema, before, after, checks.changed),
            _verdicts(e, place, first, second, checks.kept),
            (None if math.isnan(score) else score for score in density.tolist()),
            repeat(e.draws),
            calls,
            repeat(model_id(e.task)),
            rules_ids(e.task, e.own, place),
            cut_short,
        )
    )


def densities(explanation: Explanation, which: NDArray[np.int64]) -> NDArray[np.float64]:
    """LOF against the training rows for some answers; NaN where a value is outside its domain."""
    found = np.full(len(which), np.nan)
    legal = explanation.checks.in_domain[which]
    if legal.any():
        natural = explanation.task.schema.natural(explanation.answers.iloc[which])
        scores = lof_to_data(explanation.task, taken(natural, legal))
        found[legal] = np.nan if scores is None else scores
    return found


def changes_of(schema: Schema, before: pd.DataFrame, after: pd.DataFrame, changed: Bools) -> list[tuple[Change, ...]]:
    """What differs, answer by answer."""
    made: list[tuple[Change, ...]] = [()] * len(changed)
    for j, feature in enumerate(schema):
        lines = np.flatnonzero(changed[:, j])
        now, then = (_plain_column(table[feature.name].take(lines)) for table in (before, after))
        change = lru_cache(maxsize=None, typed=True)(
            partial(Change, feature.name, title=feature.title, unit=feature.unit)
        )
        for i, one in zip(lines.tolist(), map(change, now, then), strict=True):
            made[i] += (one,)
    return made


def labels(index: pd.Index) -> list[Any]:
    """Labels of rows as plain Python."""
    return [tuple(map(plain, v)) if isinstance(v, tuple) else plain(v) for v in index.tolist()]


def _columns(table: pd.DataFrame, rules: list[Rule], *, primed: bool) -> Columns:
    """The columns that rules are about."""
    names = {ref.name for rule in rules for ref in rule.refs if ref.primed == primed}
    return {name: _plain_column(table[name]) for name in names}


def _plain_column(column: pd.Series) -> list[Any]:
    values: list[Any] = column.tolist()
    # Only what pandas keeps as bare objects may be anything but plain Python.
    is_plain = isinstance(column.dtype, np.dtype | pd.StringDtype) and column.dtype != object
    return values if is_plain else [plain(v) for v in values]


def _verdicts(
    explanation: Explanation, place: NDArray[np.int64], before: Columns, after: Columns, kept: Bools
) -> Iterator[tuple[RuleVerdict, ...]]:
    """Every rule on each answer: the task's, then the row's own."""
    task, own, lines = explanation.task, explanation.own, np.arange(len(place))
    common = [_of_rule(rule, kept[:, j], lines, before, after) for j, rule in enumerate(task.rules)]
    shared = zip(*common, strict=True) if common else repeat((), len(place))
    if own is None or not own.rules:
        return shared
    mine: list[tuple[RuleVerdict, ...]] = [()] * len(place)
    for j, (rule, where) in enumerate(zip(own.rules, lines_of(own.applies(place)), strict=True), start=len(common)):
        for i, verdict in zip(where.tolist(), _of_rule(rule, kept[where, j], where, before, after), strict=True):
            mine[i] += (verdict,)
    return (of_task + of_row for of_task, of_row in zip(shared, mine, strict=True))


def _of_rule(rule: Rule, kept: Bools, lines: NDArray[np.int64], before: Columns, after: Columns) -> list[RuleVerdict]:
    """One rule on some answers, with the values that it names."""
    text, words, which = rule.text, in_words(rule), lines.tolist()
    now = sorted({ref.name for ref in rule.refs if not ref.primed})
    then = sorted({ref.name for ref in rule.refs if ref.primed})

    # Answers of which the same is to be said share it: there are far fewer pairs of values than rows.
    @lru_cache(maxsize=None, typed=True)
    def verdict(holds: bool, *values: Any) -> RuleVerdict:
        first, second = values[: len(now)], values[len(now) :]
        return RuleVerdict(text, words, holds, dict(zip(now, first, strict=True)), dict(zip(then, second, strict=True)))

    columns = [before[name] for name in now] + [after[name] for name in then]
    return list(map(verdict, kept.tolist(), *([column[i] for i in which] for column in columns)))
