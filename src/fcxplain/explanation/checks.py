"""Checks of a counterfactual: the outcome by the user's own model, rules, legal values, immutables; and the costs that
answers were chosen by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import ClassifierError, DataError
from ..outcome import Outcomes
from ..rules import Rule, holds
from ..schema import Feature, Natural
from ..task import Task

if TYPE_CHECKING:
    from ..overrides import Overrides


Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class ChangeCosts:
    """The costs of changes.

    several: changing more than one feature. change: each changed feature; category: each changed category, in addition.
    distance: each unit (MAD of the training rows) that a number moves. difficulty: a factor for each feature, 1 by
    default.
    """

    several: float = 0.0
    change: float = 1.0
    category: float = 0.0
    distance: float = 1.0
    difficulty: Mapping[str, float] = field(default_factory=dict)

    def of_feature(self, task: Task, feature: Feature, now: Any, then: Any) -> tuple[NDArray[np.float64], Bools]:
        """The cost of a feature's change between natural values, and whether it is a change."""
        changed = feature.changed(now, then)
        if feature.is_category:
            cost = (self.change + self.category) * changed.astype(np.float64)
        else:
            cost = self.change * changed + self.distance * _moved(task, feature.name, now, then)
        return cost * self.difficulty.get(feature.name, 1.0), changed

    def total(self, task: Task, before: Natural, after: Natural) -> NDArray[np.float64]:
        """The total cost of changing rows into others."""
        parts = [self.of_feature(task, f, before[f.name], after[f.name]) for f in task.schema]
        count = np.sum([changed for _, changed in parts], axis=0)
        return np.asarray(np.sum([cost for cost, _ in parts], axis=0) + self.several * (count > 1))


@dataclass(frozen=True, eq=False)
class Checks:
    """The checks of `n` counterfactuals, one entry or line for each."""

    wanted: NDArray[Any]
    """The target class, or an `Outcome`."""
    predicted: NDArray[Any]
    """The class by the user's own model, or a regressor's output; None for a row that is not legal, for which the model
    was not queried."""
    valid: Bools
    """Whether the model's answer meets the target."""
    score: NDArray[np.float64]
    """The probability of the target by the user's own model, or a regressor's output."""
    firm: Bools
    """Whether the outcome is beyond rounding: the same in a batch of any size."""
    margin: NDArray[np.float64]
    """How far that is above what is needed or, with more than two classes, above the likeliest other class."""
    kept: Bools
    """`n x (rules + own rules)`: the task's rules, then those of single rows, True where one does not apply."""
    legal: Bools
    """`n x features`: the value is on the feature's grid, or is the present one and may stay."""
    changed: Bools
    """`n x features`: by more than half a step, from off the grid to it, or to another level."""
    immutables_kept: Bools
    continuous: NDArray[np.float64]
    """Sum over numbers of the size of the change, each in units of its spread in the training rows."""

    def __len__(self) -> int:
        return len(self.wanted)

    @property
    def feasible(self) -> Bools:
        """Whether every rule is kept."""
        return np.asarray(self.kept.all(axis=1))

    @property
    def in_domain(self) -> Bools:
        """Whether every value is legal."""
        return np.asarray(self.legal.all(axis=1))

    @property
    def passed(self) -> Bools:
        """Valid, feasible, inside the domain, immutables kept."""
        return self.valid & self.feasible & self.in_domain & self.immutables_kept

    @property
    def changes(self) -> NDArray[np.int64]:
        """How many features differ."""
        return np.asarray(self.changed.sum(axis=1), dtype=np.int64)

    @property
    def cost(self) -> NDArray[np.float64]:
        """Features changed, plus how far the numbers moved."""
        return self.changes + self.continuous

    def take(self, which: NDArray[Any]) -> Checks:
        """Some of the counterfactuals."""
        return Checks(**{name: values[which] for name, values in vars(self).items()})


def check(
    task: Task,
    before: pd.DataFrame | Natural,
    after: pd.DataFrame,
    wanted: NDArray[Any],
    own: Overrides | None = None,
    place: NDArray[np.int64] | None = None,
) -> Checks:
    """Check each row of `after` as a counterfactual for the same line of `before`: a table, or its natural columns.

    `own` has rules of single rows, and `place` says which of its rows each line is about (the same by default).
    """
    first = task.schema.natural(before) if isinstance(before, pd.DataFrame) else before
    rows = len(first[task.schema.names[0]])
    if not rows == len(after) == len(wanted):
        raise DataError(f"{rows:,} rows, {len(after):,} counterfactuals and {len(wanted):,} targets do not match")
    outcomes = task.outcomes(wanted)
    second = task.schema.natural(after)
    features = tuple(task.schema)
    legal = _columns(_legal(f, first[f.name], second[f.name]) for f in features)
    changed = _columns(f.changed(first[f.name], second[f.name]) for f in features)
    predicted, valid, score, firm, margin = _asked(task, after, outcomes, np.asarray(legal.all(axis=1)))
    kept = _columns([_holds(rule, features, first, second, legal) for rule in task.rules], rows)
    if own is not None and own.rules:
        applies = own.applies(np.arange(rows) if place is None else place)
        mine = np.ones_like(applies)
        for j, (rule, lines) in enumerate(zip(own.rules, lines_of(applies), strict=True)):
            now, then = ({name: natural[name][lines] for name in rule.features} for natural in (first, second))
            mine[lines, j] = _holds(rule, features, now, then, legal[lines])
        kept = np.hstack([kept, mine])
    immutables_kept, continuous = np.ones(rows, dtype=bool), np.zeros(rows)
    for f in features:
        if not f.mutable:
            immutables_kept &= f.same(first[f.name], second[f.name])
        if f.is_number:
            continuous += _moved(task, f.name, first[f.name], second[f.name])
    return Checks(
        wanted=wanted,
        predicted=predicted,
        valid=valid,
        score=score,
        firm=firm,
        margin=margin,
        kept=kept,
        legal=legal,
        changed=changed,
        immutables_kept=immutables_kept,
        continuous=continuous,
    )


def lines_of(applies: Bools) -> Iterator[NDArray[np.int64]]:
    """The lines that each own rule applies to, rule by rule."""
    rule, line = np.nonzero(applies.T)
    return iter(np.split(line, np.searchsorted(rule, np.arange(1, applies.shape[1]))))


def _columns(columns: Any, rows: int = 0) -> Bools:
    found = [np.asarray(c, dtype=bool) for c in columns]
    return np.stack(found, axis=1) if found else np.ones((rows, 0), dtype=bool)


def _legal(feature: Feature, before: NDArray[Any], after: NDArray[Any]) -> Bools:
    """Whether values are legal replacements, or present values that may stay."""
    gap, filled = feature.is_missing(before), ~feature.is_missing(after)
    legal = feature.on_grid(after) & (~gap | (feature.missing == "may_be_filled"))
    kept = np.where(gap, ~filled & (feature.missing in ("kept", "may_be_filled")), before == after)
    return np.asarray(legal | (kept & feature.may_stay(before)))


def _holds(rule: Rule, features: tuple[Feature, ...], before: Natural, after: Natural, legal: Bools) -> Bools:
    """Whether a rule is kept; values that do not exist keep no rule."""
    primed = {ref.name for ref in rule.refs if ref.primed}
    known = legal[:, [f.name in primed for f in features]].all(axis=1)
    return np.asarray(holds(rule, before, after) & known)


def _moved(task: Task, name: str, now: NDArray[np.float64], then: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far a number moves, in its unit. Filling a gap counts 0; losing a number gives NaN."""
    return np.where(np.isnan(now), 0.0, np.abs(then - now) / task.units[name])


def _asked(
    task: Task, after: pd.DataFrame, outcomes: Outcomes, legal: Bools
) -> tuple[NDArray[Any], Bools, NDArray[np.float64], Bools, NDArray[np.float64]]:
    """The model's answers, whether they meet the target, their scores, whether they are firm, and their margins."""
    predicted, rows = np.full(len(after), None, dtype=object), len(after)
    score, margin = np.full(rows, np.nan), np.full(rows, np.nan)
    valid, firm = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=bool)
    if legal.any():
        own = outcomes[legal]
        decided = task.classifier.decide(after if legal.all() else after[legal], wanted=lambda _: own)
        answers = decided.probabilities
        predicted[legal], firm[legal] = task.classifier.named(decided), decided.firm
        valid[legal], score[legal] = own.met(answers, decided.choice), own.score(answers)
        margin[legal] = own.above(answers)
    return predicted, valid, score, firm, margin


def scores_now(task: Task, rows: pd.DataFrame, wanted: NDArray[Any]) -> NDArray[np.float64]:
    """The probability of each present row's target, or a regressor's output; NaN where the model fails."""
    outcomes = task.outcomes(wanted)
    try:
        return outcomes.score(task.classifier.probabilities(rows))
    except ClassifierError:
        if len(rows) == 1:
            return np.full(1, np.nan)
    half = len(rows) // 2
    return np.concatenate([scores_now(task, rows.iloc[p], wanted[p]) for p in (slice(half), slice(half, None))])


def needed_scores(task: Task, wanted: NDArray[Any]) -> NDArray[np.float64]:
    """The probability that each row's target needs; NaN where one number cannot say it, and for ranges."""
    if task.classifier.parts:
        return np.full(len(wanted), np.nan if task.target_probability is None else task.target_probability)
    return task.outcomes(wanted).needed
