"""What may stand between a row and the class wanted: rules, bounds, and features that may not change.

Each can be taken away, which makes a looser task, and each can tell whether an answer really needs that. What is fixed
is left alone unless somebody asks: nobody is to be told that another sex or origin would help.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..explanation.amounts import plain_amount
from ..explanation.reasons import Obstacle, Side
from ..rules import Rule, holds, in_words
from ..rules.nodes import MIRRORED, And, Compare, Formula, Ref, frozen_by
from ..schema import Feature
from ..schema.feature import plain
from ..task import Task

# A bound gives way by this share of the range between both.
WIDER = 0.5


def obstacles(task: Task, *, fixed: bool = False) -> tuple[Obstacle, ...]:
    """All that may stand in the way: rules first, then bounds, then, if that is asked for, what is `fixed`."""
    still = {*task.schema.immutable, *(name for rule in task.rules for name in _frozen(rule.formula))}
    open_rules = [r for r in task.rules if r.freezes is None and (fixed or _may_give_way(r, still))]
    moving = [f for f in task.schema if f.is_number and f.name not in still]
    bounds = [_of_bound(f, side) for f in moving for side in ("low", "high") if _widened(f, side) is not None]
    freezes = [
        Obstacle("freeze", f.name, f"{f.title} cannot be changed", f.name) for f in task.schema if f.name in still
    ]
    # The same rule written twice is one obstacle.
    return tuple(dict.fromkeys([*map(_of_rule, open_rules), *bounds, *(freezes if fixed else ())]))


def _frozen(formula: Formula) -> Iterator[str]:
    """Features that a rule keeps as they are, whatever else it says."""
    for item in formula.items if isinstance(formula, And) else ():
        yield from _frozen(item)
    name = frozen_by(formula)
    if name is not None:
        yield name


def _may_give_way(rule: Rule, still: set[str]) -> bool:
    """Whether a rule keeps nothing fixed, and speaks of something that may change."""
    primed = {ref.name for ref in rule.refs if ref.primed}
    return still.isdisjoint(_frozen(rule.formula)) and not (primed and primed <= still)


def without(task: Task, taken: Sequence[Obstacle]) -> Task:
    """The task with some obstacles taken away."""
    texts = {o.name for o in taken if o.kind == "rule"}
    freed = {o.name for o in taken if o.kind == "freeze"}
    rules = [r for r in task.rules if r.text not in texts and r.freezes not in freed]
    schema = task.schema
    for obstacle in taken:
        if obstacle.kind == "freeze":
            schema = schema.replace(obstacle.name, mutable=True)
        elif obstacle.kind == "bound" and obstacle.side is not None:
            schema = schema.replace(obstacle.name, **{obstacle.side: _widened(schema[obstacle.name], obstacle.side)})
    return task.relaxed(rules=rules, schema=schema)


def needed(task: Task, obstacle: Obstacle, before: pd.DataFrame, after: pd.DataFrame) -> NDArray[np.bool_]:
    """Which answers would not be allowed if the obstacle still stood."""
    if obstacle.kind == "rule":
        rule = next(r for r in task.rules if r.text == obstacle.name)
        return ~holds(rule, before, after)
    values = after[obstacle.name].to_numpy()
    if obstacle.kind == "freeze":
        return np.asarray(values != before[obstacle.name].to_numpy(), dtype=bool)
    beyond = values < obstacle.limit if obstacle.side == "low" else values > obstacle.limit
    return np.asarray(beyond, dtype=bool)


def _of_rule(rule: Rule) -> Obstacle:
    limit = _limit(rule)
    if limit is None:
        return Obstacle("rule", rule.text, in_words(rule))
    feature, side, value = limit
    return Obstacle("rule", rule.text, in_words(rule), feature, side, value)


def _limit(rule: Rule) -> tuple[str, Side, float] | None:
    """The feature, side and value of a rule that is nothing but a limit, such as `hours' <= 60`."""
    if not isinstance(rule.formula, Compare):
        return None
    difference = rule.formula.left - rule.formula.right
    if len(difference.terms) != 1 or rule.formula.op in ("==", "!="):
        return None
    weight, ref = difference.terms[0]
    if not isinstance(ref, Ref) or not ref.primed or not ref.feature.is_number:
        return None
    op = rule.formula.op if weight > 0 else MIRRORED[rule.formula.op]
    return ref.name, "high" if op in ("<", "<=") else "low", plain(-difference.constant / weight + 0.0)


def _of_bound(feature: Feature, side: Side) -> Obstacle:
    limit = feature.low if side == "low" else feature.high
    turn = "below {} (lower bound)" if side == "low" else "above {} (upper bound)"
    # "Cannot be" goes with names of one thing and of many.
    words = f"{feature.title} cannot be {turn.format(plain_amount(feature, limit))}"
    return Obstacle("bound", feature.name, words, feature.name, side, limit)


def _widened(feature: Feature, side: Side) -> float | None:
    """A bound moved outwards on the grid; what was never negative does not become so. None: it cannot move."""
    steps = max(1, round(WIDER * (feature.top or 0)))
    first, last = feature.at(np.array([0, feature.top or 0]))
    step = float(feature.step or 1)
    if side == "low":
        steps = steps if first < 0 else min(steps, int(np.floor(first / step + 1e-9)))
        return None if steps < 1 else plain(feature.at(np.array([-steps]))[0])
    steps = steps if last >= 0 else min(steps, int(np.floor(-last / step + 1e-9)))
    return None if steps < 1 else plain(feature.at(np.array([(feature.top or 0) + steps]))[0])
