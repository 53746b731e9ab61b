"""Checks of a model's answers: finite probabilities, one line per row, that depend on that row alone.

Every message names the model, what it did and what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import ClassifierError, Fault, some
from ..hashing import is_tensor
from ..schema.feature import plain

Probabilities = NDArray[np.float64]

# Rows used to check that a model is deterministic and independent of row order.
PROBE_ROWS = 64
# The largest deviation of the probabilities of one row from a sum of 1.
SUM_TOLERANCE = 1e-4
# The largest difference between two answers for the same row: rounding depends on the batch size.
SAME_TOLERANCE = 1e-5

_NO_LABELS = "To ignore predict, give a callable: lambda rows: model.predict_proba(rows), with classes=."
_SHAPES = "Return n x classes probabilities, or n values for two classes (the probability of the second)."
_ONE = "Return one number per row, n or n x 1."
_WRAP = "Wrap predict_proba instead, e.g. lambda rows: model.predict_proba(rows)."


def read_answer(
    raw: object, index: pd.Index, model: str, classes: tuple[Any, ...] | None, *, first: bool
) -> Probabilities:
    """A model's answer as `n x classes` probabilities, or a `ClassifierError` that lists its faults.

    One value per row is the probability of the second of two classes. Labels are told apart from probabilities only if
    `first` is set: later, a model may be completely certain about all of a few rows.
    """
    array = _array(_by_name(raw, classes), model)
    line = array.reshape(-1) if array.shape == (len(index), 1) else array
    if first and _are_labels(line, classes):
        shown = some(line.reshape(-1)[:3].tolist())
        remedy = f"{_WRAP} Probabilities that really are 0 and 1 can be given as n x classes."
        raise _error(model, f"returned labels, not probabilities: {shown}, ...", remedy)
    values = _numbers(line, model)
    _check_shape(values, len(index), model, classes)
    table = np.stack([1 - values, values], axis=1) if values.ndim == 1 else values
    faults = list(_value_faults(table, index, model))
    if faults:
        raise ClassifierError("the model's answer cannot be used", faults)
    return np.clip(table, 0.0, 1.0)


def read_outputs(raw: object, index: pd.Index, model: str) -> Probabilities:
    """A regressor's answer, one number per row, as `n x 1`, or a `ClassifierError` that lists its faults."""
    line = _line(_array(raw, model, _ONE), len(index), model, "returned", _ONE)
    if any(isinstance(value, str | bytes) for value in line.flat[:1]) or line.dtype.kind in "USMm":
        raise _error(model, f"returned text, not numbers: {some(line[:3].tolist())}, ...", _ONE)
    values = _numbers(line, model, _ONE)
    finite = np.isfinite(values)
    if not finite.all():
        problem = f"answered {values[~finite][0]}"
        fault = _row_fault(model, problem, "Check this row; every row needs a finite number.", index, ~finite)
        raise ClassifierError("the model's answer cannot be used", [fault])
    return values[:, None]


def read_labels(
    raw: object, rows: int, model: str, own: tuple[Any, ...], classes: tuple[Any, ...]
) -> NDArray[np.int64]:
    """The results of a model's `predict` as indices of its classes, by the model's names for them or by the task's."""
    found = _line(_array(raw, model), rows, model, "its predict returned", _NO_LABELS).tolist()
    for names in dict.fromkeys((own, classes)):
        place = {name: i for i, name in enumerate(names)}
        if all(label in place for label in found):
            return np.array([place[label] for label in found], dtype=np.int64)
    stray = next(label for label in found if label not in own)
    problem = f"its predict returned {stray!r}, which is not one of the classes {some(classes)}"
    raise _error(model, problem, f"Name them with classes=, in the order of its probabilities. {_NO_LABELS}")


def names_in(raw: object) -> tuple[Any, ...] | None:
    """The class names that an answer contains: the columns of a table."""
    if isinstance(raw, pd.DataFrame) and not isinstance(raw.columns, pd.RangeIndex):
        return tuple(raw.columns.tolist())
    return None


def check_order(
    ask: Callable[[pd.DataFrame], Probabilities], frame: pd.DataFrame, answer: Probabilities, model: str
) -> None:
    """Query some rows again, shuffled and with duplicates: each must get the same answer as before."""
    places = np.unique(np.linspace(0, len(frame) - 1, PROBE_ROWS).astype(np.int64))
    shuffled = np.random.default_rng(0).permutation(places)
    order = np.concatenate([shuffled, shuffled[: max(1, len(shuffled) // 4)]])
    probe = frame.iloc[order].reset_index(drop=True)
    again = ask(probe)
    if _same(again, answer[order]):
        return
    gap = f"by up to {np.abs(again - answer[order]).max():.2g}"
    # Only now is a third call worth its cost: it distinguishes randomness from dependence on the batch.
    if not _same(ask(probe), again):
        remedy = "Fix its seed, or put it into evaluation mode."
        raise _error(model, f"is not deterministic: the same rows got answers that differ {gap}", remedy)
    remedy = "It must keep the order of its rows and use only the row itself, no mean over the batch."
    problem = f"depends on the order of the rows or on other rows: shuffled, the answers differ {gap}"
    raise _error(model, problem, remedy)


def _by_name(raw: object, classes: tuple[Any, ...] | None) -> object:
    """A table with class names, with its columns in the order of `classes`."""
    names = names_in(raw)
    if names is None or classes is None or len(names) != len(classes) or set(names) != set(classes):
        return raw
    return raw[list(classes)]  # type: ignore[index]


def _array(raw: object, model: str, remedy: str = _SHAPES) -> NDArray[Any]:
    if is_tensor(raw):
        # Through double, since numpy has no bfloat16.
        return raw.detach().cpu().double().numpy()
    try:
        array = raw.to_numpy() if isinstance(raw, pd.DataFrame | pd.Series) else np.asarray(raw)
    except ValueError as error:
        raise _error(model, f"returned a {type(raw).__name__} of uneven shape", remedy) from error
    if array.ndim == 0:
        raise _error(model, f"returned a {type(raw).__name__}, not an array", remedy)
    return array


def _line(array: NDArray[Any], rows: int, model: str, did: str, remedy: str) -> NDArray[Any]:
    """An answer of `n` or `n x 1` values as `n`."""
    if array.shape not in ((rows,), (rows, 1)):
        raise _error(model, f"{did} an array of shape {_shape(array)} for {rows:,} rows", remedy)
    return array.reshape(-1)


def _shape(array: NDArray[Any]) -> str:
    return " x ".join(map(str, array.shape))


def _are_labels(array: NDArray[Any], classes: tuple[Any, ...] | None) -> bool:
    if array.dtype.kind in "USO":
        return any(isinstance(value, str) for value in array.flat)
    if array.ndim != 1 or len(array) < 2:
        return False
    found = set(array.tolist())
    return found <= {0, 1} or (classes is not None and found <= set(classes))


def _numbers(array: NDArray[Any], model: str, remedy: str = _SHAPES) -> Probabilities:
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise _error(model, f"returned something that is not a number: {error}", remedy) from error


def _check_shape(values: Probabilities, rows: int, model: str, classes: tuple[Any, ...] | None) -> None:
    if values.ndim > 2 or len(values) != rows or (values.ndim == 2 and values.shape[1] < 2):
        raise _error(model, f"returned an array of shape {_shape(values)} for {rows:,} rows", _SHAPES)
    columns = 2 if values.ndim == 1 else values.shape[1]
    if classes is not None and columns != len(classes):
        known = f"there are {len(classes)} classes: {some(classes)}"
        got = "one value per row, good for two classes" if values.ndim == 1 else f"{columns} columns"
        raise _error(model, f"returned {got}, but {known}", "Name one class per column with classes=.")


def _value_faults(table: Probabilities, index: pd.Index, model: str) -> Iterator[Fault]:
    finite = np.asarray(np.isfinite(table).all(axis=1))
    if not finite.all():
        yield _row_fault(model, "returned NaN or infinity", "Check this row.", index, ~finite)
    outside = np.asarray(finite & ((table < -1e-6) | (table > 1 + 1e-6)).any(axis=1))
    if outside.any():
        extreme = table[outside][0]
        problem = f"returned values outside 0 to 1, e.g. {extreme[np.argmax(np.abs(extreme - 0.5))]:.4g}"
        remedy = "If these are logits, pass output='logits' (torch, ONNX) or apply a softmax."
        yield _row_fault(model, problem, remedy, index, outside)
    sums = table.sum(axis=1)
    uneven = np.asarray(finite & ~outside & (np.abs(sums - 1) > SUM_TOLERANCE))
    if uneven.any():
        problem = f"returned probabilities that do not sum to 1, e.g. to {sums[uneven][0]:.4g}"
        yield _row_fault(model, problem, "Divide each row by its sum.", index, uneven)


def _row_fault(model: str, problem: str, remedy: str, index: pd.Index, rows: NDArray[np.bool_]) -> Fault:
    return Fault(model, problem, remedy, int(rows.sum()), plain(index[rows][0]))


def _error(model: str, problem: str, remedy: str) -> ClassifierError:
    return ClassifierError("", [Fault(model, problem, remedy)])


def _same(one: Probabilities, other: Probabilities) -> bool:
    # Outputs of a regressor may be large.
    size = max(1.0, float(np.abs(other).max(initial=0.0)))
    return one.shape == other.shape and bool(np.abs(one - other).max() <= SAME_TOLERANCE * size)
