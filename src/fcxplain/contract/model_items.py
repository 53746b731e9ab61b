"""What the contract asks of a model: proper probabilities that belong to the row alone, for every legal row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..classifier.protocol import chosen
from ..classifier.rows import legal_rows
from ..task import Task
from .report import Item, broken, held, noted, told, tried

Floats = NDArray[np.float64]
# Batches of other sizes round differently; more than this is another answer.
SAME = 1e-5
SUM = 1e-4
# Rows that the model is asked about one at a time.
ALONE = 10
SEEDED = "Fix its seed, or put it into evaluation mode."
BY_ROW = "It must keep the order of its rows and use nothing but the row itself, no mean over the batch."


def model_items(task: Task, rows: pd.DataFrame, seed: int) -> Iterator[Item]:
    """Every item about the model, tried on some training rows."""
    look = "Ask your model about these rows by hand; it has to answer every legal row."
    trials: dict[str, Callable[..., Item]] = {
        "model: probabilities": _proper,
        "model: same answer twice": _deterministic,
        "model: order of rows": partial(_unordered, seed=seed),
        "model: rows beside a row": _alone,
        "model: its table": _untouched,
        "model: class wanted": _wanted,
    }
    for name, trial in trials.items():
        yield tried(name, look, partial(trial, name, task, rows))
    yield tried("model: legal rows", look, partial(_accepts, "model: legal rows", task, len(rows), seed))


def _ask(task: Task, rows: pd.DataFrame) -> Floats:
    """The model's answer to a copy of the rows, so that what it does to them spoils no other item."""
    return np.asarray(task.classifier.probabilities(rows.copy(deep=True)), dtype=np.float64)


def _proper(name: str, task: Task, rows: pd.DataFrame) -> Item:
    found = _ask(task, rows)
    size = (len(rows), len(task.classes))
    if found.shape != size:
        remedy = "Return one probability for each row and class."
        return broken(name, f"the answer has the shape {found.shape}, not {size}", remedy)
    wrong = ~np.isfinite(found).all(axis=1) | (found < 0).any(axis=1) | (found > 1).any(axis=1)
    wrong |= np.abs(found.sum(axis=1) - 1) > SUM
    if wrong.any():
        first = f"{wrong.sum():,} of {len(rows):,} rows, first at index {rows.index[wrong][0]!r}: {found[wrong][0]}"
        return broken(name, f"no probabilities that sum to 1 for {first}", "Divide each row by its sum.")
    return held(name, f"{len(rows):,} training rows get {len(task.classes)} probabilities each, which sum to 1")


def _deterministic(name: str, task: Task, rows: pd.DataFrame) -> Item:
    answers = [_ask(task, rows) for _ in range(3)]
    gap = max(_gap(task, answers[0], other) for other in answers[1:])
    if gap > SAME:
        return broken(name, f"asked three times about the same rows, its answers differ by up to {gap:.2g}", SEEDED)
    return held(name, f"asked three times about {len(rows):,} rows, it says the same")


def _unordered(name: str, task: Task, rows: pd.DataFrame, *, seed: int) -> Item:
    usual = _ask(task, rows)
    orders = [np.arange(len(rows))[::-1], np.random.default_rng(seed).permutation(len(rows))]
    gap = max(_gap(task, usual[order], _ask(task, rows.iloc[order])) for order in orders)
    if gap > SAME:
        return broken(name, f"in another order, the same rows get answers that differ by up to {gap:.2g}", BY_ROW)
    return held(name, "backwards and shuffled, every row gets its answer")


def _alone(name: str, task: Task, rows: pd.DataFrame) -> Item:
    usual, few = _ask(task, rows), range(min(ALONE, len(rows)))
    alone = np.concatenate([_ask(task, rows.iloc[[i]]) for i in few])
    half = len(rows) // 2
    parts = np.concatenate([_ask(task, part) for part in (rows.iloc[:half], rows.iloc[half:])])
    gap = max(_gap(task, usual[: len(alone)], alone), _gap(task, usual, parts))
    if gap > SAME:
        return broken(name, f"an answer depends on the rows asked beside it, by up to {gap:.2g}", BY_ROW)
    return held(name, "a row gets the same answer alone, in halves and in the whole table")


def _gap(task: Task, one: Floats, other: Floats) -> float:
    """How far two answers are apart; wholly, if a class differs."""
    if one.shape != other.shape:
        return float("inf")
    if not len(one):
        return 0.0
    gap = float(np.abs(one - other).max())
    threshold = task.classifier.threshold
    # A class on the very edge flips by rounding alone, which no search can make up for.
    return gap if (chosen(one, threshold) == chosen(other, threshold)).all() else max(gap, 2 * SAME)


def _untouched(name: str, task: Task, rows: pd.DataFrame) -> Item:
    given = rows.copy(deep=True)
    task.classifier.probabilities(given)
    if not given.equals(rows) or list(given.columns) != list(rows.columns) or not given.index.equals(rows.index):
        return broken(name, "the model changes the table that it is asked about", "Let it work on a copy.")
    return held(name, "the table it is asked about is as before")


def _wanted(name: str, task: Task, rows: pd.DataFrame) -> Item:
    have = int((~task.refused(rows.copy(deep=True))).sum())
    wanted = "the other class" if task.target is None else repr(task.target)
    return noted(name, f"the target is {wanted}; {have:,} of {len(rows):,} training rows have it already")


def _accepts(name: str, task: Task, count: int, seed: int) -> Item:
    dtypes = task.encoder.dtypes_
    corners = [task.schema.table({f.name: f.at(np.array([0, f.top or 0])) for f in task.schema}, dtypes=dtypes)]
    rows = pd.concat([*corners, legal_rows(task.schema, count, seed=seed, dtypes=dtypes)], ignore_index=True)
    try:
        _ask(task, rows)
    except Exception as error:
        bad = [i for i in range(len(rows)) if not _answers(task, rows.iloc[[i]])]
        shown = f", e.g. {rows.iloc[bad[0]].to_dict()}" if bad else ""
        problem = f"{len(bad):,} of {len(rows):,} rows inside the schema's bounds get no answer{shown}. {told(error)}"
        return broken(name, problem, "Narrow the schema to what the model knows, or make it answer these rows.")
    return held(name, f"{len(rows):,} rows from all over the schema's bounds and levels get an answer")


def _answers(task: Task, row: pd.DataFrame) -> bool:
    try:
        return len(_ask(task, row)) == 1
    except Exception:
        # Which error it was is told of the whole table.
        return False
