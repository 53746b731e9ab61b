"""Tree ensembles as plain numbers: the split of each node, the score of each leaf, and their sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import ClassifierError
from ...outcome import Need, Outcomes
from ..estimators import Asking, thresholded
from ..protocol import CheckedClassifier, Classifier
from ..rows import model_rows
from .ensembles import CODES, Read, Tree, read, reader_of
from .pipeline import final_step

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Places = NDArray[np.int64]

# Larger ensembles are not read: bounds would be expensive, and too loose to prove anything.
MOST_NODES = 2**20
# The internals of a model differ between versions: a model that cannot be read proves nothing.
UNREADABLE = (AttributeError, ImportError, IndexError, KeyError, TypeError, ValueError, ClassifierError)


@dataclass(frozen=True, eq=False)
class Questions:
    """The splits of nodes, by one column each; true goes left.

    A number goes left if it is at most `most`; if `table` is not -1, a category is looked up in that line of `tables`.
    Missing values go left where `missing_left`.
    """

    column: Places
    most: Floats
    missing_left: Bools
    table: Places
    tables: Bools

    def goes_left(self, which: Places, x: Floats) -> Bools:
        """Whether values go left at splits, elementwise."""
        missing, left = np.isnan(x), x <= self.most[which]
        if len(self.tables):
            coded = self.table[which] >= 0
            missing = missing | (coded & (x < 0))
            codes = np.where(missing, 0, x).astype(np.int64) % CODES
            left = np.where(coded, self.tables[self.table[which], codes], left)
        return np.where(missing, self.missing_left[which], left)


@dataclass(frozen=True, eq=False)
class Trees:
    """All trees as one list of nodes. A row's scores are the sum of `scores` (`nodes x classes`) of its leaves."""

    questions: Questions
    asked: Places
    """The split of each node, -1 for a leaf."""
    left: Places
    right: Places
    roots: Places
    scores: Floats

    def sums(self, x: Floats) -> Floats:
        """The scores of rows, `n x classes`, by descending every tree."""
        node = np.tile(self.roots, (len(x), 1))
        while True:
            row, tree = np.nonzero(self.asked[node] >= 0)
            if not len(row):
                return np.asarray(self.scores[node].sum(axis=1))
            here = node[row, tree]
            asked = self.asked[here]
            left = self.questions.goes_left(asked, x[row, self.questions.column[asked]])
            node[row, tree] = np.where(left, self.left[here], self.right[here])


@dataclass(frozen=True, eq=False)
class TreeModel:
    """An ensemble whose scores are `base` plus those of its trees: log-odds, or with `shares` probabilities.

    The scores of a regressor are 0 and its output.

    `columns` computes the columns of the splits from rows; each depends on a single feature.
    """

    trees: Trees
    base: Floats
    shares: bool
    roundoff: float
    columns: Callable[[pd.DataFrame], Floats]
    raw: Callable[[pd.DataFrame], Floats]
    """The model's own scores of rows."""

    @property
    def slack(self) -> float:
        """A bound on the rounding of a difference of two scores, for the model's summation and ours together."""
        largest = np.maximum.reduceat(np.abs(self.trees.scores).max(axis=1), self.trees.roots)
        size = float(np.abs(self.base).sum() + largest.sum())
        return (4 * len(self.trees.roots) + 64) * self.roundoff * (1 + size)

    def ways(self, outcomes: Outcomes, code: int) -> list[list[Need]]:
        """What an outcome requires of the sums of the trees, for each of its alternatives."""
        ways = outcomes.ways(code, shares=self.shares, room=64 * self.roundoff)
        return [[self._of_trees(need) for need in way] for way in ways]

    def _of_trees(self, need: Need) -> Need:
        base = float(need.weights @ self.base)
        slack = self.slack * max(1.0, float(np.abs(need.weights).sum()) / 2)
        return Need(need.weights, base + need.loose + slack, base + need.firm - slack)


def read_trees(classifier: Classifier, probe: pd.DataFrame) -> tuple[TreeModel | None, tuple[str, ...]]:
    """The classifier's trees, or None and the reason. `probe` are legal rows on which predictions are compared."""
    asking = classifier.answer if isinstance(classifier, CheckedClassifier) else None
    if not isinstance(asking, Asking) or not len(probe) or reader_of(asking.model) is None:
        return None, ()
    assert isinstance(classifier, CheckedClassifier)
    try:
        transform, model = final_step(asking.model)
        is_unread = classifier.threshold is None and thresholded(asking.model) is not None
        if classifier.own is not None and (classifier.parts or is_unread):
            raise ValueError("how its predict decides is unknown")

        def shown(rows: pd.DataFrame) -> Any:
            return transform(asking.shown(model_rows(rows, classifier.schema, classifier.encoder)))

        return _checked(classifier, read(model), shown, probe), ()
    except UNREADABLE as error:
        return None, (f"the trees of {classifier.name} could not be read: {error}",)


def agrees(classifier: CheckedClassifier, model: TreeModel, rows: pd.DataFrame) -> bool:
    """Whether trees that were read earlier still give the model's own scores and probabilities."""
    try:
        _compare_scores(classifier, model, rows, model.raw(rows), model.trees.sums(model.columns(rows)))
    except UNREADABLE:
        return False
    return True


def _checked(
    classifier: CheckedClassifier, read: Read, shown: Callable[[pd.DataFrame], Any], probe: pd.DataFrame
) -> TreeModel:
    """The trees with their initial score, if they predict as the classifier does."""
    trees, given = joined(read.trees), shown(probe)
    raw, own = read.raw(given), trees.sums(read.matrix(given))
    if raw.shape != own.shape:
        raise ValueError(f"{raw.shape[1]} scores for a row, but {own.shape[1]} in its leaves")
    model = TreeModel(
        trees,
        np.median(raw - own, axis=0),
        read.shares,
        read.roundoff,
        lambda rows: read.matrix(shown(rows)),
        lambda rows: read.raw(shown(rows)),
    )
    _compare_scores(classifier, model, probe, raw, own)
    return model


def compare(classifier: CheckedClassifier, model: TreeModel, rows: pd.DataFrame) -> None:
    """Raise a ValueError for trees that predict some rows differently from the classifier."""
    sums = model.trees.sums(model.columns(rows))
    _compare_scores(classifier, model, rows, model.raw(rows), sums)
    if classifier.regression:
        return
    places = classifier.decide(rows).choice
    outcomes = Outcomes.of(classifier.classes, classifier.classes, threshold=classifier.threshold)
    for target in np.unique(places).tolist():
        (way,) = model.ways(outcomes, target)
        for need in way:
            if not (sums[places == target] @ need.weights + need.loose >= 0).all():
                raise ValueError(f"the model predicts {classifier.classes[target]!r} where they do not")


def _compare_scores(
    classifier: CheckedClassifier, model: TreeModel, rows: pd.DataFrame, raw: Floats, sums: Floats
) -> None:
    apart = np.abs(raw - sums - model.base).max()
    if not apart <= model.slack:
        raise ValueError(f"their sum differs from the model's own by {apart:.2g}")
    scores = sums + model.base
    found = scores[:, 1:] if classifier.regression else _probabilities(scores, model.shares)
    apart = np.abs(found - classifier.probabilities(rows)).max()
    if not apart <= 64 * (model.slack + model.roundoff):
        raise ValueError(f"their probabilities differ from the model's own by {apart:.2g}")


def _probabilities(scores: Floats, shares: bool) -> Floats:
    if shares:
        return scores
    exp = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(exp / exp.sum(axis=1, keepdims=True))


def joined(trees: list[Tree]) -> Trees:
    """Single trees as one list of nodes, with each distinct split once."""
    sizes = [len(t.left) for t in trees]
    if not sizes or sum(sizes) > MOST_NODES:
        raise ValueError(f"there are {sum(sizes):,} nodes, but at most {MOST_NODES:,} are read")
    starts = np.cumsum([0, *sizes[:-1]])
    shift = np.repeat(starts, sizes)
    tables: dict[bytes, int] = {}
    table = [tables.setdefault(t.tables[i].tobytes(), len(tables)) if i >= 0 else -1 for t in trees for i in t.table]
    column, most, missing = (np.concatenate([getattr(t, n) for t in trees]) for n in ("column", "most", "missing_left"))
    leaf = np.concatenate([t.left < 0 for t in trees])
    lines = np.column_stack([column, most, missing, table])[~leaf]
    distinct, back = np.unique(lines, axis=0, return_inverse=True)
    asked = np.full(len(leaf), -1)
    asked[~leaf] = back.ravel()
    columns, which = distinct[:, 0].astype(np.int64), distinct[:, 3].astype(np.int64)
    bits = np.asarray([np.frombuffer(b, dtype=bool) for b in tables]).reshape(-1, CODES)
    questions = Questions(columns, distinct[:, 1], distinct[:, 2] > 0, which, bits)
    left, right = (np.concatenate([getattr(t, n) for t in trees]) + shift for n in ("left", "right"))
    return Trees(questions, asked, left, right, starts, np.concatenate([t.scores for t in trees]))
