"""One measurement: load a data set, train its black box, fit a method, explain rows, and compute every figure."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ..causal import discover
from ..classifier import score, train_classifier
from ..datasets import Dataset, load_dataset
from ..errors import DataError
from ..explainer import FCx
from ..explanation import Explanation
from ..generator.training import Callback, Training
from ..methods import Method
from ..metrics import evaluate
from ..metrics.authors import lof_and_outliers
from ..metrics.optimum import optimality_gap
from ..task import Task
from ..training_loop import one_thread
from .plan import RULE_SETS, Job, entry, part_seed
from .results import BlackBox, Explaining, FitFigures, Result, Sizes, environment

# Data sets with their black box kept in memory; jobs that share one run one after the other.
HELD = 2
DIGITS = 6
# Rows for which the optimality gap is computed, and the most legal rows that are tried for it.
COMPARED, LEGAL_ROWS = 100, 50_000_000
# Metrics that are also measured as in the authors' code.
AS_THEY_COUNT = ("validity", "continuous_proximity", "categorical_proximity", "sparsity", "lof", "outliers")

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Prepared:
    """A data set with its black box, a task per rule set, and the refused test rows."""

    data: Dataset
    tasks: dict[str, Task]
    free: Task
    """The task without rules, for methods that are given none."""
    refused: pd.DataFrame
    black_box: BlackBox
    notes: tuple[str, ...]
    learnt: dict[str, Any] = field(default_factory=dict)
    """Fitted methods, answers and discovered graphs that later jobs reuse."""


@lru_cache(maxsize=HELD)
def prepare(data: str, seed: int, rows: int | None, classifier: str) -> Prepared:
    """Load a data set, train its black box, and create the tasks."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parts = load_dataset(data, seed=part_seed(seed, "split", data), rows=rows)
        model = train_classifier(parts, kind=classifier, seed=part_seed(seed, "classifier", classifier))
        of = {"schema": parts.schema, "target": parts.target, "label": parts.label}
        of["seed"] = part_seed(seed, "task", data)
        tasks = {name: Task(parts.train, model, rules=parts.rules[name], **of) for name in RULE_SETS}
        free = Task(parts.train, model, **of)
    marks = score(model, parts.test, parts.label)
    refused = parts.test[tasks["unary"].refused(parts.test)]
    black_box = BlackBox(100 * marks.accuracy, 100 * marks.balanced_accuracy)
    return Prepared(parts, tasks, free, refused, black_box, (*parts.notes, *_worded(caught)))


def measure(job: Job) -> Result:
    """Fit the method, explain rows, and compute every figure; all errors are raised."""
    with one_thread(), threadpool_limits(limits=1):
        prepared = prepare(job.data, job.seed, job.rows, job.classifier)
        refused = prepared.refused
        if job.part == "validation":
            refused = prepared.data.validation[prepared.tasks["unary"].refused(prepared.data.validation)]
        rows = chosen_rows(refused, job.data, job.seed, job.explained)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            method, fitting, history = _fitted(job, prepared)
            answer, explaining = _explained(method, rows, job, prepared)
            has_gap = answer.costs is not None and job.given != "none"
            values, absent, noted = figures(answer, prepared.tasks, job.rules, has_gap=has_gap)
            learnt = _learnt(method) | lof_by_neighbours(answer, prepared.tasks[job.rules], job.neighbours)
    data, sample = prepared.data, f"explained: a sample of {len(rows):,} of {len(refused):,} refused {job.part} rows"
    notes = (*prepared.notes, *[sample] * (len(rows) < len(refused)), *answer.notes, *noted)
    return Result(
        key=job.key,
        work=job.work,
        job=job,
        environment=environment(),
        parameters=job.parameters,
        figures=values | learnt,
        absent=absent,
        notes=tuple(dict.fromkeys((*notes, *_worded(caught)))),
        counts=dict(sorted(answer.counts.items())),
        sizes=Sizes(len(data), len(data.train), len(data.test), len(prepared.refused)),
        black_box=prepared.black_box,
        fitting=fitting,
        explaining=explaining,
        history=history if job.history else (),
    )


def _learnt(method: Method) -> dict[str, float]:
    """Figures of FCx's training: edges of the graph, and the share of each term in the loss of the best epoch."""
    if not isinstance(method, FCx):
        return {}
    found, best = {"graph_edges": float(len(method.graph_.edges))}, method.history_.best
    if best is None:
        return found
    total = best.train["total"]
    return found | {f"share_{n}": 100 * w * best.train[n] / total for n, w in method.loss_weights if n in best.train}


def lof_by_neighbours(answer: Explanation, task: Task, neighbours: tuple[int, ...]) -> dict[str, float]:
    """LOF and outliers among the answers, as in the authors' code, by the number of neighbours."""
    found = {k: lof_and_outliers(answer, task, k) for k in neighbours}
    named = {f"{n}_k{k}": float(v) for k, both in found.items() for n, v in zip(("lof", "outliers"), both, strict=True)}
    return {name: value for name, value in named.items() if np.isfinite(value)}


def chosen_rows(refused: pd.DataFrame, data: str, seed: int, most: int | None) -> pd.DataFrame:
    """At most `most` of the refused rows, the same for every method."""
    if not len(refused):
        raise DataError("the black box gives every test row the target class: there is nothing to explain")
    if most is None or most >= len(refused):
        return refused
    order = np.random.default_rng(part_seed(seed, "explained", data)).permutation(len(refused))
    return refused.iloc[np.sort(order[:most])]


def _worded(caught: list[warnings.WarningMessage]) -> list[str]:
    return [f"warning: {' '.join(str(one.message).split())}" for one in caught]


class Stopwatch(Callback):
    """CPU seconds of each epoch, training and validation together."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.rows = 0
        self._start = 0.0

    def on_epoch_begin(self, training: Training) -> None:
        """Start the clock."""
        self.rows = len(training.train)
        self._start = time.process_time()

    def on_epoch_end(self, training: Training) -> None:
        """Record the time since the start."""
        self.seconds.append(time.process_time() - self._start)


def _fitted(job: Job, prepared: Prepared) -> tuple[Method, FitFigures, tuple[dict[str, Any], ...]]:
    """The fitted method; methods of one family share what is learnt."""
    method, family = job.build(), entry(job.method).family
    if _is_blind(method, prepared, job):
        return _once(prepared, f"{_asked_for(job)} fitted", lambda: (method, *_fit(method, prepared, job)))
    if not family or not isinstance(method, FCx):
        return method, *_fit(method, prepared, job)
    # The preference and the search are not part of what is learnt.
    known = str((family, job.rules, job.given, method.set_params(prefer="balanced", search=True).get_params()))
    learnt, fitting, history = _once(prepared, known, lambda: (method, *_fit(method, prepared, job)))
    asked = {name: job.parameters[name] for name in ("prefer", "search")}
    return copy.copy(learnt).set_params(**asked), fitting, history


def _explained(method: Method, rows: pd.DataFrame, job: Job, prepared: Prepared) -> tuple[Explanation, Explaining]:
    """The answers, and the time they took; a method that reads no rules explains only once."""

    def timed() -> tuple[Explanation, Explaining]:
        start = time.process_time()
        answer = method.explain(rows)
        return answer, Explaining(len(rows), time.process_time() - start)

    if not _is_blind(method, prepared, job):
        return timed()
    answer, explaining = _once(prepared, f"{_asked_for(job)} explained", timed)
    return answer.under(prepared.tasks[job.rules]), explaining


def _is_blind(method: Method, prepared: Prepared, job: Job) -> bool:
    """Whether a method gives the same answers under every rule set, because it reads, or is given, no rules."""
    frozen = {task.frozen for task in prepared.tasks.values()}
    return job.given == "none" or (not getattr(method, "reads_rules", True) and len(frozen) == 1)


def _asked_for(job: Job) -> str:
    """A key that identifies a job, apart from its rules, among those that share its black box."""
    return str((job.method, job.explained, job.part, job.given, job.parameters))


def _once(prepared: Prepared, name: str, work: Callable[[], Made]) -> Made:
    """The result of the work, which is done once for jobs that share a black box."""
    if name not in prepared.learnt:
        prepared.learnt[name] = work()
    made: Made = prepared.learnt[name]
    return made


def _fit(method: Method, prepared: Prepared, job: Job) -> tuple[FitFigures, tuple[dict[str, Any], ...]]:
    """Fit a method and return the time it took; for FCx also the time per epoch and the losses."""
    task, start = _task(method, prepared, job), time.process_time()
    if not isinstance(method, FCx) or not method.generator:
        method.fit(task)
        return FitFigures(time.process_time() - start), ()
    watch = Stopwatch()
    method.fit(task, validation=prepared.data.validation, callbacks=[watch])
    spent = FitFigures(time.process_time() - start, float(np.mean(watch.seconds)), len(watch.seconds), watch.rows)
    return spent, tuple(_short(epoch) for epoch in method.history_.to_list())


def _short(epoch: dict[str, Any]) -> dict[str, Any]:
    """The losses of an epoch in a few digits; otherwise a line of the file would be three times as long."""
    parts = {part: {k: float(f"{v:.{DIGITS}g}") for k, v in epoch[part].items()} for part in ("train", "validation")}
    return {"number": epoch["number"]} | parts


def _task(method: Method, prepared: Prepared, job: Job) -> Task:
    """The task; the points of a study share the discovered graph, which may take longer than they do."""
    task = prepared.free if job.given == "none" else prepared.tasks[job.rules]
    if not job.study or not isinstance(method, FCx) or not method.loss_weights.soft:
        return task
    how: dict[str, Any] = {"significance": method.significance, "n_effective": method.n_effective}
    with_graph = copy.copy(task)
    with_graph.graph = _once(prepared, f"graph {how}", lambda: discover(task.train, task.schema, **how))
    return with_graph


def figures(
    answer: Explanation, tasks: dict[str, Task], rules: str, *, has_gap: bool
) -> tuple[dict[str, float], dict[str, str], Sequence[str]]:
    """Figures by name, reasons for those that are absent, and notes.

    These are every metric under the rules that the method was given, and feasibility and success under each rule set.
    Names that end in `_soft` are measured on raw outputs, before they are decoded, as in the paper's code. With
    `has_gap`, the optimality gap is computed too, for which a benchmark takes more time than `evaluate`.
    """
    own = evaluate(answer, tasks[rules])
    parts = {"": own, "_authors": evaluate(answer, tasks[rules], AS_THEY_COUNT, convention="authors")}
    for name, task in tasks.items():
        parts[f"_{name}"] = evaluate(answer, task, ["feasibility", "success"])
        parts[f"_{name}_soft"] = evaluate(answer, task, "feasibility", convention="authors")
    values = {f"{metric}{end}": value for end, part in parts.items() for metric, value in part.values.items()}
    absent = {f"{metric}{end}": reason for end, part in parts.items() for metric, reason in part.reasons.items()}
    values["category_combinations"] = float(category_combinations(answer))
    soft, notes = f"feasibility_{rules}_soft", own.notes
    values["feasibility_soft"] = values[soft]
    absent |= {"feasibility_soft": absent[soft]} if soft in absent else {}
    absent |= {n: f"it is {v}" for n, v in values.items() if n not in absent and not np.isfinite(v)}
    if has_gap and np.isfinite(gap := optimality_gap(answer, tasks[rules], limit=LEGAL_ROWS, rows=COMPARED)):
        values["optimality_gap"] = float(gap)
        absent.pop("optimality_gap", None)
        notes = (*(n for n in notes if not n.startswith("optimality_gap")), *getattr(gap, "notes", ()))
    return {n: v for n, v in values.items() if n not in absent}, absent, notes


def category_combinations(answer: Explanation) -> int:
    """The number of different combinations of mutable categories over all answers: 1 means a collapse.

    Immutable categories come from the rows, and a number that varies by one step makes an answer distinct; neither
    shows that answers fit the person.
    """
    names = [f.name for f in answer.task.schema if f.is_category and f.mutable]
    return len(answer.answers[names].drop_duplicates()) if names else 0
