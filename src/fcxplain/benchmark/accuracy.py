"""Accuracy of the built-in classifiers on each data set, and of causal discovery on known graphs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..causal import CausalGraph, discover
from ..classifier import differentiable, score, train_classifier
from ..datasets import load_dataset
from ..progress import OnProgress, Progress, no_progress
from ..schema import Feature, Schema
from ..task import Task

LEVELS = 4
MARKS = ("precision", "recall", "f1", "arrow_f1")


@dataclass(frozen=True)
class ClassifierResult:
    """Scores of one kind of classifier on the test part of one data set, and the CPU time of training."""

    data: str
    kind: str
    seed: int
    rows: int
    """Rows of the data set, all parts together."""
    accuracy: float
    balanced_accuracy: float
    majority: float
    """Accuracy of always predicting the most frequent class."""
    refused: float
    """Share of the test rows that do not get the target."""
    seconds: float
    agreement: float
    """Share of test rows on which the differentiable form predicts the same class; 1 for a network itself."""


def measure_classifier(data: str, kind: str, *, seed: int = 0, rows: int | None = None) -> ClassifierResult:
    """Train one kind of classifier on one data set and score it on the test part."""
    parts = load_dataset(data, seed=seed, rows=rows)
    # Idle threads that spin would count as CPU time.
    with threadpool_limits(limits=1):
        start = time.process_time()
        model = train_classifier(parts, kind=kind, seed=seed)
        seconds = time.process_time() - start
    marks = score(model, parts.test, parts.label)
    task = Task(parts.train, model, schema=parts.schema, target=parts.target, label=parts.label, seed=seed)
    surrogate = differentiable(model, task, seed=seed)
    chosen = surrogate.module(task.encoder.encode(parts.test)).argmax(dim=1).numpy()
    same = np.asarray(model.classes)[chosen] == model.predict(parts.test)
    return ClassifierResult(
        data=data,
        kind=kind,
        seed=seed,
        rows=len(parts),
        accuracy=marks.accuracy,
        balanced_accuracy=marks.balanced_accuracy,
        majority=max(c.share for c in marks.classes),
        refused=float(task.refused(parts.test).mean()),
        seconds=seconds,
        agreement=float(np.mean(same)),
    )


def markdown(results: Iterable[ClassifierResult]) -> str:
    """The results as a Markdown table."""
    lines = [
        "| data | rows | classifier | accuracy | balanced | majority class | refused | CPU s | surrogate agrees |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {r.data} | {r.rows:,} | {r.kind} | {r.accuracy:.1%} | {r.balanced_accuracy:.1%} | {r.majority:.1%} "
        f"| {r.refused:.1%} | {r.seconds:.1f} | {r.agreement:.1%} |"
        for r in results
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class GraphScore:
    """Mean scores of discovery over some synthetic tables, and the CPU seconds per table."""

    n_effective: int
    alpha: float
    tables: int
    rows: int
    features: int
    precision: float
    recall: float
    f1: float
    arrow_f1: float
    """Score of arrowheads, compared with the CPDAG, which is all that data alone can identify."""
    seconds: float


@dataclass(frozen=True, eq=False)
class Synthetic:
    """A table whose causal graph is known."""

    table: pd.DataFrame
    schema: Schema
    truth: CausalGraph


def synthetic(features: int, rows: int, seed: int, *, edges_per_feature: float = 1.5) -> Synthetic:
    """A random DAG and a table drawn from it; every third feature is a category, binned from a hidden number."""
    rng = np.random.default_rng(seed)
    joined = np.triu(rng.random((features, features)) < min(1.0, 2 * edges_per_feature / (features - 1)), k=1)
    weights = joined * rng.uniform(0.4, 1.2, joined.shape) * rng.choice([-1, 1], joined.shape)
    names = tuple(f"f{i}" for i in range(features))
    columns: dict[str, NDArray[np.float64]] = {}
    for j, name in enumerate(names):
        causes = [weights[i, j] * _standard(columns[names[i]]) for i in range(j)]
        columns[name] = _standard(np.sum(causes, axis=0) + rng.normal(size=rows))
        if _is_category(j):
            # Equally frequent levels.
            edges = np.quantile(columns[name], np.linspace(0, 1, LEVELS + 1)[1:-1])
            columns[name] = np.digitize(columns[name], edges).astype(np.float64)
    table = pd.DataFrame({n: v.astype(int) if _is_category(i) else v for i, (n, v) in enumerate(columns.items())})
    kinds: list[dict[str, Any]] = [{"kind": "continuous"}, {"kind": "categorical", "levels": tuple(range(LEVELS))}]
    schema = Schema(tuple(Feature(n, **kinds[_is_category(i)]) for i, n in enumerate(names))).complete(table)
    return Synthetic(table, schema, CausalGraph(names, tuple((names[a], names[b]) for a, b in np.argwhere(joined))))


def _is_category(place: int) -> bool:
    return place % 3 == 2


def _standard(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((values - values.mean()) / values.std())


def measure_discovery(
    caps: Iterable[int],
    *,
    tables: int = 20,
    rows: int = 100_000,
    features: int = 10,
    alpha: float = 0.01,
    seed: int = 0,
    on_progress: OnProgress = no_progress,
) -> list[GraphScore]:
    """Run discovery on the same synthetic tables with each effective sample size; `on_progress` is called for each."""
    made = [synthetic(features, rows, seed + i) for i in range(tables)]
    caps, found = list(caps), list[GraphScore]()
    for cap in caps:
        start = time.process_time()
        graphs = [discover(one.table, one.schema, significance=alpha, n_effective=cap) for one in made]
        seconds = (time.process_time() - start) / len(made)
        marks = [graph.compare(one.truth.cpdag()) for graph, one in zip(graphs, made, strict=True)]
        means = {name: float(np.mean([getattr(m, name) for m in marks])) for name in MARKS}
        found.append(GraphScore(cap, alpha, tables, rows, features, seconds=seconds, **means))
        on_progress(Progress("discovering", len(found), len(caps)))
    return found
