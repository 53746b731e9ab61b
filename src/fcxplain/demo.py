"""What `fcxplain demo` does: the paper's method on the embedded Adult data, as data to print."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .benchmark.published import figure
from .classifier import Score, score, train_classifier
from .datasets import load_dataset
from .explainer import FCx
from .explanation import Certificate
from .metrics import evaluate
from .model.training import Callback
from .rules import in_words
from .task import Task

DATA = "adult"
EPOCHS = 10
PEOPLE = 3
# Our metrics, and what the paper's table calls them.
COMPARED = {
    "validity_soft": "validity",
    "validity": None,
    "feasibility": "feasibility_binary",
    "success": None,
    "continuous_proximity": "continuous_proximity",
    "categorical_proximity": "categorical_proximity",
    "sparsity": "sparsity",
    "lof": "lof",
}


@dataclass(frozen=True)
class Compared:
    """One figure of ours, and the paper's if it tells one."""

    metric: str
    ours: float
    paper: float | None


@dataclass(frozen=True)
class Demo:
    """A classifier, whom it refuses, what they could do by FCx as published, and how good that is."""

    rows: int
    score: Score
    refused: int
    rules: tuple[str, ...]
    figures: tuple[Compared, ...]
    people: tuple[Certificate, ...]
    model: Path


def run(folder: str | Path, seed: int = 0, callbacks: Iterable[Callback] = ()) -> Demo:
    """Train the paper's classifier and the paper's generator on Adult, explain the test rows, save the model."""
    data = load_dataset(DATA, seed=seed)
    classifier = train_classifier(data, kind="paper", seed=seed)
    task = Task(data.train, classifier, schema=data.schema, rules=data.rules["binary"], target=data.target)
    fcx = FCx.as_published("binary", dataset=DATA, seed=seed).set_params(schedule__epochs=EPOCHS)
    fcx.fit(task, validation=data.validation, callbacks=callbacks)
    answer = fcx.explain(data.test)
    measured = evaluate(answer, metrics=list(COMPARED)).values
    where = Path(folder) / "model"
    where.parent.mkdir(parents=True, exist_ok=True)
    source = {"data": DATA, "label": data.label, "rows": None, "seed": seed, "classifier": "paper", "schema": None}
    fcx.save(where, overwrite=True, source=source)
    return Demo(
        rows=len(data),
        score=score(classifier, data.test, data.label),
        refused=int(answer.asked.sum()),
        rules=tuple(in_words(rule) for rule in task.rules),
        figures=tuple(
            Compared(ours, measured[ours], None if paper is None else figure(DATA, "fcx-b", paper))
            for ours, paper in COMPARED.items()
        ),
        people=tuple(answer.certificate(i) for i in range(PEOPLE)),
        model=where,
    )
