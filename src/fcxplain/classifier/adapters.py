"""`as_classifier`: the single entry point for a user's model of any kind.

A kind of model is one line in `ADAPTERS`: how to recognise it, and the function that turns it into a
`CheckedClassifier`. Models that can also be read as numbers, for the search and for proofs, are in `reading`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, get_args

from ..encoding import TableEncoder
from ..errors import ClassifierError, did_you_mean
from ..schema import Schema
from . import estimators, onnx
from .protocol import AdapterOptions, CheckedClassifier, Classifier, Output, checked

if TYPE_CHECKING:
    from torch import nn


def as_classifier(
    model: object,
    *,
    schema: Schema,
    encoder: TableEncoder | None = None,
    classes: Iterable[Any] | None = None,
    threshold: float | None = None,
    output: Output = "auto",
    regression: bool = False,
) -> CheckedClassifier:
    """Wrap a model as a `Classifier`.

    Parameters
    ----------
    model : object
        One of

        - a `Classifier`: returned as it is, or as a copy if `classes` or `threshold` are given;
        - a scikit-learn classifier or pipeline on raw columns, including those of XGBoost and LightGBM;
        - a torch module on the encoded columns of `encoder`, with one output per class, or one for the second of two;
        - an ONNX file or `onnxruntime.InferenceSession`, with one input per feature, or a single one that takes encoded
          columns (or, without an `encoder`, the raw numbers);
        - a callable from a DataFrame to probabilities, `n x classes`, or `n` for the second of two classes;
        - a regressor of any of these kinds, with one number per row.
    schema : Schema
        The features.
    encoder : TableEncoder, optional
        The fitted encoder whose columns a torch module or an ONNX file reads.
    classes : iterable, optional
        Names of the classes in the order of the probabilities; by default the model's own, or 0, 1, 2, ...
    threshold : float, optional
        Threshold for two classes, see `Classifier`; it replaces the decisions of the model's own `predict`.
    output : {"auto", "logits", "probabilities"}
        The outputs of a torch module; "auto" looks for a final sigmoid or softmax layer.
    regression : bool, default=False
        Whether the model predicts one number per row, in its own units, instead of classes. Scikit-learn regressors,
        and models with the same interface, are recognised without it.

    Returns
    -------
    CheckedClassifier
        Its answers are checked, the first one thoroughly.

    Raises
    ------
    ClassifierError
        If the model is not a classifier, or does not fit the schema.

    Examples
    --------
    >>> import pandas as pd
    >>> from fcxplain import Feature, Schema, as_classifier
    >>> schema = Schema((Feature("income", "integer", low=0, high=100),))
    >>> model = as_classifier(lambda rows: rows["income"] / 100, schema=schema, classes=("no", "yes"), threshold=0.4)
    >>> model.predict(pd.DataFrame({"income": [30, 45]})).tolist()
    ['no', 'yes']
    """
    named = None if classes is None else tuple(classes)
    options = AdapterOptions(schema, encoder, named, threshold, output, regression)
    if output not in get_args(Output):
        near = did_you_mean(output, get_args(Output))
        raise ClassifierError(f"output {output!r} is not one of {', '.join(get_args(Output))}. {near}".rstrip())
    if isinstance(model, type):
        raise ClassifierError(f"{model.__name__} is a class, not a model; create an instance and fit it first")
    for is_one, adapted in ADAPTERS:
        if is_one(model):
            return adapted(model, options)
    raise ClassifierError(
        f"a {type(model).__name__} is not a classifier. Give a scikit-learn classifier, a torch module, an ONNX "
        "file or session, or a callable from a DataFrame to probabilities (for a bare booster: "
        "XGBClassifier, LGBMClassifier, or a lambda around its predict)."
    )


def _known(model: CheckedClassifier, options: AdapterOptions) -> CheckedClassifier:
    if options.classes is None and options.threshold is None:
        return model
    return model.replace(classes=options.classes, threshold=options.threshold)


def _foreign(model: Classifier, options: AdapterOptions) -> CheckedClassifier:
    """Wrap a user's own `Classifier`, so that its answers are checked and its errors worded like those of any model."""
    made = CheckedClassifier(
        model.probabilities,
        options.schema,
        name=type(model).__name__,
        classes=model.classes,
        threshold=model.threshold,
        module=model.module,
        encoder=getattr(model, "encoder", options.encoder),
        own=model.predict,
    )
    return _known(made, options)


def _is_module(model: object) -> bool:
    """Whether this is a torch module; if it is, torch is already loaded."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _from_module(model: nn.Module, options: AdapterOptions) -> CheckedClassifier:
    from . import torch_modules

    return torch_modules.classifier(model, options)


def _from_callable(model: Callable[..., object], options: AdapterOptions) -> CheckedClassifier:
    return checked(model, options, getattr(model, "__qualname__", type(model).__name__))


# The first adapter that recognises a model is used.
ADAPTERS: tuple[tuple[Callable[[Any], bool], Callable[[Any, AdapterOptions], CheckedClassifier]], ...] = (
    (lambda model: isinstance(model, CheckedClassifier), _known),
    (_is_module, _from_module),
    (onnx.is_onnx, onnx.classifier),
    (lambda model: isinstance(model, Classifier), _foreign),
    (estimators.is_estimator, estimators.classifier),
    (callable, _from_callable),
)
