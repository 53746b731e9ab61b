"""The paper's six metrics as its authors' code counts them (`convention="authors"`).

They use raw outputs, before anything is rounded: numbers unrounded, and of a category the level with the largest share.
For a method that only makes legal rows, they use those. The authors' code uses test rows whose undesired label the
black box confirms, and draws new outputs for every metric; here all metrics share the same rows and answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..explanation import Explanation
from ..explanation.lof import MOST_POINTS, NEIGHBOURS, encoded, sampled, taken
from ..rules import holds
from ..schema import Natural
from ..task import Task
from .answers import NO_ROWS, Bools, Figure, absent, first, mean, natural_answers
from .density import NONE_FEASIBLE, OUTLIER, lof_of_points

Floats = NDArray[np.float64]
NOT_KEPT = "the raw outputs are not available: files hold legal rows only"


@dataclass(frozen=True, eq=False)
class RawOutputs:
    """Raw outputs of the answers of rank 1, `n`: unrounded natural columns, encoded ones, and which are valid."""

    before: Natural
    after: Natural
    encoded: Floats
    valid: Bools

    def feasible(self, task: Task) -> Bools:
        """Which are valid and satisfy the rules, unrounded."""
        return self.valid & (holds(task.rules, self.before, self.after) if task.rules else True)

    def changed(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        """The number of these features that differ at all, for each row."""
        differ = [self.after[name] != self.before[name] for name in names]
        return np.sum(differ, axis=0) if differ else np.zeros(len(self.valid), dtype=np.int64)


def raw_outputs(answer: Explanation) -> RawOutputs | None:
    """The raw outputs, or the legal rows if a method makes no others; None for answers loaded from a file."""
    which, task = first(answer), answer.task
    now = answer.before.iloc[which]
    if answer.raw is not None and answer.soft_valid is not None:
        raw = answer.raw[which]
        # Through the encoder as well, so that unchanged values are equal to the last digit.
        before = _unrounded(task, encoded(task, task.encoder.filled(task.schema.natural(now))))
        return RawOutputs(before, _unrounded(task, raw), raw, answer.soft_valid[which])
    if answer.soft_valid is not None:
        return None
    after, valid = natural_answers(answer, which), (answer.checks.valid & answer.checks.in_domain)[which]
    # Rows that are not legal cannot be encoded.
    raw = np.zeros((len(which), task.encoder.width_))
    raw[valid] = encoded(task, taken(after, valid))
    return RawOutputs(task.schema.natural(now), after, raw, valid)


def _unrounded(task: Task, raw: Floats) -> dict[str, NDArray[np.float64]]:
    """Numbers in their own units, and for each category the level with the largest share."""
    found, encoder = {}, task.encoder
    for feature in task.schema:
        columns = raw[:, encoder.spans_[feature.name]]
        if feature.is_category:
            found[feature.name] = columns.argmax(axis=1)
        else:
            least, spread = encoder.scale_[feature.name]
            found[feature.name] = least + spread * columns[:, 0]
    return found


def validity(answer: Explanation, task: Task) -> float:
    """Rows to explain whose raw output has the target class, in percent."""
    answer = answer.under(task)
    good = answer.soft_valid if answer.soft_valid is not None else answer.checks.valid
    asked, which = int(answer.asked.sum()), first(answer)
    return Figure(100 * float(good[which].sum()) / asked) if asked else absent(NO_ROWS)


def feasibility(answer: Explanation, task: Task) -> float:
    """Valid raw outputs that satisfy every rule of the task, unrounded, in percent of the valid ones."""
    raw = raw_outputs(answer.under(task))
    if raw is None:
        return absent(NOT_KEPT)
    valid = int(raw.valid.sum())
    return Figure(100 * float(raw.feasible(task).sum()) / valid) if valid else absent("no raw output is valid")


def continuous_proximity(answer: Explanation, task: Task) -> float:
    """Minus the mean, over raw outputs, of the sum over numbers of abs(change) / MAD, without numbers whose MAD is 0.

    On Census these are the four that the authors' code leaves out: wages, gains, losses and dividends.
    """
    raw = raw_outputs(answer.under(task))
    if raw is None:
        return absent(NOT_KEPT)
    train = task.schema.natural(task.train, task.schema.numbers)
    mads = {name: float(np.nanmedian(np.abs(v - np.nanmedian(v)))) for name, v in train.items()}
    notes = [f"continuous_proximity: {name} left out, its MAD is 0" for name, mad in mads.items() if not mad]
    parts = [np.abs(raw.after[name] - raw.before[name]) / mad for name, mad in mads.items() if mad]
    if not parts:
        return absent("no number has a MAD above 0", notes)
    return mean(-np.sum(parts, axis=0), notes=notes)


def categorical_proximity(answer: Explanation, task: Task) -> float:
    """Minus the mean, over raw outputs, of the number of categories whose level with the largest share changes."""
    raw = raw_outputs(answer.under(task))
    return absent(NOT_KEPT) if raw is None else mean(-raw.changed(task.schema.categories))


def sparsity(answer: Explanation, task: Task) -> float:
    """The mean, over raw outputs, of the number of categories changed and numbers that differ at all."""
    raw = raw_outputs(answer.under(task))
    return absent(NOT_KEPT) if raw is None else mean(raw.changed(task.schema.names))


def lof(answer: Explanation, task: Task) -> float:
    """Mean LOF (k = 20) of the feasible raw outputs among themselves, copies included, in encoded columns."""
    return lof_and_outliers(answer, task)[0]


def outliers(answer: Explanation, task: Task) -> float:
    """The number of feasible raw outputs that scikit-learn's LOF marks as outliers among them."""
    return lof_and_outliers(answer, task)[1]


def lof_and_outliers(answer: Explanation, task: Task, k: int = NEIGHBOURS) -> tuple[Figure, Figure]:
    """`lof` and `outliers` with another number of neighbours, as in the paper's figure over k."""
    raw = raw_outputs(answer.under(task))
    if raw is None:
        return absent(NOT_KEPT), absent(NOT_KEPT)
    points = raw.encoded[raw.feasible(task)]
    if not len(points):
        return absent(NONE_FEASIBLE), absent(NONE_FEASIBLE)
    # In ascending order, so that ties among neighbours do not depend on the order of the rows.
    order = sampled(np.lexsort(points.T[::-1]), MOST_POINTS, task.seed)
    scores = lof_of_points(points[order], k)
    # As scikit-learn's `fit_predict`, whose offset is -1.5 unless a contamination is set.
    return Figure(float(scores.mean())), Figure(round(float((scores > OUTLIER).mean()) * len(points)))
