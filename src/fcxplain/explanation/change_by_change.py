"""One answer, one change at a time, in the order that helps most: how far each change moves the probability."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .certificate import Change, labels
from .checks import Bools, Checks, check, needed_scores
from .explanation import Explanation
from .frame import answer_number


@dataclass(frozen=True)
class Step:
    """One more change, and the model's answer to the row with it."""

    change: Change
    probability: float
    """Of the target, or a regressor's output; NaN where a value is outside its domain and the model was not queried."""
    predicted: Any
    met: bool
    """Whether the target is met."""
    keeps_rules: bool
    """Whether the row keeps every rule after this step; only the whole answer has to."""


@dataclass(frozen=True)
class Steps:
    """The steps from a row to one of its answers."""

    row: Any
    """The row's label."""
    wanted: Any
    probability: float
    """Of the target, or a regressor's output, for the present row."""
    predicted: Any
    met: bool
    threshold: float | None
    """The probability needed for the target; None with more than two classes, and for a regressor."""
    steps: tuple[Step, ...]


def steps_of(explanation: Explanation, which: Hashable = 0) -> Steps:
    """Apply the changes of an answer one at a time, each time the one that makes the target class most likely.

    Changes that help equally are taken in the schema's order. The task's own model is queried for every
    intermediate row. The order helps to read an answer and is not a plan: an intermediate row may break rules.

    Parameters
    ----------
    explanation : Explanation
        The answers.
    which : int or label, default=0
        The answer's number or its row's label, as in `Explanation.certificate`.

    Returns
    -------
    Steps
        The present row, and the model's answer after each change.
    """
    i = answer_number(explanation, which)
    place, changed = int(explanation.place[i]), explanation.checks.changed[i]
    pair = pd.concat([explanation.rows.iloc[[place]], explanation.answers.iloc[[i]]], ignore_index=True)
    wanted = explanation.checks.wanted[[i]]
    start = _checked(explanation, place, pair, wanted, np.zeros((1, len(changed)), dtype=bool))
    # Unchanged features may still differ by less than half a step; taken over, the last step is the answer itself.
    taken, left, steps = ~changed, np.flatnonzero(changed).tolist(), []
    changes = dict(zip(left, explanation.changes(i), strict=True))
    while left:
        tried = np.tile(taken, (len(left), 1))
        tried[np.arange(len(left)), left] = True
        found = _checked(explanation, place, pair, wanted, tried)
        nearest = found.score if explanation.task.classes else found.margin
        best = int(np.argmax(np.nan_to_num(nearest, nan=-np.inf)))
        change, predicted, keeps = changes[left[best]], found.predicted[best], bool(found.feasible[best])
        steps.append(Step(change, float(found.score[best]), predicted, bool(found.valid[best]), keeps))
        taken = tried[best]
        del left[best]
    label = labels(explanation.rows.index[[place]])[0]
    needed = float(needed_scores(explanation.task, wanted)[0])
    threshold = None if np.isnan(needed) else needed
    said = float(start.score[0]), start.predicted[0], bool(start.valid[0])
    return Steps(label, wanted[0], *said, threshold, tuple(steps))


def _checked(e: Explanation, place: int, pair: pd.DataFrame, wanted: NDArray[Any], taken: Bools) -> Checks:
    """Rows that take some features from the answer and the others from the row, checked like any answer."""
    chosen = taken.astype(np.int64)
    columns = {name: pair[name].take(chosen[:, j]).reset_index(drop=True) for j, name in enumerate(pair.columns)}
    before = pair.take(np.zeros(len(taken), dtype=np.int64)).reset_index(drop=True)
    return check(e.task, before, pd.DataFrame(columns), wanted.repeat(len(taken)), e.own, np.full(len(taken), place))
