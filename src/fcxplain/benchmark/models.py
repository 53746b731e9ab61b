"""How good the built-in classifiers are on each data set, and how well causal discovery finds known graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..causal import CausalGraph, discover
from ..classifier import differentiable, score, train_classifier
from ..datasets import load_dataset
from ..schema import Feature, Schema
from ..task import Task


@dataclass(frozen=True)
class ClassifierResult:
    """One data set, one kind of classifier: its marks on the test part, and the CPU time of training."""

    data: str
    kind: str
    seed: int
    rows: int
    """Rows of the data set, all parts together."""
    accuracy: float
    balanced_accuracy: float
    majority: float
    """What always answering the commonest class would score."""
    refused: float
    """Share of the test rows that do not get the target."""
    seconds: float
    agreement: float
    """Share of test rows on which the differentiable form answers the same; 1 for a network itself."""


def measure_classifier(data: str, kind: str, *, seed: int = 0, rows: int | None = None) -> ClassifierResult:
    """Train one kind of classifier on one data set and score it on the test part."""
    parts = load_dataset(data, seed=seed, rows=rows)
    # Idle threads that wait for work would count as CPU time.
    with threadpool_limits(limits=1):
        start = time.process_time()
        model = train_classifier(parts, kind=kind, seed=seed)
        seconds = time.process_time() - start
    marks = score(model, parts.test, parts.label)
    task = Task(parts.train, model, schema=parts.schema, target=parts.target, label=parts.label, seed=seed)
    stand_in = differentiable(model, task, seed=seed)
    chosen = stand_in.module(task.encoder.encode(parts.test)).argmax(dim=1).numpy()
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


def measure_classifiers(
    data: Iterable[str], kinds: Iterable[str], *, seed: int = 0, rows: int | None = None
) -> Iterator[ClassifierResult]:
    """Every kind on every data set, one result at a time."""
    kinds = tuple(kinds)
    for name in data:
        for kind in kinds:
            yield measure_classifier(name, kind, seed=seed, rows=rows)


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


LEVELS = 4
MARKS = ("precision", "recall", "f1", "arrow_f1")


@dataclass(frozen=True)
class GraphScore:
    """Mean scores of discovery over some synthetic tables, and the CPU seconds of one."""

    n_effective: int
    alpha: float
    tables: int
    rows: int
    features: int
    precision: float
    recall: float
    f1: float
    arrow_f1: float
    """Of arrowheads, against the CPDAG: what data alone can tell."""
    seconds: float


@dataclass(frozen=True, eq=False)
class Synthetic:
    """A table whose causal graph is known."""

    table: pd.DataFrame
    schema: Schema
    truth: CausalGraph


def synthetic(features: int, rows: int, seed: int, *, edges_per_feature: float = 1.5) -> Synthetic:
    """A random DAG and a table from it: every third feature is a category, cut from its hidden number."""
    rng = np.random.default_rng(seed)
    joined = np.triu(rng.random((features, features)) < min(1.0, 2 * edges_per_feature / (features - 1)), k=1)
    weights = joined * rng.uniform(0.4, 1.2, joined.shape) * rng.choice([-1, 1], joined.shape)
    names = tuple(f"f{i}" for i in range(features))
    columns: dict[str, NDArray[np.float64]] = {}
    for j, name in enumerate(names):
        causes = [weights[i, j] * _standard(columns[names[i]]) for i in range(j)]
        columns[name] = _standard(np.sum(causes, axis=0) + rng.normal(size=rows))
        if _is_category(j):
            columns[name] = _cut(columns[name])
    table = pd.DataFrame({n: v.astype(int) if _is_category(i) else v for i, (n, v) in enumerate(columns.items())})
    schema = Schema(tuple(_feature(n, _is_category(i)) for i, n in enumerate(names))).complete(table)
    return Synthetic(table, schema, CausalGraph(names, tuple((names[a], names[b]) for a, b in np.argwhere(joined))))


def _is_category(place: int) -> bool:
    return place % 3 == 2


def _feature(name: str, is_category: bool) -> Feature:
    return Feature(name, "categorical", levels=tuple(range(LEVELS))) if is_category else Feature(name, "continuous")


def _standard(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((values - values.mean()) / values.std())


def _cut(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Levels that are equally common."""
    edges = np.quantile(values, np.linspace(0, 1, LEVELS + 1)[1:-1])
    return np.digitize(values, edges).astype(np.float64)


def measure_discovery(
    caps: Iterable[int],
    *,
    tables: int = 20,
    rows: int = 100_000,
    features: int = 10,
    alpha: float = 0.01,
    seed: int = 0,
    on_done: Callable[[int], None] = lambda done: None,
) -> list[GraphScore]:
    """Discovery on the same synthetic tables with each effective sample size; `on_done` is told how many are done."""
    made = [synthetic(features, rows, seed + i) for i in range(tables)]
    found = list[GraphScore]()
    for cap in caps:
        found.append(_scored(made, cap, alpha))
        on_done(len(found))
    return found


def _scored(made: list[Synthetic], cap: int, alpha: float) -> GraphScore:
    start = time.process_time()
    found = [discover(one.table, one.schema, significance=alpha, n_effective=cap) for one in made]
    seconds = (time.process_time() - start) / len(made)
    marks = [graph.compare(one.truth.cpdag()) for graph, one in zip(found, made, strict=True)]
    mean = {name: float(np.mean([getattr(m, name) for m in marks])) for name in MARKS}
    return GraphScore(
        n_effective=cap,
        alpha=alpha,
        tables=len(made),
        rows=len(made[0].table),
        features=len(made[0].schema),
        precision=mean["precision"],
        recall=mean["recall"],
        f1=mean["f1"],
        arrow_f1=mean["arrow_f1"],
        seconds=seconds,
    )
