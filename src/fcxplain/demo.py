"""What `fcxplain demo` does: the first steps on the embedded Adult data, as data to print."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from .classifier import Score, score, train_classifier
from .datasets import load_dataset
from .rules import Breakage, breakage, in_words
from .task import Task


@dataclass(frozen=True)
class Demo:
    """A trained classifier's marks, whom it refuses, and what the rules say of them."""

    rows: int
    score: Score
    refused: int
    groups: pd.DataFrame
    """People and the share refused, by education."""
    rules: tuple[tuple[str, str], ...]
    """Each rule's text and its words."""
    broken: tuple[Breakage, ...]


def run(seed: int = 0) -> Demo:
    """Train the paper's classifier on Adult and look at the people it refuses."""
    data = load_dataset("adult", seed=seed)
    model = train_classifier(data, kind="paper", seed=seed)
    task = Task(data.train, model, schema=data.schema, rules=data.rules["binary"], target=data.target)
    refused = task.refused(data.test)
    people = data.test[list(data.features)]
    levels = pd.Categorical(people["education"], categories=data.schema["education"].levels)
    groups = pd.Series(refused).groupby(levels, observed=False).agg(["size", "mean"])
    return Demo(
        rows=len(data),
        score=score(model, data.test, data.label),
        refused=int(refused.sum()),
        groups=groups.rename(columns={"size": "people", "mean": "refused"}),
        rules=tuple((r.text, in_words(r)) for r in task.rules),
        broken=tuple(breakage(task.rules, people[refused], seed=seed)),
    )
