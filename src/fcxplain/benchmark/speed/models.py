"""The search for common kinds of models, in one run: its cost with models queried directly and as they are read or
imitated, the quality of answers by the budget of queries, and one pass compared with the full search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import chain, product
from typing import Any

import numpy as np
import pandas as pd

from ...classifier import train_classifier
from ...datasets import Dataset
from ...explainer import FCx
from ...explanation import Explanation
from ...task import Task
from ..report.markdown import number, numbers
from .timing import Tell, cpu_seconds, fastest, on_one_thread

ROWS = 300
PREFER = "sparse"
LOGISTIC, BOOSTING, CALLABLE = "logistic regression", "HistGradientBoosting", "HistGradientBoosting behind a function"
FOREST = "forest, 100 trees of depth 12"
# Models from other packages: the package, the class, and its settings.
PACKAGES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "XGBoost, 150 trees of depth 5": ("xgboost", "XGBClassifier", {"n_estimators": 150, "max_depth": 5}),
    "LightGBM, 150 trees": ("lightgbm", "LGBMClassifier", {"n_estimators": 150, "verbose": -1}),
}
MODELS = (LOGISTIC, BOOSTING, *PACKAGES, FOREST, CALLABLE)
BUDGETS = (1, 2, 4, 8, 16, 32, 64, 1_000)
# The model of the budget curves, and how it is queried, without and with draws of a generator.
CURVES = tuple((*how, drawn) for how in ((BOOSTING, "model"), (CALLABLE, "auto")) for drawn in (False, True))
# One pass: models and preferences, the rows answered, and how many of them the search answers too.
PAPER = "the paper's network"
PASSES = tuple(product((PAPER, BOOSTING), ("sparse", "balanced")))
PASS_ROWS, SEARCHED = 4_000, 500


@dataclass(frozen=True)
class ModelSpeed:
    """One model, queried in one mode; figures are None if its package is not installed."""

    model: str
    oracle: str
    """"model": queried on every candidate. "auto": read or imitated, and queried on the answers found."""
    rows: int
    fitting: float | None = None
    """CPU seconds of `FCx.fit` without a generator and of the first answer; includes reading or imitating the model."""
    seconds: float | None = None
    """CPU seconds for all rows."""
    queries: float | None = None
    """Queries of the user's model per row to explain, including that row itself."""
    spent: float | None = None
    """Queries per row that counted against its budget."""
    verified: float | None = None
    """Per cent of the rows."""
    changes: float | None = None
    cost: float | None = None
    """Mean cost of the changes by the preference: their number, kind and size."""
    faster: float | None = None
    """Rows per second, relative to the model queried on every candidate."""
    note: str = ""

    @property
    def rows_per_second(self) -> float | None:
        """Rows per CPU second."""
        return None if self.seconds is None else self.rows / self.seconds


@dataclass(frozen=True)
class BudgetPoint:
    """Results with a budget: percentage of the rows with a verified answer, and the changes of those answers."""

    model: str
    generator: bool
    budget: int
    rows: int
    verified: float
    changes: float | None
    """None if no row has an answer."""
    queries: float
    """As in `ModelSpeed`."""
    oracle: str = "auto"

    @property
    def series(self) -> str:
        """The name of the curve that it belongs to."""
        name = self.model if self.oracle == "auto" else f"{self.model} itself"
        return f"{name}, {'with the generator' if self.generator else 'search alone'}"


def models_speed(
    data: Dataset, names: Sequence[str] = MODELS, *, rows: int, repeat: int, seed: int = 0, tell: Tell
) -> list[ModelSpeed]:
    """Explain refused rows by each model in both modes, without a generator; the best of several turns counts."""
    found = list[ModelSpeed]()
    with on_one_thread():
        for name in names:
            tell(name)
            model = trained(name, data, seed)
            if model is None:
                found.append(ModelSpeed(name, "", 0, note=f"not installed: pip install {PACKAGES[name][0]}"))
                continue
            slow = None
            for oracle in ("model", "auto"):
                found.append(_timed(name, oracle, data, model, rows, repeat, seed, slow))
                slow = found[-1].seconds
    return found


def budget_curves(
    data: Dataset, curves: Sequence[tuple[str, str, bool]] = CURVES, *, rows: int, seed: int = 0, tell: Tell
) -> list[BudgetPoint]:
    """Explain refused rows with larger and larger budgets, of boosting itself and of its imitation."""
    found = list[BudgetPoint]()
    with on_one_thread():
        for name, oracle, drawn in curves:
            tell(f"fit {name}, {'a' if drawn else 'no'} generator")
            task = task_of(data, trained(name, data, seed))
            fcx = FCx(generator=drawn, prefer=PREFER, oracle=oracle, seed=seed).fit(task)
            some = _refused(data, task, rows, seed)
            for budget in BUDGETS:
                marks = _marks(fcx.explain(some, budget=budget))
                del marks["spent"], marks["cost"]
                found.append(BudgetPoint(name, drawn, budget, len(some), **marks, oracle=oracle))
    return found


def trained(name: str, data: Dataset, seed: int = 0) -> Any:
    """A model of `MODELS` on raw columns, or None if its package is not installed."""
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    categories: Any = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    numbers: Any = StandardScaler()
    if name in PACKAGES:
        package, kind, settings = PACKAGES[name]
        if find_spec(package) is None:
            return None
        model = getattr(import_module(package), kind)(n_jobs=1, random_state=seed, **settings)
    elif name == LOGISTIC:
        model = LogisticRegression(max_iter=1_000)
    elif name == FOREST:
        model = RandomForestClassifier(100, max_depth=12, random_state=seed)
    else:
        model = HistGradientBoostingClassifier(random_state=seed)
        categories, numbers = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), "passthrough"
    columns = ColumnTransformer(
        [("categories", categories, list(data.schema.categories)), ("numbers", numbers, list(data.schema.numbers))]
    )
    pipeline = make_pipeline(columns, model).fit(data.train[list(data.schema.names)], data.train[data.label])
    return (lambda table: pipeline.predict_proba(table)) if name == CALLABLE else pipeline


def task_of(data: Dataset, model: Any) -> Task:
    """The data set's task with its binary rules."""
    classes = sorted(data.train[data.label].unique().tolist())
    rules, train = data.rules["binary"], data.train[list(data.schema.names)]
    return Task(train, model, schema=data.schema, rules=rules, target=data.target, classes=classes)


def _refused(data: Dataset, task: Task, most: int, seed: int) -> pd.DataFrame:
    """Refused test rows, drawn by the seed."""
    refused = data.test[list(data.schema.names)][task.refused(data.test)]
    return refused.iloc[np.sort(np.random.default_rng(seed).permutation(len(refused))[:most])]


def _timed(
    name: str, oracle: str, data: Dataset, model: Any, rows: int, repeat: int, seed: int, slow: float | None
) -> ModelSpeed:
    """One mode; `slow` is the time of the other, if it was measured before."""
    # A separate task, so that the two modes share nothing that was read.
    task, fcx = task_of(data, model), FCx(generator=False, prefer=PREFER, oracle=oracle, seed=seed)
    some, kept = _refused(data, task, rows, seed), list[Explanation]()
    fitting = cpu_seconds(lambda: fcx.fit(task).explain(some.iloc[:1]))
    seconds = fastest(lambda: kept.append(fcx.explain(some)), repeat)
    faster = None if slow is None else slow / seconds
    return ModelSpeed(name, oracle, len(some), fitting, seconds, **_marks(kept[-1]), faster=faster)


def _marks(answer: Explanation) -> dict[str, Any]:
    """Figures of answers, one per row; means are over verified answers."""
    task, asked, passed = answer.task, int(answer.asked.sum()), answer.checks.passed
    assert answer.costs is not None, "a search reports the cost of its answers"
    assert answer.calls is not None, "a search counts its queries"
    # The extra cost of more than one change would dominate everything else.
    costs = replace(answer.costs, several=0.0)
    price = costs.total(task, task.schema.natural(answer.before), task.schema.natural(answer.answers))
    means = (float(each[passed].mean()) if passed.any() else None for each in (answer.checks.changes, price))
    changes, cost = means
    return {
        "queries": answer.effort.calls / asked,
        "spent": int(answer.calls.sum()) / asked,
        "verified": 100 * int(passed.sum()) / asked,
        "changes": changes,
        "cost": cost,
    }


def speed_lines(models: Sequence[ModelSpeed]) -> Iterator[tuple[str, ...]]:
    """A table with two lines per model, after the header."""
    columns = ("rows per CPU s", "times", "queries per row", "of budget", "verified, %", "changes", "cost")
    yield ("model", "oracle", *columns, "fit, CPU s")
    for m in models:
        figures = (m.rows_per_second, m.faster, m.queries, m.spent, m.verified, m.changes, m.cost, m.fitting)
        yield m.model, m.oracle, *numbers(figures, (0, 1, 1, 1, 1, 3, 3, 1))


def budget_lines(points: Sequence[BudgetPoint]) -> Iterator[tuple[str, ...]]:
    """A table with one line per budget and two columns per curve, after the header."""
    curves = list(dict.fromkeys(point.series for point in points))
    known = {(point.series, point.budget): (point.verified, point.changes) for point in points}
    heads = (f"{curve}: {what}" for curve in curves for what in ("verified, %", "changes"))
    yield ("queries per row, at most", *heads)
    for budget in dict.fromkeys(point.budget for point in points):
        figures = (known[curve, budget] for curve in curves)
        texts = ((number(verified, digits=1), number(changes)) for verified, changes in figures)
        yield f"{budget:,}", *chain.from_iterable(texts)


@dataclass(frozen=True)
class OnePass:
    """Answers to refused rows by one model and preference, in one pass (`quick`) or by the search."""

    data: str
    model: str
    prefer: str
    quick: bool
    rows: int
    fitting: float
    """CPU seconds of `FCx.fit`, with a generator that learns the same preference."""
    seconds: float
    verified: float
    """Per cent of the rows."""
    drawn: float
    """Percentage of the rows whose answer is a draw, or a part of one."""
    changes: float
    changes_here: float
    """The same over the rows that the search answered too."""
    distinct: float
    """Percentage of distinct answers among the answers to these rows."""
    queries: float
    """Queries of the user's model per row; for a network, candidates evaluated by its own layers count too."""

    @property
    def rows_per_second(self) -> float:
        """Rows per CPU second."""
        return self.rows / self.seconds


def one_pass(data: Dataset, *, rows: int, repeat: int, seed: int, tell: Tell) -> list[OnePass]:
    """Explain refused rows in one pass, and some of them also by the search."""
    found = list[OnePass]()
    with on_one_thread():
        for name, prefer in PASSES:
            tell(f"one pass, {name}, {prefer}")
            found += _passes(data, name, prefer, rows, repeat, seed)
    return found


def _passes(data: Dataset, name: str, prefer: str, rows: int, repeat: int, seed: int) -> Iterator[OnePass]:
    task = task_of(data, train_classifier(data, "paper", seed) if name == PAPER else trained(name, data, seed))
    fcx = FCx(prefer=prefer, seed=seed)
    fitting = cpu_seconds(partial(fcx.fit, task))
    some = _unseen(data, task, rows, seed)
    for quick in (True, False):
        mine = some if quick else some.iloc[:SEARCHED]
        answer = fcx.explain(mine, quick=quick)
        seconds = fastest(partial(fcx.explain, mine, quick=quick), repeat)
        yield OnePass(data.name, name, prefer, quick, len(mine), fitting, seconds, *_pass_figures(answer))


def _pass_figures(answer: Explanation) -> tuple[float, ...]:
    """Verified, drawn, changes, changes and distinct answers among the first rows, queries."""
    passed, asked = answer.checks.passed, max(1, int(answer.asked.sum()))
    here = passed & (answer.place < SEARCHED)
    distinct = len(answer.answers[here].drop_duplicates()) / max(1, int(here.sum()))
    shares = (int(which.sum()) / asked for which in (passed, passed & (answer.found_by == "draw")))
    changes = (float(answer.checks.changes[which].mean()) for which in (passed, here))
    return *(100 * share for share in shares), *changes, 100 * distinct, answer.effort.calls / asked


def _unseen(data: Dataset, task: Task, most: int, seed: int) -> pd.DataFrame:
    """Refused rows that were not used in training, drawn by the seed."""
    table = pd.concat([data.test, data.validation], ignore_index=True)[list(data.schema.names)]
    refused = table[task.refused(table)]
    return refused.iloc[np.random.default_rng(seed).permutation(len(refused))[:most]].reset_index(drop=True)


def pass_lines(passes: Sequence[OnePass]) -> Iterator[tuple[str, ...]]:
    """A table with one line per result, after the header."""
    figures = ("rows", "verified, %", "by a draw, %", "changes", "changes, same rows", "distinct, %", "queries per row")
    yield ("data", "black box", "prefer", "way", *figures, "rows per CPU s", "fit, CPU s")
    for p in passes:
        values = (p.rows, p.verified, p.drawn, p.changes, p.changes_here, p.distinct, p.queries, p.rows_per_second)
        texts = numbers((*values, p.fitting), (0, 2, 2, 3, 3, 1, 1, 0, 1))
        yield p.data, p.model, p.prefer, "one pass" if p.quick else "search", *texts
