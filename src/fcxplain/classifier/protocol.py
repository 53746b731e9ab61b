"""The common interface of every classifier: raw rows in, class probabilities out.

`CheckedClassifier` gives any prediction function that interface. It checks the first answer thoroughly and every later
one cheaply, and never passes the caller's own table to the model.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from ..encoding import TableEncoder
from ..errors import ClassifierError, Fault, FcxError, some
from ..outcome import Outcomes, class_gap
from ..schema import Schema
from ..schema.feature import plain
from . import checking
from .rows import legal_rows, model_rows, parts_as_trained

if TYPE_CHECKING:
    from torch import nn

# Sizes of batches in which some rows are queried, and the number of rows queried alone, to measure the rounding.
SIZES, ALONE = (2, 7, 65), 3
# The factor on the rounding observed, and the least rounding assumed if any was observed.
MUCH, FINEST = 16.0, 1e-12
# The most rounding assumed for modules of low precision, unless more is observed: they must decide something.
COARSE = 0.01
# The rounding assumed if a model cannot be queried: enough for single precision.
ASSUMED = 1e-5
# Linear algebra libraries mostly sum a row in the same order in every batch of whole blocks of rows.
BLOCK = 64
# Smaller batches are queried with one OpenMP thread. Threads save hundredths of a second on them, but cost many times
# that next to a busy process: each of a model's short parallel loops waits for the thread that has no core.
SMALL_BATCH = 4_096
# Legal rows from which the spread of a regressor's outputs is estimated.
SPREAD = 1_024

Output = Literal["auto", "logits", "probabilities"]
Answer = Callable[[pd.DataFrame], object]
"""A function from raw columns to something that `checking.read_answer` understands."""


@runtime_checkable
class Classifier(Protocol):
    """The interface of a model that the rest of the library uses.

    With two classes and a `threshold`, the second class is predicted if its probability is at least the threshold.
    Without a threshold, the most probable class is predicted, and among equals the first. If a model has its own
    `predict`, that decides (`CheckedClassifier.decide`).

    Examples
    --------
    >>> import pandas as pd
    >>> from fcxplain import Feature, Schema, as_classifier
    >>> schema = Schema((Feature("age", "integer", low=18, high=90),))
    >>> model = as_classifier(lambda rows: rows["age"] / 100, schema=schema)
    >>> model.classes, model.predict(pd.DataFrame({"age": [30, 60]})).tolist()
    ((0, 1), [0, 1])
    """

    @property
    def classes(self) -> tuple[Any, ...]:
        """The names of the classes, in the order of the probabilities."""

    @property
    def threshold(self) -> float | None:
        """The probability from which on the second of two classes is predicted."""

    @property
    def module(self) -> nn.Module | None:
        """A module from encoded columns to logits, `n x classes`; None if the model has no gradients."""

    def probabilities(self, rows: pd.DataFrame) -> NDArray[np.float64]:
        """Return class probabilities.

        Parameters
        ----------
        rows : DataFrame
            Raw columns.

        Returns
        -------
        array of float
            `n x classes`.
        """

    def predict(self, rows: pd.DataFrame) -> NDArray[Any]:
        """Return the class of each row.

        Parameters
        ----------
        rows : DataFrame
            Raw columns.

        Returns
        -------
        array
            Names of classes.
        """


@dataclass(frozen=True)
class AdapterOptions:
    """The options of `as_classifier`; see there."""

    schema: Schema
    encoder: TableEncoder | None = None
    classes: tuple[Any, ...] | None = None
    threshold: float | None = None
    output: Output = "auto"
    regression: bool = False
    """Whether the model predicts one number per row, in its own units, instead of classes."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """A model's decisions about `n` rows."""

    probabilities: NDArray[np.float64]
    """Probabilities, `n x classes`; for a model without classes its output, `n x 1`."""
    choice: NDArray[np.int64]
    """The index of the predicted class; 0 without classes."""
    firm: NDArray[np.bool_]
    """Whether the decision is the same in any batch, so that rounding cannot change it."""

    @classmethod
    def none(cls, rows: int, classes: int) -> Predictions:
        """Empty arrays for decisions to be filled in."""
        return cls(np.zeros((rows, classes)), np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=bool))

    def put(self, which: NDArray[Any] | slice, some: Predictions) -> None:
        """Fill in the decisions about some of the rows."""
        self.probabilities[which], self.choice[which], self.firm[which] = some.probabilities, some.choice, some.firm

    @classmethod
    def joined(cls, parts: Sequence[Predictions]) -> Predictions:
        """Concatenate several."""
        return cls(*(np.concatenate([getattr(p, n) for p in parts]) for n in ("probabilities", "choice", "firm")))

    def take(self, which: NDArray[Any]) -> Predictions:
        """Some of the rows."""
        return Predictions(self.probabilities[which], self.choice[which], self.firm[which])


def chosen(probabilities: NDArray[np.float64], threshold: float | None = None) -> NDArray[np.int64]:
    """Index of the class predicted for each row; see `Classifier` for the threshold and for ties."""
    if threshold is None:
        return np.asarray(probabilities.argmax(axis=1))
    return (probabilities[:, 1] >= threshold).astype(np.int64)


def roundoff(module: nn.Module) -> float:
    """The unit roundoff of a module: that of its least precise dtype, or 0 if it has no floating-point numbers."""
    import torch

    floats = {t.dtype for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()}
    if torch.get_float32_matmul_precision() != "highest" and torch.float32 in floats:
        # Torch may multiply with fewer digits.
        floats.add(torch.bfloat16)
    return max((float(torch.finfo(dtype).eps) / 2 for dtype in floats), default=0.0)


def _between(probabilities: NDArray[np.float64], own: NDArray[np.int64]) -> float | None:
    """A threshold on the probability of the second class that reproduces the classes of the rows, if there is one."""
    if probabilities.shape[1] != 2 or not 0 < own.sum() < len(own):
        return None
    below, above = probabilities[own == 0, 1].max(), probabilities[own == 1, 1].min()
    return float((below + above) / 2) if below < above else None


class CheckedClassifier:
    """A `Classifier` around a prediction function.

    `name` is the model's name in messages; `encoder` is the one whose columns `module` reads. If the classes are not
    given, they are taken from the first answer. `own` is the model's own `predict`, which then decides the class of a
    row; a `threshold` given with it is the one by which `predict` decides.
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
        regression: bool = False,
    ) -> None:
        self.name, self.schema, self.module, self.encoder = name, schema, module, encoder
        self.regression = regression
        """Whether it predicts one number per row instead of classes."""
        self.threshold: float | None = None
        self.trained_as: str | None = None
        """The kind, if `train_classifier` made it."""
        self.own = own
        self.parts = False
        """Whether `own` was seen to contradict the probabilities, so that these do not decide."""
        self.on_query: Callable[[int], None] | None = None
        """Called before each query with its number of rows; if it raises an error, the query ends."""
        self._guide: float | None = None
        self.answer = answer
        self._labels: tuple[Any, ...] | None = None
        self._classes: tuple[Any, ...] | None = None
        self._checked = False
        self._settle(classes, threshold)
        self._labels = self._classes

    def __repr__(self) -> str:
        if self.regression:
            return f"<regressor {self.name}>"
        classes = "" if self._classes is None else f", classes {some(self._classes)}"
        threshold = "" if self.threshold is None else f", threshold {self.threshold:g}"
        return f"<classifier {self.name}{classes}{threshold}>"

    @property
    def guide(self) -> float | None:
        """The threshold that guides a search; if `predict` decides, an approximation of its threshold."""
        return self._guide if self.parts else self.threshold

    @property
    def classes(self) -> tuple[Any, ...]:
        """The names of the classes; if they are not known yet, the model is queried on legal rows."""
        if self._classes is None:
            if not all(f.is_complete for f in self.schema):
                problem = "the model's classes are not known before its first answer; give classes="
                raise ClassifierError(f"{self.name}: {problem}")
            self.probabilities(self._legal_rows(checking.PROBE_ROWS))
        assert self._classes is not None
        return self._classes

    def _legal_rows(self, count: int) -> pd.DataFrame:
        dtypes = None if self.encoder is None else self.encoder.dtypes_
        return legal_rows(self.schema, count, seed=0, dtypes=dtypes)

    def probabilities(self, rows: pd.DataFrame) -> NDArray[np.float64]:
        """Return class probabilities, `n x classes`; for a regressor its output, `n x 1`."""
        return self._probabilities(rows, 1)

    def _probabilities(self, rows: pd.DataFrame, block: int) -> NDArray[np.float64]:
        frame = model_rows(rows, self.schema, self.encoder)
        if not len(frame):
            return np.empty((0, 1 if self.regression else len(self._classes or (0, 1))))
        parts = parts_as_trained(frame, self.schema, self.encoder)
        found = [self._answers(part, rows.index[place], block) for place, part in parts]
        return _in_place([place for place, _ in parts], found)

    def _answers(self, frame: pd.DataFrame, index: pd.Index, block: int) -> NDArray[np.float64]:
        raw = self._ask(frame, block)
        answer = self._read(raw, index)
        if self._classes is None:
            self._settle(checking.names_in(raw) or range(answer.shape[1]), self.threshold)
        # A single row cannot show dependence on order; the check then waits for a call with more rows.
        if not self._checked and len(frame) > 1:
            checking.check_order(lambda f: self._read(self._ask(f), f.index), frame, answer, self.name)
            self._checked = True
        return answer

    def decide(
        self, rows: pd.DataFrame, *, wanted: Callable[[Predictions], Outcomes] | None = None, final: bool = True
    ) -> Predictions:
        """Return the model's decisions about rows: by its own `predict`, or by its probabilities if it has none.

        Decisions that are not `final` are checked again before anything is claimed. For these the probabilities decide,
        unless the model's `predict` is known to contradict them.

        Many models sum in another order when they are queried on more rows at once. Batches of whole blocks make that
        rare. A row near the decision boundary is queried alone, so that its decision never depends on other rows; if
        the user could get another prediction in another batch, the decision is not firm.

        `wanted` gives the outcomes that rows need, if these have other boundaries than the classes.
        """
        found = self._decided(rows, BLOCK if self.rounding else 1, final)
        if not self.rounding:
            return found
        gap = self._gap(found, wanted)
        near = np.flatnonzero(gap <= 2 * self._window)
        for place in near:
            found.put(np.array([place]), self._decided(rows.iloc[[place]], 1, final))
        found.firm[:] = (self._gap(found, wanted) if len(near) else gap) > self._window
        return found

    def _gap(self, found: Predictions, wanted: Callable[[Predictions], Outcomes] | None) -> NDArray[np.float64]:
        """The distances of rows from the decision boundary."""
        if wanted is not None:
            return wanted(found).gap(found.probabilities)
        return np.full(len(found.choice), np.inf) if self.regression else class_gap(found.probabilities, self.guide)

    def _decided(self, rows: pd.DataFrame, block: int, final: bool) -> Predictions:
        own = self.own if final or self.parts else None
        with getattr(self.answer, "preparing_once", nullcontext)():
            answers = self._probabilities(rows, block)
            choice = chosen(answers, self.threshold) if own is None else self._own_places(rows, own, block)
        return Predictions(answers, choice, np.ones(len(answers), dtype=bool))

    @cached_property
    def rounding(self) -> float:
        """How far other rows in a batch may move a row's probability, estimated from legal rows; 0 if they do not."""
        if not all(f.is_complete for f in self.schema):
            return ASSUMED
        rows = self._legal_rows(checking.PROBE_ROWS)
        # A module is cheap to query.
        places = [np.arange(place, place + 1) for place in range(ALONE if self.module is None else len(rows))]
        places += [np.resize(np.arange(len(rows)), size) for size in SIZES]
        try:
            whole = self.probabilities(rows)
            seen = float(np.abs(self._in_batches(rows, places) - whole[np.concatenate(places)]).max())
        except ClassifierError:
            return ASSUMED
        # A network sums in another order sooner or later, even if a few rows do not show it. So does a linear
        # regressor, and on whole numbers its outputs often lie right on the border of a range.
        sums = self.regression and getattr(self.answer, "adds_up", False)
        least = FINEST if seen or sums else 0.0
        if self.module is not None:
            least = min(2 * MUCH * roundoff(self.module), COARSE)
        return max(MUCH * seen, least * (max(1.0, float(np.abs(whole).max())) if self.regression else 1.0))

    def _in_batches(self, rows: pd.DataFrame, places: list[NDArray[np.int64]]) -> NDArray[np.float64]:
        """Probabilities of legal rows, batch after batch; a model that reads encoded rows gets them encoded once."""
        in_batches = getattr(self.answer, "in_batches", None)
        if in_batches is None:
            return np.concatenate([self.probabilities(rows.iloc[p]) for p in places])
        with self._asking(len(rows)), _threads_for(len(rows)):
            return self._read(in_batches(rows, places), rows.index[np.concatenate(places)])

    @cached_property
    def unit(self) -> float:
        """The spread of a regressor's outputs over legal rows, as a power of two; 1 for classes."""
        if not self.regression or not all(f.is_complete for f in self.schema):
            return 1.0
        spread = float(self.probabilities(self._legal_rows(SPREAD)).std())
        return 2.0 ** round(math.log2(spread)) if spread > 0 and math.isfinite(spread) else 1.0

    @property
    def _window(self) -> float:
        """The distance from the decision boundary within which rounding may decide; less for a small threshold."""
        return self.rounding * (2.0 if self.guide is None else min(1.0, 4 * self.guide))

    def predict(self, rows: pd.DataFrame) -> NDArray[Any]:
        """Return the class of each row, by name; for a regressor its output."""
        return self.named(self.decide(rows))

    def named(self, found: Predictions) -> NDArray[Any]:
        """The decisions about rows in the form that `predict` returns."""
        if self.regression:
            return found.probabilities[:, 0]
        index = found.choice
        # An index keeps numbers as numbers and text as objects; numpy alone would make text of fixed width.
        names = pd.Index(self._classes or (0, 1), tupleize_cols=False).to_numpy()
        return np.asarray(names[index])

    def _own_places(self, rows: pd.DataFrame, own: Answer, block: int = 1) -> NDArray[np.int64]:
        """The index of each row's class by the model's own `predict`."""
        if not len(rows):
            return np.empty(0, dtype=np.int64)
        parts = parts_as_trained(model_rows(rows, self.schema, self.encoder), self.schema, self.encoder)
        labels = self._labels or self.classes
        found = [
            checking.read_labels(self._ask(part, block, own), len(part), self.name, labels, self.classes)
            for _, part in parts
        ]
        return _in_place([place for place, _ in parts], found)

    def compared(self, rows: pd.DataFrame) -> tuple[Self, int]:
        """Compare the model's own `predict` with its probabilities.

        Return the classifier, which then knows whether they differ, and the number of rows on which they do. If some
        other threshold separates two classes on these rows, it becomes the `guide`.
        """
        if self.own is None:
            return self, 0
        probabilities, own = self.probabilities(rows), self._own_places(rows, self.own)
        last = slice(None, -checking.PROBE_ROWS - 1, -1)
        if (self._own_places(rows.iloc[last], self.own) != own[last]).any():
            remedy = "It must use only the row itself, and no randomness."
            problem = "its predict changes when rows are queried again, in another order"
            raise ClassifierError("", [Fault(self.name, problem, remedy)])
        apart = int((own != chosen(probabilities, self.threshold)).sum())
        if not apart:
            return self, 0
        other = copy.copy(self)
        other.parts, other._guide = True, _between(probabilities, own)
        return other, apart

    def replace(self, *, classes: Iterable[Any] | None = None, threshold: float | None = None) -> Self:
        """A copy with other class names (in the same order), or with a threshold that overrides the model's own."""
        named = self._classes if classes is None else tuple(classes)
        if self._classes is not None and named is not None and len(named) != len(self._classes):
            problem = f"has {len(self._classes)} classes, but classes= names {len(named)}: {some(named)}"
            raise ClassifierError(f"{self.name}: {problem}")
        other = copy.copy(self)
        other._settle(named, self.threshold if threshold is None else threshold)
        if threshold is not None:
            other.own, other.parts = None, False
        return other

    def _settle(self, classes: Iterable[Any] | None, threshold: float | None) -> None:
        """Set class names and threshold, if they are consistent."""
        known = None if classes is None else tuple(plain(c) for c in classes)
        if self.regression:
            self._classes, self.threshold = (), None
            self._refuse_for_regression(known, threshold)
            return
        if known is not None and (len(known) < 2 or len(set(known)) < len(known)):
            raise ClassifierError(f"{self.name}: a classifier needs two or more different classes, not {known}")
        if threshold is not None:
            if not 0 <= threshold <= 1:
                raise ClassifierError(f"{self.name}: threshold {threshold} is not between 0 and 1")
            if known is not None and len(known) != 2:
                problem = f"a threshold is for two classes, but there are {len(known)}: {some(known)}"
                raise ClassifierError(f"{self.name}: {problem}. Leave out threshold=.")
        self._classes, self.threshold = known, None if threshold is None else float(threshold)

    def _refuse_for_regression(self, classes: tuple[Any, ...] | None, threshold: float | None) -> None:
        given = {"classes": classes or None, "threshold": threshold}
        remedy = "Leave it out: a regressor's target is a range."
        faults = [Fault(f"{n}={v!r}", "is for models with classes", remedy) for n, v in given.items() if v is not None]
        if faults:
            raise ClassifierError(f"{self.name} predicts numbers, not classes", faults)

    def _ask(self, frame: pd.DataFrame, block: int = 1, answer: Answer | None = None) -> object:
        """The model's output for rows, queried in whole blocks; the last block is padded with its last row."""
        spare = -len(frame) % block
        # A copy each time: the model may change it, and the rows may be queried again.
        whole = np.arange(len(frame) + spare).clip(max=len(frame) - 1)
        shown = (frame.iloc[whole] if spare else frame).reset_index(drop=True)
        if self.on_query is not None:
            self.on_query(len(frame))
        with self._asking(len(frame)):
            with _threads_for(len(shown)):
                raw: Any = (answer or self.answer)(shown)
            is_long = spare and hasattr(raw, "__len__") and len(raw) == len(shown)
            return raw[: len(frame)] if is_long else raw

    @contextmanager
    def _asking(self, rows: int) -> Iterator[None]:
        """Turn errors raised by the model into errors that name it."""
        try:
            yield
        except FcxError:
            raise
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            raise ClassifierError(f"{self.name} failed on {rows:,} rows. {cause}") from error

    def _read(self, raw: object, index: pd.Index) -> NDArray[np.float64]:
        if self.regression:
            return checking.read_outputs(raw, index, self.name)
        return checking.read_answer(raw, index, self.name, self._classes, first=not self._checked)


def checked(answer: Answer, options: AdapterOptions, name: str) -> CheckedClassifier:
    """A prediction function as a classifier."""
    o = options
    return CheckedClassifier(
        answer,
        o.schema,
        name=name,
        classes=o.classes,
        threshold=o.threshold,
        encoder=o.encoder,
        regression=o.regression,
    )


def _in_place(places: list[NDArray[np.int64]], parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Parts of an array, put together again."""
    if len(parts) == 1:
        return parts[0]
    return np.asarray(np.concatenate(parts)[np.argsort(np.concatenate(places))])


def _threads_for(rows: int) -> AbstractContextManager[object]:
    """Limit OpenMP to one thread for a small batch, and restore it afterwards; a large batch may use all threads."""
    if rows >= SMALL_BATCH:
        return nullcontext()
    limited: AbstractContextManager[object] = _thread_pools(len(sys.modules)).limit(limits=1, user_api="openmp")
    return limited


@lru_cache(maxsize=1)
def _thread_pools(modules: int) -> ThreadpoolController:
    """The thread pools of all libraries; searched again only after new imports, since it is slow."""
    return ThreadpoolController()
