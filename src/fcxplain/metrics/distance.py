"""Distances of counterfactuals from their rows, and from each other.

The means are over all answers of rank 1 for rows to explain, valid or not, as in the reference code of the paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..explanation import Explanation
from ..explanation.lof import alike
from ..task import Task
from .figure import Figure, absent, first, handed_out, natural_answers

NO_ANSWER = "no row to explain has an answer"


def continuous_proximity(answer: Explanation, task: Task) -> float:
    """Minus the mean, over answers, of the sum over numbers of abs(change) / MAD of the training rows.

    A MAD of 0 falls back to the standard deviation, and a standard deviation of 0 to the step; notes name the features.
    An answer with a missing or infinite number has no distance and is left out.
    """
    answer = answer.under(task)
    if not task.schema.numbers:
        return absent("the table has no numbers")
    distance = answer.checks.continuous[first(answer)]
    measured = np.isfinite(distance)
    notes = list(unit_notes(task))
    if not measured.all():
        count = f"{(~measured).sum():,} of {len(measured):,} answers"
        notes.append(f"continuous_proximity: left out {count}, with a missing or infinite number")
    return _mean(-distance[measured], NO_ANSWER if measured.all() else "no answer has a distance", notes)


def categorical_proximity(answer: Explanation, task: Task) -> float:
    """Minus the mean, over answers, of the number of categories changed."""
    answer = answer.under(task)
    if not task.schema.categories:
        return absent("the table has no categories")
    is_category = np.array([f.is_category for f in task.schema])
    return _mean(-answer.checks.changed[first(answer)][:, is_category].sum(axis=1), NO_ANSWER)


def sparsity(answer: Explanation, task: Task) -> float:
    """The mean, over answers, of the number of features changed: by more than half a step, or to another level."""
    answer = answer.under(task)
    return _mean(answer.checks.changes[first(answer)], NO_ANSWER)


def diversity(answer: Explanation, task: Task) -> float:
    """Distinct answers in percent of answers, over every rank and row to explain."""
    answer = answer.under(task)
    which = handed_out(answer)
    if not len(which):
        return absent(NO_ANSWER)
    groups = alike(natural_answers(answer, which))
    return Figure(100 * len(np.unique(groups)) / len(groups))


def diversity_pairs(answer: Explanation, task: Task) -> float:
    """The share of features in which two answers to one row differ, in percent.

    The mean over all pairs of a row's answers, then over the rows with at least two answers. Two values differ if they
    are more than half a step apart, or are different levels.
    """
    answer = answer.under(task)
    which = handed_out(answer)
    which = which[np.argsort(answer.place[which], kind="stable")]
    place, natural = answer.place[which], natural_answers(answer, which)
    total, pairs = np.zeros(len(answer)), np.zeros(len(answer))
    for one, other in _pairs(place):
        differing = sum(f.changed(natural[f.name][one], natural[f.name][other]).astype(int) for f in task.schema)
        np.add.at(total, place[one], differing)
        np.add.at(pairs, place[one], 1)
    several = pairs > 0
    if not several.any():
        return absent("no row has two answers")
    return Figure(100 * float(np.mean(total[several] / pairs[several])) / len(task.schema))


def unit_notes(task: Task) -> Iterator[str]:
    """Notes on numbers that are not measured in units of their MAD, and the unit used instead."""
    for name, values in task.schema.natural(task.train, task.schema.numbers).items():
        if np.nanmedian(np.abs(values - np.nanmedian(values))) == 0:
            instead = "standard deviation" if np.nanstd(values) else "step"
            yield f"{name}: MAD is 0, {instead} used"


def _pairs(place: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Indices of all pairs of lines with the same entry, in batches; `place` is sorted."""
    for apart in range(1, len(place)):
        one = np.flatnonzero(place[apart:] == place[:-apart])
        if not len(one):
            return
        yield one, one + apart


def _mean(values: NDArray[Any], why_absent: str, notes: list[str] | None = None) -> Figure:
    if not len(values):
        return absent(why_absent, notes or ())
    # Adding 0 turns -0.0, for no change at all, into 0.0.
    return Figure(float(values.mean()) + 0.0, notes=notes or ())
