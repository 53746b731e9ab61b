"""The search: what it hands out passes every check, and is as cheap as enumeration says it can be."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fcxplain import Feature, Schema, Task, train_classifier
from fcxplain.errors import ClassifierError, DataError
from fcxplain.explanation import Explanation, check
from fcxplain.search.pipeline import Search

SCHEMA = Schema(
    (
        Feature("age", "integer", low=18, high=80),
        Feature("income", "continuous", low=0, high=90, step=0.5),
        Feature("degree", "ordinal", levels=("none", "school", "college")),
        Feature("job", "categorical", levels=("clerk", "cook", "smith", "nurse")),
        Feature("hours", "integer", low=0, high=60),
        Feature("born", "categorical", levels=("here", "there"), mutable=False),
    )
)
RULES = "age' >= age\ndegree' > degree => age' > age\ndegree' >= degree"
KINDS = ("paper", "mlp", "logistic", "boosting")


def table(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 70, rows),
            "income": rng.integers(0, 180, rows) / 2,
            "degree": rng.choice(["none", "school", "college"], rows),
            "job": rng.choice(["clerk", "cook", "smith", "nurse"], rows),
            "hours": rng.integers(0, 60, rows),
            "born": rng.choice(["here", "there"], rows),
        }
    )
    degree = frame["degree"].map({"none": 0, "school": 1, "college": 2})
    job = frame["job"].map({"clerk": 0.0, "cook": -1.0, "smith": 0.5, "nurse": 1.0})
    score = frame["income"] / 20 + frame["age"] / 30 + degree + job + frame["hours"] / 40 * (degree > 0)
    return frame.assign(good=(score + rng.normal(0, 0.5, rows) > 6).astype(int))


@dataclass(frozen=True)
class Loans:
    train: pd.DataFrame
    validation: pd.DataFrame | None = None
    label: str = "good"
    schema: Schema = SCHEMA


@cache
def task(kind: str, rules: str = RULES) -> Task:
    data = Loans(table(800))
    model = train_classifier(data, kind=kind, seed=0)
    return Task(data.train, model, schema=SCHEMA, rules=rules, target=1)


def refused(problem: Task, count: int, seed: int = 1) -> pd.DataFrame:
    rows = table(4 * count, seed).drop(columns="good")
    return rows[problem.refused(rows)].head(count)


def changed_everywhere(row: pd.Series, names: tuple[str, ...]) -> pd.DataFrame:
    """Every legal row that differs from `row` in these features at most."""
    grids = {n: SCHEMA[n].levels or SCHEMA[n].at(np.arange((SCHEMA[n].top or 0) + 1)).tolist() for n in names}
    values = list(itertools.product(*grids.values()))
    made = pd.DataFrame([row] * len(values)).reset_index(drop=True)
    for i, name in enumerate(names):
        made[name] = [v[i] for v in values]
    return made.astype({"age": int, "hours": int, "income": float})


def cheapest(problem: Task, row: pd.Series, sets: list[tuple[str, ...]], exactly: int) -> float:
    """The lowest cost over all changes of just so many features, by trying them all; infinite if none passes."""
    best = np.inf
    for names in sets:
        made = changed_everywhere(row, names)
        before = pd.DataFrame([row] * len(made)).astype(made.dtypes.to_dict())
        found = check(problem, before, made, np.full(len(made), 1))
        good = found.passed & (found.changes == exactly)
        best = min(best, found.cost[good].min(initial=np.inf))
    return best


@pytest.mark.parametrize("kind", KINDS)
def test_everything_handed_out_passes_every_check(kind):
    rows = refused(task(kind), 60)
    for prefer in ("sparse", "balanced", "plausible"):
        answer = Search(task(kind), prefer=prefer).explain(rows)
        assert answer.checks.passed.all()
        assert set(answer.counts) == {"verified"}


@pytest.mark.parametrize("kind", KINDS)
def test_where_one_change_does_the_answer_is_the_cheapest_one(kind):
    problem = task(kind)
    rows = refused(problem, 25)
    answer = Search(problem, prefer="sparse").explain(rows)
    sets = [(n,) for n in SCHEMA.mutable]
    for i in range(len(rows)):
        best = cheapest(problem, rows.iloc[i], sets, exactly=1)
        mine = answer.checks.take(answer.place == i)
        if np.isfinite(best):
            assert mine.changes.tolist() == [1]
            assert mine.cost[0] == pytest.approx(best)
        else:
            assert mine.changes[0] > 1


@pytest.mark.parametrize("kind", KINDS)
def test_budget_is_kept_and_counted(kind):
    problem = task(kind)
    rows = refused(problem, 20)
    answer = Search(problem, prefer="sparse").explain(rows)
    assert answer.effort.calls <= 1_002 * len(rows)
