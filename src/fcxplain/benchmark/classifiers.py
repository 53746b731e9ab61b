"""Accuracy of the built-in classifiers on each data set."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from ..classifier import differentiable, score, train_classifier
from ..datasets import load_dataset
from ..task import Task


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
