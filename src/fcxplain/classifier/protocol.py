"""The one face of every classifier: raw rows in, class probabilities out.

`CheckedClassifier` gives any answering function that face. It checks the first answer thoroughly and every
later one cheaply, and never hands the caller's own table to the model.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import nn

from ..encoding import TableEncoder
from ..errors import ClassifierError, Fault, FcxError, some
from ..schema import Schema
from ..schema.feature import plain
from . import checking
from .rows import legal_rows, model_rows

Answer = Callable[[pd.DataFrame], object]
"""From raw columns to something `checking.read_answer` understands."""


@runtime_checkable
class Classifier(Protocol):
    """What the rest of the library asks of a model.

    With two classes and a `threshold`, the second class is answered where its probability is at least the
    threshold. Without one the most probable class is, and among equals the first. A model that has a `predict` of its
    own is taken at that word (`CheckedClassifier.places`).
    """

    @property
    def classes(self) -> tuple[Any, ...]:
        """The names of the classes, in the order of the probabilities."""

    @property
    def threshold(self) -> float | None:
        """From which probability on the second of two classes is answered."""

    @property
    def module(self) -> nn.Module | None:
        """From encoded columns to logits, `n x classes`; None where the model has no gradients."""

    def probabilities(self, rows: pd.DataFrame) -> NDArray[np.float64]:
        """Class probabilities of rows with raw columns, `n x classes`."""

    def predict(self, rows: pd.DataFrame) -> NDArray[Any]:
        """The class of each row, by name."""


def chosen(probabilities: NDArray[np.float64], threshold: float | None = None) -> NDArray[np.int64]:
    """Index of the class answered for each row; see `Classifier` for the threshold and for ties."""
    if threshold is None:
        return np.asarray(probabilities.argmax(axis=1))
    return (probabilities[:, 1] >= threshold).astype(np.int64)


def _between(probabilities: NDArray[np.float64], own: NDArray[np.int64]) -> float | None:
    """A probability of the second of two classes that tells rows apart as their classes do, if there is one."""
    if probabilities.shape[1] != 2 or not 0 < own.sum() < len(own):
        return None
    below, above = probabilities[own == 0, 1].max(), probabilities[own == 1, 1].min()
    return float((below + above) / 2) if below < above else None


class CheckedClassifier:
    """A `Classifier` around an answering function.

    `name` is what messages call the model; `encoder` is the one whose columns `module` reads. Where the
    classes are not given, they are taken from the first answer. `own` is the model's own `predict`, which then says
    what class a row has; a `threshold` beside it is how its probabilities come to that.
    """

    def __init__(
        self,
        answer: Answer,
        schema: Schema,
        *,
        name: str,
        classes: Iterable[Any] | None = None,
        threshold: float | None = None,
        module: nn.Module | None = None,
        encoder: TableEncoder | None = None,
        own: Answer | None = None,
    ) -> None:
        self.name, self.schema, self.module, self.encoder = name, schema, module, encoder
        self.threshold: float | None = None
        self.trained_as: str | None = None
        """The kind, where `train_classifier` made it."""
        self.own = own
        self.parts = False
        """Whether `own` was seen to answer otherwise than the probabilities do, so that these decide nothing."""
        self._guide: float | None = None
        self._answer = answer
        self._labels: tuple[Any, ...] | None = None
        self._classes: tuple[Any, ...] | None = None
        self._checked = False
        self._settle(classes, threshold)
        self._labels = self._classes

    def __repr__(self) -> str:
        classes = "" if self._classes is None else f", classes {some(self._classes)}"
        threshold = "" if self.threshold is None else f", threshold {self.threshold:g}"
        return f"<classifier {self.name}{classes}{threshold}>"

    @property
    def answer(self) -> Answer:
        """What is asked for answers."""
        return self._answer

    @property
    def guide(self) -> float | None:
        """The threshold by which a search takes its bearings: where `predict` decides, about where it does."""
        return self._guide if self.parts else self.threshold

    @property
    def classes(self) -> tuple[Any, ...]:
        """The names of the classes; if nothing has told them yet, the model is asked about legal rows."""
        if self._classes is None:
            if not all(f.is_complete for f in self.schema):
                problem = "the model's classes are not known before its first answer; give classes="
                raise ClassifierError(f"{self.name}: {problem}")
            dtypes = None if self.encoder is None else self.encoder.dtypes_
            self.probabilities(legal_rows(self.schema, checking.PROBE_ROWS, seed=0, dtypes=dtypes))
        assert self._classes is not None
        return self._classes

    def probabilities(self, rows: pd.DataFrame) -> NDArray[np.float64]:
        """Class probabilities, `n x classes`."""
        frame = model_rows(rows, self.schema, self.encoder)
        if not len(frame):
            return np.empty((0, len(self._classes or (0, 1))))
        raw = self._ask(frame)
        answer = self._read(raw, rows.index)
        if self._classes is None:
            self._settle(checking.names_in(raw) or range(answer.shape[1]), self.threshold)
        # One row tells nothing about order; the check then waits for a call with more.
        if not self._checked and len(frame) > 1:
            checking.check_order(lambda f: self._read(self._ask(f), f.index), frame, answer, self.name)
            self._checked = True
        return answer

    def predict(self, rows: pd.DataFrame) -> NDArray[Any]:
        """The class of each row, by name."""
        index = self.places(rows)
        # An index keeps numbers as numbers and text as objects, which numpy alone would cut to a width.
        names = pd.Index(self._classes or (0, 1), tupleize_cols=False).to_numpy()
        return np.asarray(names[index])

    def places(
        self, rows: pd.DataFrame, probabilities: NDArray[np.float64] | None = None, *, final: bool = True
    ) -> NDArray[np.int64]:
        """The place of each row's class: by the model's own `predict`, or by its probabilities where it has none.

        `probabilities` are those of the rows, where they are known. What is not `final` is looked at again before
        anything is claimed: then they decide for a model whose `predict` is not known to part from them.
        """
        if self.own is None or not (final or self.parts):
            return chosen(self.probabilities(rows) if probabilities is None else probabilities, self.threshold)
        if not len(rows):
            return np.empty(0, dtype=np.int64)
        raw = self._ask(model_rows(rows, self.schema, self.encoder), self.own)
        return checking.read_labels(raw, len(rows), self.name, self._labels or self.classes, self.classes)

    def compared(self, rows: pd.DataFrame) -> tuple[Self, int]:
        """The classifier, knowing whether its own `predict` parts from its probabilities, and on how many rows it does.

        Two classes may still be told apart by some threshold on these rows: that is the `guide` then.
        """
        if self.own is None:
            return self, 0
        probabilities, own = self.probabilities(rows), self.places(rows)
        last = slice(None, -checking.PROBE_ROWS - 1, -1)
        if (self.places(rows.iloc[last]) != own[last]).any():
            remedy = "It must use nothing but the row itself, and no chance."
            problem = "its predict answers rows otherwise when they are asked again, in another order"
            raise ClassifierError("", [Fault(self.name, problem, remedy)])
        apart = int((own != chosen(probabilities, self.threshold)).sum())
        if not apart:
            return self, 0
        other = copy.copy(self)
        other.parts, other._guide = True, _between(probabilities, own)
        return other, apart

    def replace(self, *, classes: Iterable[Any] | None = None, threshold: float | None = None) -> Self:
        """A copy with other class names (in the same order) or a threshold that decides, whatever the model's own."""
        named = self._classes if classes is None else tuple(classes)
        if self._classes is not None and named is not None and len(named) != len(self._classes):
            told = f"has {len(self._classes)} classes, but classes= names {len(named)}: {some(named)}"
            raise ClassifierError(f"{self.name}: {told}")
        other = copy.copy(self)
        other._settle(named, self.threshold if threshold is None else threshold)
        if threshold is not None:
            other.own, other.parts = None, False
        return other

    def _settle(self, classes: Iterable[Any] | None, threshold: float | None) -> None:
        """Take class names and threshold, if they make sense together."""
        known = None if classes is None else tuple(plain(c) for c in classes)
        if known is not None and (len(known) < 2 or len(set(known)) < len(known)):
            raise ClassifierError(f"{self.name}: a classifier needs two or more different classes, not {known}")
        if threshold is not None:
            if not 0 <= threshold <= 1:
                raise ClassifierError(f"{self.name}: threshold {threshold} is not between 0 and 1")
            if known is not None and len(known) != 2:
                problem = f"a threshold is for two classes, but there are {len(known)}: {some(known)}"
                raise ClassifierError(f"{self.name}: {problem}. Leave threshold= away.")
        self._classes, self.threshold = known, None if threshold is None else float(threshold)

    def _ask(self, frame: pd.DataFrame, answer: Answer | None = None) -> object:
        try:
            # A copy each time: the model may do to it what it likes, and the rows may be asked again.
            return (answer or self._answer)(frame.copy())
        except FcxError:
            raise
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            raise ClassifierError(f"{self.name} failed on {len(frame):,} rows. {told}") from error

    def _read(self, raw: object, index: pd.Index) -> NDArray[np.float64]:
        return checking.read_answer(raw, index, self.name, self._classes, first=not self._checked)
