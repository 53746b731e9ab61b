"""The work of `fcxplain demo`: the whole workflow on the embedded Adult data.

It trains a classifier, finds verified answers for people that it refuses, under realistic rules, and says why others
have none and what it would take.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from .classifier import Score, score, train_classifier
from .datasets import load_dataset
from .datasets.source import Source
from .explainer import FCx
from .explanation import Certificate, Explanation, Status, WhyNot
from .progress import OnProgress, Progress, no_progress
from .rules import in_words
from .task import Task

DATA, RULES, MODEL = "adult", "actionable", "mlp"
# People explained, people on the page, and people shown in the terminal.
ASKED, ON_PAGE, PEOPLE = 200, 30, 3
# People without an answer whose reasons are sought, and those on the page: the ones who need the least relaxation.
LOOKED_INTO, NEAR = 8, 4


@dataclass(frozen=True)
class Demo:
    """The classifier's score, example answers, two people without one and why, and the files written."""

    rows: int
    score: Score
    refused: int
    wanted: str
    rules: tuple[str, ...]
    counts: dict[str, int]
    people: tuple[Certificate, ...]
    why_not: tuple[WhyNot, ...]
    model: Path
    page: Path
    answers: Path


def run(
    folder: str | Path,
    seed: int = 0,
    on_progress: OnProgress = no_progress,
    *,
    rows: int | None = None,
) -> Demo:
    """Train a classifier on Adult, explain people of the test part, and write the model, the answers and a page.

    rows: the maximum number of rows; None for all.
    on_progress: called with each stage, the number done and the total, or 0 of 0 if nothing is counted.
    """
    folder = Path(folder)
    data = load_dataset(DATA, seed=seed, rows=rows).under(RULES)
    classifier = train_classifier(data, MODEL, seed, on_progress=on_progress)
    task = Task(data.train, classifier, schema=data.schema, rules=data.rules[RULES], target=data.target)
    # The quick start: nothing but the classifier is trained, and the search works without a generator.
    fcx = FCx(seed=seed, generator=False).fit(task)
    refused = data.test[task.refused(data.test)]
    stage = "explaining people who are refused"
    answer = fcx.explain(refused.iloc[:ASKED], on_progress=lambda event: on_progress(replace(event, stage=stage)))
    on_progress(Progress("finding reasons, and writing the model, the answers and a page", 0, 0))
    reasons = _reasons(fcx, answer.rows[answer.row_status == str(Status.IMPOSSIBLE)].iloc[:LOOKED_INTO])
    examples = _different(answer)
    wanted = task.schema.class_title(data.target)
    folder.mkdir(parents=True, exist_ok=True)
    fcx.save(folder / "model", overwrite=True, source=Source(DATA, data.label, rows=rows, seed=seed).to_dict())
    answer.to_parquet(folder / "answers.parquet")
    page = _page(fcx, answer, examples, reasons)
    page.to_html(folder / "report.html", title=f"What {len(page)} people could change for an income {wanted}")
    return Demo(
        rows=len(data),
        score=score(classifier, data.test, data.label),
        refused=len(refused),
        wanted=wanted,
        rules=tuple(in_words(rule) for rule in task.rules),
        counts=answer.counts,
        people=tuple(answer.certificate(i) for i in examples),
        why_not=(*reasons[:1], *reasons[NEAR - 1 : NEAR]),
        model=folder / "model",
        page=folder / "report.html",
        answers=folder / "answers.parquet",
    )


def _different(answer: Explanation) -> list[int]:
    """The first answers that change different sets of features, fewest changes first."""
    sets: dict[bytes, int] = {}
    for i in np.flatnonzero(answer.checks.passed).tolist():
        sets.setdefault(answer.checks.changed[i].tobytes(), i)
    return sorted(list(sets.values())[:PEOPLE], key=lambda i: int(answer.checks.changes[i]))


def _reasons(fcx: FCx, hopeless: pd.DataFrame) -> list[WhyNot]:
    """Why some people have no answer, the smallest relaxation first."""
    reasons: list[WhyNot] = list(fcx.explain(hopeless, why_not=True).reasons.values()) if len(hopeless) else []
    return sorted(reasons, key=lambda why: np.inf if why.relaxation is None else why.relaxation.cost)


def _page(fcx: FCx, answer: Explanation, examples: list[int], reasons: list[WhyNot]) -> Explanation:
    """People with up to two answers each, first those shown in the terminal; and some without one, with reasons."""
    near = {why.row: why for why in reasons[:NEAR]}
    first = [answer.rows.index[answer.place[i]] for i in examples]
    found = answer.rows.index[answer.row_status == str(Status.VERIFIED)].tolist()
    rows = answer.rows.loc[list(dict.fromkeys([*first, *near, *found]))[:ON_PAGE]]
    page = fcx.explain(rows, k=2)
    return replace(page, reasons={i: near[row] for i, row in enumerate(rows.index.tolist()) if row in near})
