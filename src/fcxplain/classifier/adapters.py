"""`as_classifier`: the one door through which a user's model comes in, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

from torch import nn

from ..encoding import TableEncoder
from ..errors import ClassifierError, did_you_mean
from ..schema import Schema
from . import estimators, onnx, torch_modules
from .protocol import CheckedClassifier, Classifier
from .torch_modules import Output


def as_classifier(
    model: object,
    *,
    schema: Schema,
    encoder: TableEncoder | None = None,
    classes: Iterable[Any] | None = None,
    threshold: float | None = None,
    output: Output = "auto",
) -> CheckedClassifier:
    """Give a model the face of a `Classifier`.

    `model` is one of
    - a classifier already: returned as it is, or a copy if `classes` or `threshold` are given;
    - a scikit-learn classifier or pipeline on raw columns, XGBoost's and LightGBM's included;
    - a torch module on the encoded columns of `encoder`. One output per row is the second of two classes;
      `output` says whether outputs are "logits" or "probabilities", "auto" looks for a final sigmoid or
      softmax layer;
    - an ONNX file or `onnxruntime.InferenceSession`, with an input per feature, or a single one that takes
      encoded columns (or, without an `encoder`, the raw numbers);
    - a callable from a DataFrame to probabilities, `n x classes`, or `n` for the second of two classes.

    `classes` names the classes in the order of the probabilities, and by default they are the model's own or
    0, 1, 2, ...; `threshold` is for two classes, see `Classifier`, and decides in place of a `predict` of the model's.
    """
    classes = None if classes is None else tuple(classes)
    if output not in get_args(Output):
        near = did_you_mean(output, get_args(Output))
        raise ClassifierError(f"output {output!r} is none of {', '.join(get_args(Output))}. {near}".rstrip())
    if isinstance(model, CheckedClassifier):
        return model if classes is None and threshold is None else model.replace(classes=classes, threshold=threshold)
    if isinstance(model, type):
        raise ClassifierError(f"{model.__name__} is a class, not a model; make one and fit it first")
    if isinstance(model, nn.Module):
        return torch_modules.classifier(model, encoder, classes, threshold, output)
    if isinstance(model, str | Path) or onnx.is_session(model):
        return onnx.classifier(model, schema, encoder, classes, threshold, output)
    if isinstance(model, Classifier):
        return _foreign(model, schema, encoder, classes, threshold)
    if estimators.is_estimator(model):
        return estimators.classifier(model, schema, encoder, classes, threshold)
    if callable(model):
        return _from_callable(model, schema, encoder, classes, threshold)
    raise ClassifierError(
        f"a {type(model).__name__} is no classifier. Give a scikit-learn classifier, a torch module, an ONNX "
        "file or session, or a callable from a DataFrame to probabilities (for a bare booster: "
        "XGBClassifier, LGBMClassifier, or a lambda around its predict)."
    )


def _foreign(
    model: Classifier,
    schema: Schema,
    encoder: TableEncoder | None,
    classes: tuple[Any, ...] | None,
    threshold: float | None,
) -> CheckedClassifier:
    """Someone else's classifier, its answers checked and its errors worded like those of any model."""
    made = CheckedClassifier(
        model.probabilities,
        schema,
        name=type(model).__name__,
        classes=model.classes,
        threshold=model.threshold,
        module=model.module,
        encoder=getattr(model, "encoder", encoder),
        own=model.predict,
    )
    return made.replace(classes=classes, threshold=threshold)


def _from_callable(
    model: Callable[..., object],
    schema: Schema,
    encoder: TableEncoder | None,
    classes: tuple[Any, ...] | None,
    threshold: float | None,
) -> CheckedClassifier:
    name = getattr(model, "__qualname__", type(model).__name__)
    return CheckedClassifier(model, schema, name=name, classes=classes, threshold=threshold, encoder=encoder)
