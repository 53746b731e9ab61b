"""One measurement: a data set and its black box, a method fitted and asked, and every figure of its answers."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ..causal import CausalGraph, discover
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

# Data sets with their black box that are held in memory; jobs that share one follow each other.
HELD = 2
DIGITS = 6
# How far answers are from the best there are is looked up for so many rows, where so many legal rows can be tried.
COMPARED, LEGAL_ROWS = 100, 50_000_000
# What is also counted as the paper's authors do, beside validity and feasibility of raw outputs.
AS_THEY_COUNT = ("validity", "continuous_proximity", "categorical_proximity", "sparsity", "lof", "outliers")

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Prepared:
    """A data set with its black box, a task for each rule set, and the test rows that are refused."""

    data: Dataset
    tasks: dict[str, Task]
    free: Task
    """The task without rules, for methods that are to be told none."""
    refused: pd.DataFrame
    black_box: BlackBox
    notes: tuple[str, ...]
    graphs: dict[tuple[float, int | None], CausalGraph] = field(default_factory=dict)
    """What discovery found with a significance level and a cap on the rows, kept for the points of a study."""
    learnt: dict[str, Any] = field(default_factory=dict)
    """What was fitted or explained already and serves jobs that follow too."""

    @property
    def sizes(self) -> Sizes:
        """Rows in each part."""
        return Sizes(len(self.data), len(self.data.train), len(self.data.test), len(self.refused))


@lru_cache(maxsize=HELD)
def prepare(data: str, seed: int, rows: int | None, classifier: str) -> Prepared:
    """Load a data set, train its black box, and set the tasks."""
    with warnings.catch_warnings(record=True) as told:
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
    return Prepared(parts, tasks, free, refused, black_box, (*parts.notes, *_worded(told)))


def measure(job: Job) -> Result:
    """Fit the method, explain, and take every figure; whatever goes wrong is raised."""
    with one_thread(), threadpool_limits(limits=1):
        prepared = prepare(job.data, job.seed, job.rows, job.classifier)
        refused = prepared.refused
        if job.part == "validation":
            refused = prepared.data.validation[prepared.tasks["unary"].refused(prepared.data.validation)]
        rows = chosen_rows(refused, job.data, job.seed, job.explained)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            method, fitting, history = _fitted(job, prepared)
            answer, explaining = _explained(method, rows, job, prepared)
            taken = figures(answer, prepared.tasks, job.rules)
            if answer.costs is not None and job.given != "none":
                taken = _with_gap(taken, answer, prepared.tasks[job.rules])
            learnt = _learnt(method) | lof_by_neighbours(answer, prepared.tasks[job.rules], job.neighbours)
    sample = f"explained: a sample of {len(rows):,} of {len(refused):,} refused {job.part} rows"
    notes = (*prepared.notes, *[sample] * (len(rows) < len(refused)), *answer.notes, *taken.notes)
    return Result(
        key=job.key,
        work=job.work,
        job=job,
        environment=environment(),
        parameters=job.parameters,
        figures=taken.values | learnt,
        absent=taken.absent,
        notes=tuple(dict.fromkeys((*notes, *_worded(told)))),
        counts=dict(sorted(answer.counts.items())),
        sizes=prepared.sizes,
        black_box=prepared.black_box,
        fitting=fitting,
        explaining=explaining,
        history=history if job.history else (),
    )


def _learnt(method: Method) -> dict[str, float]:
    """What FCx tells of its training: edges of the graph, and what share of the loss each term is in its best epoch."""
    if not isinstance(method, FCx):
        return {}
    found, best = {"graph_edges": float(len(method.graph_.edges))}, method.history_.best
    if best is None:
        return found
    total = best.train["total"]
    return found | {f"share_{n}": 100 * w * best.train[n] / total for n, w in method.loss_weights if n in best.train}


def lof_by_neighbours(answer: Explanation, task: Task, neighbours: tuple[int, ...]) -> dict[str, float]:
    """LOF and outliers among the answers, as the authors count them, by the number of neighbours."""
    found = {k: lof_and_outliers(answer, task, k) for k in neighbours}
    named = {f"{n}_k{k}": float(v) for k, both in found.items() for n, v in zip(("lof", "outliers"), both, strict=True)}
    return {name: value for name, value in named.items() if np.isfinite(value)}


def chosen_rows(refused: pd.DataFrame, data: str, seed: int, most: int | None) -> pd.DataFrame:
    """At most so many of the refused rows, the same for every method."""
    if not len(refused):
        raise DataError("the black box gives every test row the target class: there is nothing to explain")
    if most is None or most >= len(refused):
        return refused
    order = np.random.default_rng(part_seed(seed, "explained", data)).permutation(len(refused))
    return refused.iloc[np.sort(order[:most])]


def _worded(told: list[warnings.WarningMessage]) -> list[str]:
    return [f"warning: {' '.join(str(one.message).split())}" for one in told]


class Stopwatch(Callback):
    """CPU seconds of each epoch, training and validation together."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.rows = 0
        self._start = 0.0

    def on_epoch_begin(self, training: Training) -> None:
        """Start."""
        self.rows = len(training.train)
        self._start = time.process_time()

    def on_epoch_end(self, training: Training) -> None:
        """Stop."""
        self.seconds.append(time.process_time() - self._start)


def _fitted(job: Job, prepared: Prepared) -> tuple[Method, FitFigures, tuple[dict[str, Any], ...]]:
    """The method, fitted; one of a family takes over what another of it has learnt just before."""
    method, family = job.build(), entry(job.method).family
    if _is_blind(method, prepared, job):
        return _once(prepared, f"{_asked_for(job)} fitted", lambda: (method, *_fit(method, prepared, job)))
    if not family or not isinstance(method, FCx):
        return method, *_fit(method, prepared, job)
    # What answers are to be, and whether they are searched for, is nothing that is learnt.
    known = str((family, job.rules, job.given, method.set_params(prefer="balanced", search=True).get_params()))
    learnt, fitting, history = _once(prepared, known, lambda: (method, *_fit(method, prepared, job)))
    asked = {name: job.parameters[name] for name in ("prefer", "search")}
    return copy.copy(learnt).set_params(**asked), fitting, history


def _explained(method: Method, rows: pd.DataFrame, job: Job, prepared: Prepared) -> tuple[Explanation, Explaining]:
    """The answers, and what they took; those of a method that looks at no rules are asked for once."""

    def timed() -> tuple[Explanation, Explaining]:
        start = time.process_time()
        answer = method.explain(rows)
        return answer, Explaining(len(rows), time.process_time() - start)

    if not _is_blind(method, prepared, job):
        return timed()
    answer, explaining = _once(prepared, f"{_asked_for(job)} explained", timed)
    return answer.under(prepared.tasks[job.rules]), explaining


def _is_blind(method: Method, prepared: Prepared, job: Job) -> bool:
    """Whether a method comes to the same answers under every rule set: it reads, or is told, no rules."""
    frozen = {task.frozen for task in prepared.tasks.values()}
    return job.given == "none" or (not getattr(method, "reads_rules", True) and len(frozen) == 1)


def _asked_for(job: Job) -> str:
    """What tells a job from all others that share its black box, but for its rules."""
    return str((job.method, job.explained, job.part, job.given, job.parameters))


def _once(prepared: Prepared, name: str, work: Callable[[], Made]) -> Made:
    """What the work gives, done once for jobs that share a black box."""
    if name not in prepared.learnt:
        prepared.learnt[name] = work()
    made: Made = prepared.learnt[name]
    return made


def _fit(method: Method, prepared: Prepared, job: Job) -> tuple[FitFigures, tuple[dict[str, Any], ...]]:
    """Fit a method, and say what it took; FCx also tells what its epochs took and how its losses went."""
    task, start = _task(method, prepared, job), time.process_time()
    if not isinstance(method, FCx) or not method.generator:
        method.fit(task)
        return FitFigures(time.process_time() - start), ()
    watch = Stopwatch()
    method.fit(task, validation=prepared.data.validation, callbacks=[watch])
    spent = FitFigures(time.process_time() - start, float(np.mean(watch.seconds)), len(watch.seconds), watch.rows)
    return spent, tuple(_short(epoch) for epoch in method.history_.to_list())


def _short(epoch: dict[str, Any]) -> dict[str, Any]:
    """The losses of an epoch in a few digits; a line of the file would be three times as long."""
    parts = {part: {k: float(f"{v:.{DIGITS}g}") for k, v in epoch[part].items()} for part in ("train", "validation")}
    return {"number": epoch["number"]} | parts


def _task(method: Method, prepared: Prepared, job: Job) -> Task:
    """The task; a study's points share what discovery finds, which may take longer than they do."""
    task = prepared.free if job.given == "none" else prepared.tasks[job.rules]
    if not job.study or not isinstance(method, FCx) or not method.loss_weights.soft:
        return task
    known = (method.significance, method.n_effective)
    if known not in prepared.graphs:
        prepared.graphs[known] = discover(task.train, task.schema, significance=known[0], n_effective=known[1])
    with_graph = copy.copy(task)
    with_graph.graph = prepared.graphs[known]
    return with_graph


@dataclass(frozen=True)
class Figures:
    """What was measured, by name, and why the rest was not."""

    values: dict[str, float]
    absent: dict[str, str]
    notes: tuple[str, ...]


def figures(answer: Explanation, tasks: dict[str, Task], rules: str) -> Figures:
    """Every metric under the rules that the method was given, and feasibility and success under each rule set.

    What ends in `_soft` is counted on raw outputs, before they are decoded, as in the paper's code.
    """
    own = evaluate(answer, tasks[rules])
    values, absent, notes = dict(own.values), dict(own.reasons), list(own.notes)
    theirs = evaluate(answer, tasks[rules], AS_THEY_COUNT, convention="authors")
    values |= {f"{metric}_authors": value for metric, value in theirs.values.items()}
    absent |= {f"{metric}_authors": reason for metric, reason in theirs.reasons.items()}
    for name, task in tasks.items():
        ours = evaluate(answer, task, ["feasibility", "success"])
        soft = evaluate(answer, task, "feasibility", convention="authors")
        for found, end in ((ours, ""), (soft, "_soft")):
            values |= {f"{metric}_{name}{end}": value for metric, value in found.values.items()}
            absent |= {f"{metric}_{name}{end}": reason for metric, reason in found.reasons.items()}
    values["category_combinations"] = float(category_combinations(answer))
    end = f"_{rules}_soft"
    values["feasibility_soft"] = values["feasibility" + end]
    absent |= {"feasibility_soft": absent["feasibility" + end]} if "feasibility" + end in absent else {}
    absent |= {n: f"it is {v}" for n, v in values.items() if n not in absent and not np.isfinite(v)}
    return Figures({n: v for n, v in values.items() if n not in absent}, absent, tuple(notes))


def _with_gap(taken: Figures, answer: Explanation, task: Task) -> Figures:
    """Figures with the one that a benchmark takes more time for."""
    gap = optimality_gap(answer, task, limit=LEGAL_ROWS, rows=COMPARED)
    if not np.isfinite(gap):
        return taken
    others = {name: reason for name, reason in taken.absent.items() if name != "optimality_gap"}
    notes = (*(n for n in taken.notes if not n.startswith("optimality_gap")), *getattr(gap, "notes", ()))
    return Figures(taken.values | {"optimality_gap": float(gap)}, others, notes)


def category_combinations(answer: Explanation) -> int:
    """How many different combinations of those categories that may change all the answers have: 1 is a collapse.

    Immutable categories come from the rows, and a number that trembles by one step makes an answer distinct; neither
    shows that people get answers of their own.
    """
    names = [f.name for f in answer.task.schema if f.is_category and f.mutable]
    return len(answer.answers[names].drop_duplicates()) if names else 0
