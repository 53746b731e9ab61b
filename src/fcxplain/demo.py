"""What `fcxplain demo` does: the main job on the embedded Adult data, as data to print.

A classifier is trained, FCx learns from it, everybody whom it refuses gets a checked answer, and one person who would
not do what others could is told why there is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from .benchmark.report.published import figure
from .classifier import Score, score, train_classifier
from .datasets import load_dataset
from .datasets.source import Source
from .explainer import FCx
from .explanation import Certificate, Explanation, Status, WhyNot
from .generator.training import Callback
from .metrics import evaluate
from .progress import OnProgress, Progress, nobody
from .rules import in_words
from .task import Task

DATA = "adult"
# What the class wanted, 1, stands for.
WANTED = "an income above 50,000"
PEOPLE = 3
# People on the page; a page of everybody is `fcxplain explain --html`.
ON_PAGE = 200
# What the person who is told why not would leave as it is, beside working no more hours than now.
LEFT_ALONE = ("education", "marital_status", "occupation", "workclass")
HOURS = "hours_per_week"
# Of so many who cannot, the one whom the least would help is shown.
HOPELESS = 20
# Our metrics, and what the paper's table calls them.
COMPARED = {
    "validity": "validity",
    "feasibility": "feasibility_binary",
    "success": None,
    "continuous_proximity": "continuous_proximity",
    "categorical_proximity": "categorical_proximity",
    "sparsity": "sparsity",
}


@dataclass(frozen=True)
class Compared:
    """One figure of ours, and the paper's if it tells one."""

    metric: str
    ours: float
    paper: float | None


@dataclass(frozen=True)
class Demo:
    """A classifier, whom it refuses, what they could do, one who cannot and why, and the files that were written."""

    rows: int
    score: Score
    refused: int
    rules: tuple[str, ...]
    figures: tuple[Compared, ...]
    people: tuple[Certificate, ...]
    wishes: str
    why_not: WhyNot | None
    model: Path
    page: Path
    answers: Path


def run(
    folder: str | Path,
    seed: int = 0,
    callbacks: Iterable[Callback] = (),
    on_progress: OnProgress = nobody,
    *,
    rows: int | None = None,
) -> Demo:
    """Train the paper's classifier and FCx on Adult, explain the test rows, write a page, a file and the model.

    rows: at most so many of the data; None: all of them.
    on_progress: told what is being done, and how much of how much, or 0 of 0 where nothing is counted.
    """
    folder = Path(folder)
    data = load_dataset(DATA, seed=seed, rows=rows)
    classifier = train_classifier(data, "paper", seed, on_progress=on_progress)
    on_progress(Progress("looking at whom it refuses, and for causes", 0, 0))
    task = Task(data.train, classifier, schema=data.schema, rules=data.rules["binary"], target=data.target)
    fcx = FCx(seed=seed).fit(task, validation=data.validation, callbacks=callbacks)
    told = "explaining everybody who is refused"
    answer = fcx.explain(data.test, on_progress=lambda event: on_progress(replace(event, stage=told)))
    on_progress(Progress("measuring, and writing the model, the answers and a page", 0, 0))
    refused = data.test[answer.asked]
    measured = evaluate(answer, metrics=list(COMPARED)).values
    refusal = _refusal(fcx, refused)
    folder.mkdir(parents=True, exist_ok=True)
    fcx.save(folder / "model", overwrite=True, source=Source(DATA, data.label, rows=rows, seed=seed).to_dict())
    answer.to_parquet(folder / "answers.parquet")
    page = fcx.explain(refused.iloc[:ON_PAGE], k=2)
    page.to_html(folder / "report.html", title=f"What the first {len(page):,} people refused could change for {WANTED}")
    return Demo(
        rows=len(data),
        score=score(classifier, data.test, data.label),
        refused=len(refused),
        rules=tuple(in_words(rule) for rule in task.rules),
        figures=tuple(
            Compared(ours, measured[ours], None if paper is None else figure(DATA, "fcx-b", paper))
            for ours, paper in COMPARED.items()
        ),
        people=tuple(answer.certificate(i) for i in _different(answer)),
        wishes=f"{', '.join(task.schema[name].title for name in LEFT_ALONE)} stay, and no more hours a week than now",
        why_not=refusal,
        model=folder / "model",
        page=folder / "report.html",
        answers=folder / "answers.parquet",
    )


def _different(answer: Explanation) -> list[int]:
    """The first answers that do not change the same features as one before."""
    sets: dict[bytes, int] = {}
    for i in np.flatnonzero(answer.checks.passed).tolist():
        sets.setdefault(answer.checks.changed[i].tobytes(), i)
    return list(sets.values())[:PEOPLE]


def _refusal(fcx: FCx, refused: pd.DataFrame) -> WhyNot | None:
    """One of the refused for whom nothing is left, with what stands in the way: where the least would help."""
    some = refused.iloc[:ON_PAGE]
    wishes = pd.DataFrame(
        {"freeze": [list(LEFT_ALONE)] * len(some), HOURS: [(None, int(hours)) for hours in some[HOURS]]},
        index=some.index,
    )
    answer = fcx.explain(some, overrides=wishes)
    hopeless = some[answer.row_status == str(Status.IMPOSSIBLE)].iloc[:HOPELESS]
    if not len(hopeless):
        return None
    told = fcx.explain(hopeless, overrides=wishes.loc[hopeless.index], why_not=True)
    reasons: list[WhyNot] = list(told.reasons.values())
    return min(reasons, key=lambda why: np.inf if why.relaxation is None else why.relaxation.cost)
