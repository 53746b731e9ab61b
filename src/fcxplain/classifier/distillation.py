"""`differentiable`: a network that predicts as the classifier does and has gradients.

For a torch module it is a frozen copy. Any other classifier is imitated by a small network, trained on the classifier's
probabilities for training rows, for training rows with a few features changed, and for random legal rows. Answers are
always verified with the real model.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..encoding import TableEncoder
from ..errors import FcxWarning
from ..training_loop import Schedule
from .networks import Examples, Ramps, fit_network, mlp
from .protocol import Classifier, chosen
from .rows import made_up_rows
from .torch_modules import fixed_linear

if TYPE_CHECKING:
    from ..task import Task

# Rows of each kind on which the real model is queried, at most 26,000 in all.
REAL_ROWS, HELD_OUT_ROWS, CHANGED_ROWS, RANDOM_ROWS = 8_000, 2_000, 12_000, 4_000
# Ramps in all, and the bounds of their number per feature.
RAMPS, FEWEST_RAMPS, MOST_RAMPS = 1_024, 4, 16
HIDDEN = (96, 96)
FITTING = Schedule(batch=256, learning_rate=6e-3, epochs=4, patience=8, steps=300, decay=1.0)
# A teacher that is certain would require infinite logits.
CERTAIN = 1e-3
WORRYING_AGREEMENT = 0.9


@dataclass(frozen=True)
class Differentiable:
    """A classifier with gradients: encoded columns to logits, `n x classes`, frozen, in evaluation mode.

    The largest logit belongs to the class that the classifier predicts, including its threshold. `agreement` is the
    share of `rows` held-out training rows on which both predict the same class; it is 1 for the model's own module.
    """

    module: nn.Module
    agreement: float
    rows: int
    distilled: bool


Reading = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""A function from a model's outputs, `n x outputs`, to probabilities of classes."""


def differentiable(
    classifier: Classifier, task: Task, *, seed: int = 0, reading: Reading | None = None
) -> Differentiable:
    """The classifier's own module, or a surrogate: a network that imitates it.

    Parameters
    ----------
    classifier : Classifier
        The model.
    task : Task
        The task whose encoded columns the module reads; its training rows are used to train the surrogate.
    seed : int
        The same seed gives the same surrogate.
    reading : callable, optional
        For a model without classes: a function from its output to probabilities of two classes, to be imitated.

    Returns
    -------
    Differentiable
        With a warning if a surrogate agrees with the model on fewer than 90 % of held-out rows.

    Examples
    --------
    >>> from fcxplain import differentiable
    >>> surrogate = differentiable(model, task, seed=0)  # doctest: +SKIP
    >>> surrogate.distilled, surrogate.agreement  # doctest: +SKIP
    >>> logits = surrogate.module(task.encoder.encode(rows))  # doctest: +SKIP
    """
    own = _own_module(classifier, task.encoder) if reading is None else None
    if own is not None:
        return Differentiable(own, 1.0, 0, distilled=False)
    found = _distilled(classifier, task, seed, reading or np.asarray)
    if found.agreement < WORRYING_AGREEMENT:
        warnings.warn(
            f"the network that imitates the classifier agrees with it on only {found.agreement:.1%} of "
            f"{found.rows:,} held-out rows; answers stay verified by the classifier itself, but more of them "
            "may be missed",
            FcxWarning,
            stacklevel=2,
        )
    return found


def _own_module(classifier: Classifier, encoder: TableEncoder) -> nn.Module | None:
    """A frozen copy of the classifier's module, on the columns of `encoder`, with the threshold built in."""
    if classifier.module is None:
        return None
    layers: list[nn.Module] = []
    source = getattr(classifier, "encoder", None)
    if source is not None and (encoder.names != source.names or encoder.scale_ != source.scale_):
        bridge = _bridge(encoder, source)
        if bridge is None:
            return None
        layers.append(bridge)
    module = copy.deepcopy(classifier.module)
    layers += list(module) if type(module) is nn.Sequential else [module]
    if classifier.threshold is not None:
        like = next(module.parameters(), torch.zeros(1))
        layers.append(_threshold_layer(classifier.threshold, like.device))
    whole = nn.Sequential(*layers) if len(layers) > 1 else module
    return whole.to(encoder.dtype_).eval().requires_grad_(False)


def _bridge(encoder: TableEncoder, source: TableEncoder) -> nn.Linear | None:
    """A linear layer from the columns of `encoder` to those of `source`, or None if it does not exist."""
    weight = torch.zeros((source.width_, encoder.width_), dtype=source.dtype_)
    bias = torch.zeros(source.width_, dtype=source.dtype_)
    for feature in source.schema_:
        if feature.name not in encoder.spans_:
            return None
        known, to = encoder.schema_[feature.name], source.spans_[feature.name].start
        start = encoder.spans_[feature.name].start
        if known.is_number != feature.is_number or not set(known.levels) <= set(feature.levels):
            return None
        if feature.is_number:
            (low, spread), (new_low, new_spread) = encoder.scale_[feature.name], source.scale_[feature.name]
            weight[to, start], bias[to] = spread / new_spread, (low - new_low) / new_spread
        for i, level in enumerate(known.levels):
            weight[to + feature.code_of_level[level], start + i] = 1
    return fixed_linear(weight, bias)


def _threshold_layer(threshold: float, device: torch.device) -> nn.Linear:
    """Two logits, the second of which is larger from `threshold` on."""
    bias = torch.tensor([0.0, -_logit(threshold)], dtype=torch.float64, device=device)
    return fixed_linear(torch.eye(2, dtype=torch.float64, device=device), bias)


def _logit(probability: float) -> float:
    inside = min(max(probability, 1e-15), 1 - 1e-15)
    return math.log(inside / (1 - inside))


def _distilled(classifier: Classifier, task: Task, seed: int, reading: Reading) -> Differentiable:
    encoder, generator = task.encoder, torch.Generator().manual_seed(seed)
    draws = np.random.default_rng(seed)
    real, held = _parts(task.train, draws)
    codes = made_up_rows(encoder.codes(real), encoder.schema_, CHANGED_ROWS, RANDOM_ROWS, draws)
    made = encoder.from_codes(codes)
    # At most two calls, each as large as possible: a model may be slow to start.
    real_answers = reading(classifier.probabilities(pd.concat([real, held])))
    made_answers = reading(classifier.probabilities(made))
    answers = np.concatenate([real_answers[: len(real)], made_answers])
    y = torch.from_numpy(_targets(answers, classifier.threshold)).to(encoder.dtype_)
    taught = Examples(torch.cat([encoder.encode(real), encoder.encode(made)]), y)
    numbers = [encoder.spans_[n].start for n in encoder.schema_.numbers]
    count = min(MOST_RAMPS, max(FEWEST_RAMPS, RAMPS // max(1, len(numbers))))
    ramps = Ramps.at_quantiles(taught.x, numbers, count)
    layers = mlp(encoder.width_ + ramps.count, y.shape[1], generator, encoder.dtype_, HIDDEN)
    model = nn.Sequential(ramps, *layers)
    order = torch.randperm(len(taught), generator=generator)
    spared = max(1, len(taught) // 20)
    fit_network(model, taught.take(order[spared:]), taught.take(order[:spared]), generator, FITTING)
    agreement = _agreement(model, encoder.encode(held), chosen(real_answers[len(real) :], classifier.threshold))
    return Differentiable(model.requires_grad_(False), agreement, len(held), distilled=True)


def _parts(train: pd.DataFrame, draws: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training rows to learn from, and held-out ones (the same rows if there are only a few)."""
    order = draws.permutation(len(train))
    spared = min(len(train) // 10, HELD_OUT_ROWS)
    real = train.iloc[order[spared : spared + REAL_ROWS]]
    return real, train.iloc[order[:spared]] if spared else real


def _targets(answers: NDArray[np.float64], threshold: float | None) -> NDArray[np.float64]:
    """Soft labels, shifted so that the threshold becomes one half."""
    soft = np.clip(answers, CERTAIN, 1)
    if threshold is not None:
        soft = soft * np.exp([0.0, -_logit(threshold)])
    return np.asarray(soft / soft.sum(axis=1, keepdims=True))


@torch.no_grad()
def _agreement(model: nn.Module, x: Tensor, classes: NDArray[np.int64]) -> float:
    return float((model(x).argmax(dim=1) == torch.from_numpy(classes)).double().mean())
