"""Models as functions of codes: the contribution of each feature is looked up, and the sum gives the scores.

This needs neither tables nor preprocessing. For a linear model or a perceptron, the contribution of each value to the
first layer is looked up. Trees have their own look-up tables (`trees`), or are evaluated on looked-up columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...classifier.estimators import Asking
from ...classifier.imitation import ImitatingTrees
from ...classifier.protocol import CheckedClassifier, Classifier
from ...classifier.reading.ensembles import Read, dense, read, reader_of, refuse_replaced
from ...classifier.reading.pipeline import ColumnValues, Layers, column_values, final_step, is_layered, read_layers
from ...classifier.reading.trees import UNREADABLE
from ...classifier.reading.trees import joined as joined_trees
from ...classifier.rows import model_rows
from ...errors import ClassifierError
from ...outcome import CERTAIN
from ...proof.tree_cells import MOST_VALUES
from ...schema import Natural
from ..space import Codes, Floats, Rows, SearchSpace
from .trees import TreeCodes

CALIBRATED = "CalibratedClassifierCV"
# Grids with more values than this have no look-up table.
TABLE = 4_096
# Batches of off-grid values whose columns are cached.
REMEMBERED = 64
# Legal rows from which the base score of an ensemble is computed, which its trees do not contain.
PROBES = 64


class CodeModel(Protocol):
    """A model as a function of codes."""

    additive: bool
    """Whether the lead of the second class is a sum over features."""
    rows_at_once: int
    """See `Oracle`."""

    def logits(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """The logits of candidates, `n x classes`: the largest is the most probable class."""


class SummedCodes(ABC):
    """A model that starts with a sum of one contribution per feature."""

    rows_at_once = 1_024
    space: SearchSpace
    start: Floats
    """The start of every sum."""

    @abstractmethod
    def of_values(self, i: int, values: NDArray[Any]) -> Floats:
        """The contributions of a feature's values, `n x width`."""

    @abstractmethod
    def of_codes(self, i: int, codes: Codes) -> Floats:
        """The same for values on the grid, by their codes."""

    @abstractmethod
    def scores(self, sums: Floats) -> Floats:
        """Logits of the sums, `n x classes`."""

    def logits(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """See `CodeModel`."""
        sums = np.tile(self.start, (len(row), 1))
        for i, name in enumerate(self.space.names):
            code, stays = codes[:, i], codes[:, i] > self.space.tops[i]
            if present.off_grid_features[i] and stays.any():
                part = self.of_codes(i, np.where(stays, 0, code))
                sums += np.where(stays[:, None], self.of_values(i, present.natural[name])[row], part)
            else:
                sums += self.of_codes(i, code)
        return self.scores(sums)


def read_code_model(space: SearchSpace) -> CodeModel | None:
    """The task's model as a function of codes, if it can be read; not yet compared with the model."""
    classifier, asking = space.task.classifier, _asking(space.task.classifier)
    if asking is None:
        return None

    def shown(rows: pd.DataFrame) -> Any:
        return asking.shown(model_rows(rows, classifier.schema, classifier.encoder))

    try:
        return _Reader(space).of(asking.model, shown)
    except UNREADABLE:
        return None


def is_readable(classifier: Classifier) -> bool:
    """Whether a classifier is of a readable kind: supported trees, a linear model or a perceptron."""
    asking = _asking(classifier)
    if asking is None:
        return False
    try:
        _, last = final_step(asking.model)
    except UNREADABLE:
        return False
    if type(last).__name__ == CALIBRATED:
        return True
    return reader_of(last) is not None or is_layered(last)


def _asking(classifier: Classifier) -> Asking | None:
    """How the estimator behind a classifier is queried, if there is one."""
    answer = classifier.answer if isinstance(classifier, CheckedClassifier) else None
    return answer if isinstance(answer, Asking) else None


def imitating_code_model(space: SearchSpace, found: ImitatingTrees) -> CodeModel:
    """Trees that imitate the task's model, as a function of codes."""
    codes = space.task.encoder.codes
    return TreeCodes(space, found.trees, found.base, lambda rows: found.columns(codes(rows)), shares=False)


@dataclass(frozen=True, eq=False)
class _Reader:
    """Reads the models of one task."""

    space: SearchSpace

    def of(self, model: Any, shown: Callable[[pd.DataFrame], Any]) -> CodeModel | None:
        """Read a fitted estimator; `shown` turns rows into its input."""
        transform, last = final_step(model)

        def given(rows: pd.DataFrame) -> Any:
            return transform(shown(rows))

        if type(last).__name__ == CALIBRATED:
            return self._calibrated(last, given)
        if reader_of(last) is not None:
            return self._trees(read(last), given)
        layers = read_layers(last)
        if layers is None:
            return None
        return LayerCodes(self.space, layers, lambda rows: dense(given(rows)).astype(np.float64))

    def _trees(self, known: Read, given: Callable[[pd.DataFrame], Any]) -> CodeModel:
        trees, probe = joined_trees(known.trees), given(self.space.task.legal_rows(PROBES, seed=0))
        base = np.median(known.raw(probe) - trees.sums(known.matrix(probe)), axis=0)

        def columns(rows: pd.DataFrame) -> Floats:
            return known.matrix(given(rows))

        try:
            return TreeCodes(self.space, trees, base, columns, shares=known.shares)
        except ClassifierError:
            if known.walk is None or not known.shares:
                raise
            return WalkedCodes(self.space, known.walk, columns)

    def _calibrated(self, model: Any, shown: Callable[[pd.DataFrame], Any]) -> CodeModel | None:
        refuse_replaced(model)
        parts, made = model.calibrated_classifiers_, []
        for part in parts:
            own = self.of(part.estimator, shown)
            if own is None:
                return None
            made.append((own, part.calibrators, hasattr(part.estimator, "decision_function")))
        return CalibratedCodes(made)


def _grids(space: SearchSpace) -> dict[str, NDArray[Any]]:
    if int(space.tops.sum()) > MOST_VALUES:
        raise ClassifierError(f"the features have more than {MOST_VALUES:,} legal values together")
    return {f.name: f.at(np.arange(top + 1)) for f, top in zip(space.features, space.tops.tolist(), strict=True)}


class LayerCodes(SummedCodes):
    """Layers on columns that each come from one feature, whose values contribute to the first layer."""

    def __init__(self, space: SearchSpace, layers: Layers, columns: Callable[[pd.DataFrame], Floats]) -> None:
        self.space, self.layers, self._values = space, layers, _Values(space, columns)
        known, weight = self._values.known, layers.weights[0]
        free = np.setdiff1d(np.arange(len(known.base)), np.concatenate([np.empty(0, dtype=np.int64), *known.owned]))
        self.start = layers.biases[0] + known.base[free] @ weight[free]
        self.additive = len(layers.weights) == 1 and weight.shape[1] <= 2
        self._weights = [weight[own] for own in known.owned]
        # For large grids, only the columns are kept; they are multiplied on demand.
        self._columns = [values[:, own] for values, own in zip(known.values, known.owned, strict=True)]
        self._lines = [x @ w if len(x) <= TABLE else None for x, w in zip(self._columns, self._weights, strict=True)]

    def of_values(self, i: int, values: NDArray[Any]) -> Floats:
        """See `SummedCodes`."""
        return np.asarray(self._values.of(i, values)[:, self._values.known.owned[i]] @ self._weights[i])

    def of_codes(self, i: int, codes: Codes) -> Floats:
        """See `SummedCodes`."""
        lines = self._lines[i]
        return lines.take(codes, axis=0) if lines is not None else self._columns[i][codes] @ self._weights[i]

    def scores(self, sums: Floats) -> Floats:
        """See `SummedCodes`."""
        return self.layers.after_first(sums)


class WalkedCodes(SummedCodes):
    """Trees too large for look-up tables: their input columns are looked up, and their own library evaluates them."""

    additive, rows_at_once = False, 2_048

    def __init__(
        self, space: SearchSpace, walk: Callable[[Floats], Floats], columns: Callable[[pd.DataFrame], Floats]
    ) -> None:
        self.space, self._walk, self._values = space, walk, _Values(space, columns)
        known = self._values.known
        self.start = known.base.copy()
        self.start[np.concatenate(known.owned)] = 0.0
        self._lines = [self._alone(i, values) for i, values in enumerate(known.values)]

    def _alone(self, i: int, columns: Floats) -> Floats:
        """The columns of one feature, and 0 for all others."""
        alone, own = np.zeros_like(columns), self._values.known.owned[i]
        alone[:, own] = columns[:, own]
        return alone

    def of_values(self, i: int, values: NDArray[Any]) -> Floats:
        """See `SummedCodes`."""
        return self._alone(i, self._values.of(i, values))

    def of_codes(self, i: int, codes: Codes) -> Floats:
        """See `SummedCodes`."""
        return self._lines[i].take(codes, axis=0)

    def scores(self, sums: Floats) -> Floats:
        """See `SummedCodes`: here the sums are the columns, each from one feature."""
        return np.asarray(np.log(np.clip(self._walk(sums), CERTAIN, 1.0)))


class _Values:
    """The input columns of a model's last estimator for every legal value of each feature, and for other values."""

    def __init__(self, space: SearchSpace, columns: Callable[[pd.DataFrame], Floats]) -> None:
        self._table, self._columns, self._grids = space.task.table, columns, _grids(space)
        self._names = space.names
        self.known: ColumnValues = column_values(self._table, columns, self._grids)
        # The same rows are queried again and again.
        self._of = lru_cache(maxsize=REMEMBERED)(self._shown)

    def of(self, i: int, values: NDArray[Any]) -> Floats:
        """The columns for other values of a feature, with all other features at their first value."""
        return self._of(i, np.asarray(values, dtype=np.float64).tobytes())

    def _shown(self, i: int, held: bytes) -> Floats:
        values: NDArray[Any] = np.frombuffer(held)
        values = values.astype(np.int64) if self._grids[self._names[i]].dtype.kind == "i" else values
        others: Natural = {n: np.full(len(values), grid[0]) for n, grid in self._grids.items()}
        return self._columns(self._table({**others, self._names[i]: values}))


class CalibratedCodes:
    """The mean of several models' probabilities, each calibrated."""

    additive = False

    def __init__(self, parts: list[tuple[CodeModel, list[Any], bool]]) -> None:
        self.parts, self.rows_at_once = parts, parts[0][0].rows_at_once

    def logits(self, present: Rows, row: Codes, codes: Codes) -> Floats:
        """See `CodeModel`."""
        total: Any = sum(
            _calibrated(part.logits(present, row, codes), calibrators, by_score=by_score)
            for part, calibrators, by_score in self.parts
        )
        return np.asarray(np.log(np.clip(total / len(self.parts), CERTAIN, 1.0)))


def _calibrated(logits: Floats, calibrators: list[Any], *, by_score: bool) -> Floats:
    """Calibrated probabilities, from scores or, for models without them, from probabilities."""
    is_pair = logits.shape[1] == 2
    lead = logits[:, 1:] - logits[:, :1] if is_pair else logits
    if not by_score:
        exp = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares = exp / exp.sum(axis=1, keepdims=True)
        lead = shares[:, 1:] if is_pair else shares
    found = np.column_stack([c.predict(own) for c, own in zip(calibrators, lead.T, strict=True)])
    if is_pair:
        return np.column_stack([1 - found, found])
    total = found.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(found, total, out=np.full(found.shape, 1 / found.shape[1]), where=total != 0))
