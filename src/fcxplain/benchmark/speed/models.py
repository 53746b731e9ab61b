"""Cost of the search for common kinds of models, queried directly and as they are read or imitated, in one run; and the
quality of answers by the budget of queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ...datasets import Dataset
from ...explainer import FCx
from ...explanation import Explanation
from ...progress import OnProgress, Progress, no_progress
from ...task import Task
from ...training_loop import one_thread
from ..report.markdown import number
from .timing import cpu_seconds

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
Lines = list[tuple[str, ...]]


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
    data: Dataset,
    names: Sequence[str] = MODELS,
    *,
    rows: int = ROWS,
    repeat: int = 5,
    seed: int = 0,
    on_progress: OnProgress = no_progress,
) -> list[ModelSpeed]:
    """Explain refused rows by each model in both modes, without a generator; the best of several turns counts."""
    found = list[ModelSpeed]()
    with one_thread(), threadpool_limits(limits=1):
        for number, name in enumerate(names):
            on_progress(Progress(name, number, len(names)))
            model = trained(name, data, seed)
            if model is None:
                found.append(ModelSpeed(name, "", 0, note=f"not installed: pip install {PACKAGES[name][0]}"))
                continue
            own, auto = (_timed(name, oracle, data, model, rows, repeat, seed) for oracle in ("model", "auto"))
            found += [own, replace(auto, faster=_over(own.seconds, auto.seconds))]
    return found


def budget_curves(
    data: Dataset,
    curves: Sequence[tuple[str, str, bool]] = CURVES,
    *,
    rows: int = ROWS,
    seed: int = 0,
    on_progress: OnProgress = no_progress,
) -> list[BudgetPoint]:
    """Explain refused rows with larger and larger budgets, of boosting itself and of its imitation."""
    found = list[BudgetPoint]()
    with one_thread(), threadpool_limits(limits=1):
        for number, (name, oracle, drawn) in enumerate(curves):
            on_progress(Progress(f"fit {name}, {'a' if drawn else 'no'} generator", number, len(curves)))
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


def _timed(name: str, oracle: str, data: Dataset, model: Any, rows: int, repeat: int, seed: int) -> ModelSpeed:
    # A separate task, so that the two modes share nothing that was read.
    task, fcx = task_of(data, model), FCx(generator=False, prefer=PREFER, oracle=oracle, seed=seed)
    some, kept = _refused(data, task, rows, seed), list[Explanation]()
    fitting = cpu_seconds(lambda: fcx.fit(task).explain(some.iloc[:1]))
    seconds = min(cpu_seconds(lambda: kept.append(fcx.explain(some))) for _ in range(repeat))
    return ModelSpeed(name, oracle, len(some), fitting, seconds, **_marks(kept[-1]))


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


def _over(slow: float | None, quick: float | None) -> float | None:
    return None if slow is None or quick is None else slow / quick


def speed_lines(models: Sequence[ModelSpeed]) -> Lines:
    """A table with two lines per model, after the header."""
    columns = ("rows per CPU s", "times", "queries per row", "of budget", "verified, %", "changes", "cost")
    lines: Lines = [("model", "oracle", *columns, "fit, CPU s")]
    for m in models:
        figures = (m.rows_per_second, m.faster, m.queries, m.spent, m.verified, m.changes, m.cost, m.fitting)
        texts = (number(v, digits=n) for v, n in zip(figures, (0, 1, 1, 1, 1, 3, 3, 1), strict=True))
        lines.append((m.model, m.oracle, *texts))
    return lines


def budget_lines(points: Sequence[BudgetPoint]) -> Lines:
    """A table with one line per budget and two columns per curve, after the header."""
    curves = list(dict.fromkeys(point.series for point in points))
    known = {(point.series, point.budget): (point.verified, point.changes) for point in points}
    heads = (f"{curve}: {what}" for curve in curves for what in ("verified, %", "changes"))
    lines: Lines = [("queries per row, at most", *heads)]
    for budget in dict.fromkeys(point.budget for point in points):
        figures = (known[curve, budget] for curve in curves)
        texts = ((number(verified, digits=1), number(changes)) for verified, changes in figures)
        lines.append((f"{budget:,}", *chain.from_iterable(texts)))
    return lines
