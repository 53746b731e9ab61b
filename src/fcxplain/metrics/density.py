"""Whether counterfactuals lie where rows lie: local outlier factors (LOF), and support by training rows.

`lof` and `outliers` are the paper's: LOF among the feasible counterfactuals, that is, those that are valid and satisfy
the rules. `lof_to_data` and `outliers_to_data` compare every answer with the training rows instead. All of them use the
answers of rank 1 in encoded columns.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import LocalOutlierFactor

from ..explanation import Explanation
from ..explanation.lof import MOST_POINTS, NEIGHBOURS, alike, encoded, once_for_each, points, reference, sampled, taken
from ..task import Task
from .answers import NO_ANSWER, Figure, Places, absent, first, natural_answers, share

OUTLIER = 1.5
# A combination of categories is supported if it occurs in more training rows than this.
RARE = 20
NONE_FEASIBLE = "no answer is both valid and feasible"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LofScores:
    """LOF of points, the number of answers at each, and the number of answers in all, if the points are a sample."""

    lof: Floats
    weight: NDArray[np.int64]
    answers: int
    notes: tuple[str, ...] = ()

    @property
    def mean(self) -> Figure:
        """Mean over answers."""
        return Figure(float(np.average(self.lof, weights=self.weight)), notes=self.notes)

    def outlying(self, of: int) -> float:
        """How many of so many answers are outliers."""
        return of * float(self.weight[self.lof > OUTLIER].sum() / self.weight.sum())


def lof(answer: Explanation, task: Task) -> float:
    """Mean LOF (k = 20) among the feasible counterfactuals; copies count as one point and share its score.

    k is capped at the number of distinct points minus one. A single point scores 1.
    """
    scores = _among_distinct(answer.under(task))
    return absent(scores) if isinstance(scores, str) else scores.mean


def outliers(answer: Explanation, task: Task) -> float:
    """The number of feasible counterfactuals whose LOF, as in `lof`, is above 1.5; an estimate if that is a sample."""
    scores = _among_distinct(answer.under(task))
    if isinstance(scores, str):
        return absent(scores)
    return Figure(round(scores.outlying(scores.answers)), notes=scores.notes)


def lof_raw(answer: Explanation, task: Task) -> float:
    """`lof` with every copy as a separate point, so that a method with one answer for all rows scores 1.

    A point whose neighbours are copies of each other is infinitely sparser than they are. scikit-learn gives it a score
    of about 10^10, and a single such point dominates the mean.
    """
    answer = answer.under(task)
    which = _feasible(answer)
    if not len(which):
        return absent(NONE_FEASIBLE)
    natural, groups = _by_point(answer, which)
    # In ascending order, so that ties among neighbours do not depend on the order of the rows.
    order = sampled(np.argsort(groups, kind="stable"), MOST_POINTS, task.seed)
    notes = _sample_notes("lof_raw", len(order), len(which), "feasible answers")
    return Figure(float(lof_of_points(encoded(task, taken(natural, order))).mean()), notes=notes)


def lof_to_data(answer: Explanation, task: Task) -> float:
    """Mean novelty LOF (k = 20) of the answers against distinct training rows.

    Answers with a value outside the domain cannot be encoded. They are left out, and a note says so.
    """
    scores = _against_data(answer.under(task))
    return absent(scores) if isinstance(scores, str) else scores.mean


def outliers_to_data(answer: Explanation, task: Task) -> float:
    """Answers whose LOF, as in `lof_to_data`, is above 1.5, in percent of the answers measured there."""
    scores = _against_data(answer.under(task))
    return absent(scores) if isinstance(scores, str) else Figure(scores.outlying(100), notes=scores.notes)


def supported(answer: Explanation, task: Task) -> float:
    """Answers whose combination of categories occurs in more than 20 training rows, in percent of answers."""
    answer = answer.under(task)
    which, names = first(answer), task.schema.categories
    if not names:
        return absent("the table has no categories")
    seen, asked = (task.schema.natural(table, names) for table in (task.train, answer.answers.iloc[which]))
    groups = alike({name: np.concatenate([seen[name], asked[name]]) for name in names})
    count = np.bincount(groups[: len(task.train)], minlength=groups.max() + 1)
    return share(count[groups[len(task.train) :]] > RARE, NO_ANSWER)


# Remembered, since LOF is slow and two metrics need each.
@once_for_each
def _among_distinct(answer: Explanation) -> LofScores | str:
    """The scores, or why there are none."""
    which = _feasible(answer)
    if not len(which):
        return NONE_FEASIBLE
    natural, groups = _by_point(answer, which)
    rows, weight, chosen = points(groups, answer.task.seed)
    notes = _sample_notes("LOF", len(chosen), len(rows), "distinct feasible answers")
    scores = lof_of_points(encoded(answer.task, taken(natural, rows[chosen])))
    return LofScores(scores, weight[chosen], len(which), notes)


@once_for_each
def _against_data(answer: Explanation) -> LofScores | str:
    which = first(answer)
    legal = which[answer.checks.in_domain[which]]
    if not len(legal):
        return "no answer lies inside the domain" if len(which) else NO_ANSWER
    data = reference(answer.task)
    if data.lof is None:
        return "the training rows are all equal"
    natural, groups = _by_point(answer, legal)
    rows, weight, chosen = points(groups, answer.task.seed)
    notes = _sample_notes("LOF to data", data.used, data.there, "distinct training rows")
    notes += _sample_notes("LOF to data", len(chosen), len(rows), "distinct answers")
    if len(legal) < len(which):
        notes += (f"LOF to data: left out {len(which) - len(legal):,} of {len(which):,} answers, outside the domain",)
    scores = data.lof.scores(encoded(answer.task, taken(natural, rows[chosen])))
    return LofScores(scores, weight[chosen], len(legal), notes)


def _feasible(answer: Explanation) -> Places:
    which = first(answer)
    return which[(answer.checks.valid & answer.checks.feasible)[which]]


def _by_point(answer: Explanation, which: Places) -> tuple[dict[str, NDArray[Any]], Places]:
    natural = natural_answers(answer, which)
    return natural, alike(natural)


def lof_of_points(points: Floats, k: int = NEIGHBOURS) -> Floats:
    """LOF of each point among the others."""
    if len(points) < 2:
        return np.ones(len(points))
    model = LocalOutlierFactor(n_neighbors=min(k, len(points) - 1))
    with warnings.catch_warnings():
        # Copies are intended where there are any; `lof_raw` describes their effect.
        warnings.filterwarnings("ignore", message="Duplicate values are leading")
        return np.asarray(-model.fit(points).negative_outlier_factor_)


def _sample_notes(place: str, used: int, there: int, what: str) -> tuple[str, ...]:
    return () if used == there else (f"{place}: a sample of {used:,} of {there:,} {what}",)
