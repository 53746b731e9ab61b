"""Random models of every kind that a task takes, each with a direct way to ask it, as its owner would."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from fcxplain import Schema, TableEncoder

CLASSES = (("no", "yes"), (0, 1), (False, True), ("a", "b", "c"), (2, 0, 1, 5), ("1", "b b", "ß"))
KINDS = ("linear", "network", "sure network", "logistic", "tree", "forest", "lookup")
Ask = Callable[[pd.DataFrame], np.ndarray]


@dataclass(frozen=True)
class Model:
    """What the task is given, and the same model asked directly: a table in, `n x classes` probabilities out."""

    given: Any
    ask: Ask
    classes: tuple[Any, ...]
    threshold: float | None

    def answers(self, table: pd.DataFrame) -> list[Any]:
        """The class of each row."""
        if not len(table):
            return []
        p = self.ask(table)
        place = p.argmax(axis=1) if self.threshold is None else (p[:, 1] >= self.threshold).astype(int)
        return [self.classes[i] for i in place]


def matrix(schema: Schema, table: pd.DataFrame) -> np.ndarray:
    """Numbers as they are, then a column of 0 and 1 for each level."""
    columns = []
    for f in schema:
        if f.kind in ("integer", "continuous"):
            columns.append(table[f.name].to_numpy(dtype=np.float64)[:, None])
        else:
            places = [f.levels.index(v) for v in table[f.name].tolist()]
            columns.append(np.eye(len(f.levels))[places])
    # Minus zero is zero.
    return np.concatenate(columns, axis=1) + 0.0


def model_of(
    kind: str,
    schema: Schema,
    train: pd.DataFrame,
    *,
    seed: int,
    classes: tuple[Any, ...],
    threshold: float | None = None,
    bias: float = 0.0,
) -> Model:
    """A random model; `bias` speaks against its last class."""
    rng = np.random.default_rng(seed)
    if kind in ("linear", "network", "sure network"):
        module = _module(kind, sum(f.width for f in schema), len(classes), seed, bias)
        encoder = TableEncoder().fit(schema, train)
        return Model(module, lambda table: _asked(module, encoder, table), classes, threshold)
    if kind == "logistic":
        ask = _logistic(schema, train, len(classes), rng, bias)
    elif kind == "lookup":
        ask = _lookup(schema, len(classes), seed, share=0.5 / (1 + bias))
    else:
        ask = _trees(kind, schema, train, len(classes), rng)
    return Model(ask, ask, classes, threshold)


def _module(kind: str, width: int, classes: int, seed: int, bias: float) -> nn.Module:
    sizes = [width, classes] if kind == "linear" else [width, 6, 5, classes]
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layer = nn.Linear(inputs, outputs)
        with torch.no_grad():
            layer.weight.normal_(generator=generator)
            layer.bias.normal_(generator=generator)
        layers += [layer, nn.ReLU()]
    with torch.no_grad():
        layers[-2].bias[-1] -= bias  # type: ignore[index, operator, union-attr]
    end = [nn.Softmax(dim=1)] if kind == "sure network" else []
    return nn.Sequential(*layers[:-1], *end).eval() if kind != "linear" else layers[0]


def _asked(module: nn.Module, encoder: TableEncoder, table: pd.DataFrame) -> np.ndarray:
    with torch.no_grad():
        out = module(encoder.encode(table)).double()
    ends_in_one = isinstance(module, nn.Sequential) and isinstance(module[-1], nn.Softmax)
    return (out if ends_in_one else out.softmax(dim=1)).numpy()


def _logistic(schema: Schema, train: pd.DataFrame, classes: int, rng: np.random.Generator, bias: float) -> Ask:
    x = matrix(schema, train)
    center, spread = x.mean(axis=0), x.std(axis=0) + 0.1
    weights, shift = rng.normal(size=(x.shape[1], classes)), rng.normal(size=classes)
    shift[-1] -= bias

    def ask(table: pd.DataFrame) -> np.ndarray:
        # Row by row, since a product of matrices rounds by the number of its rows.
        score = ((matrix(schema, table) - center) / spread)[:, :, None] * weights
        odds = np.exp(score.sum(axis=1) + shift)
        return odds / odds.sum(axis=1, keepdims=True)

    return ask


def _trees(kind: str, schema: Schema, train: pd.DataFrame, classes: int, rng: np.random.Generator) -> Ask:
    x = matrix(schema, train)
    x = np.concatenate([x, x[rng.integers(len(x), size=classes)]])
    labels = np.concatenate([rng.integers(classes, size=len(train)), np.arange(classes)])
    state = int(rng.integers(2**31))
    made = (
        DecisionTreeClassifier(random_state=state)
        if kind == "tree"
        else RandomForestClassifier(n_estimators=4, max_depth=3, random_state=state)
    ).fit(x, labels)
    return lambda table: made.predict_proba(matrix(schema, table))


def _lookup(schema: Schema, classes: int, seed: int, share: float) -> Ask:
    """Each row has a class of its own, without rhyme or reason; the last one is rare."""

    def ask(table: pd.DataFrame) -> np.ndarray:
        x = matrix(schema, table)
        drawn = np.array([zlib.crc32(line.tobytes(), seed) / 2**32 for line in x])
        other = (drawn - share) / (1 - share) * (classes - 1)
        place = np.where(drawn < share, classes - 1, np.clip(other.astype(int), 0, classes - 2))
        return np.full((len(x), classes), 0.1 / classes) + 0.9 * np.eye(classes)[place]

    return ask
