"""Speed as ratios from one run: tables compared with plain numpy and pandas, training and explaining with the bare
network, answers with dice-ml's, models that are read with models queried on every candidate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ...classifier import train_classifier
from ...datasets import Dataset, load_dataset
from ...errors import DataError, Fault, did_you_mean, some
from ...explainer import FCx
from ...progress import OnProgress, Progress, no_progress
from ...task import Task
from ..report import report
from ..report.markdown import table
from . import dice, explaining, large, models, passes, training
from .dice import Contender, compared
from .large import LargeRun
from .models import BudgetPoint, Lines, ModelSpeed
from .passes import OnePass
from .tables import encoding, repairing
from .timing import Machine, Timing, cpu_seconds, this_machine
from .training import Growth, peak_memory, training_growth, training_speed

MEASURED = ("tables", "training", "growth", "explaining", "streaming", "compare", "models", "budget", "quick")
# Measured alone: the peak memory of a process reflects one epoch only if the process did nothing else.
ALONE = "memory"
# Also measured alone, since it takes minutes to hours.
LARGE = "large"
# Measurements that need a prepared training, and those that need a fitted explainer.
TRAINS, EXPLAINS = {"training", "growth"}, {"explaining", "streaming", "compare", LARGE}
UP_TO = 10**6
# Names of the lines in the picture.
EPOCHS, FILES = "train, one epoch", "explain, file to file"


@dataclass(frozen=True)
class Speed:
    """All measurements, the machine, and the peak memory of the process."""

    machine: Machine
    timings: tuple[Timing, ...] = ()
    growth: tuple[Growth, ...] = ()
    """Measurements of training, one per number of rows."""
    streaming: tuple[Growth, ...] = ()
    """Measurements of explaining, file to file."""
    contenders: tuple[Contender, ...] = ()
    """Methods that explain the same rows."""
    models: tuple[ModelSpeed, ...] = ()
    """Models of several kinds, queried in two modes."""
    budgets: tuple[BudgetPoint, ...] = ()
    """Answers by the budget of queries."""
    passes: tuple[OnePass, ...] = ()
    """One pass compared with the search."""
    large: tuple[LargeRun, ...] = ()
    """One process compared with a local cluster."""
    peak: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""

        def lines(things: Sequence[Any], *derived: str) -> list[dict[str, Any]]:
            return [asdict(one) | {name: getattr(one, name) for name in derived} for one in things]

        return {
            "machine": asdict(self.machine),
            "timings": lines(self.timings, "rows_per_second", "ratio"),
            "growth": lines(self.growth, "seconds_per_row"),
            "streaming": lines(self.streaming, "seconds_per_row"),
            "compare": lines(self.contenders, "seconds_per_verified"),
            "models": lines(self.models, "rows_per_second"),
            "budget": lines(self.budgets),
            "quick": lines(self.passes, "rows_per_second"),
            LARGE: lines(self.large, "seconds_per_row"),
            "peak": self.peak,
        }

    def tables(self) -> dict[str, Lines]:
        """The tables of models, budgets and one pass, by name, as texts; the first line is the header."""
        found = {"models": models.speed_lines(self.models), "budget": models.budget_lines(self.budgets)}
        found |= {"quick": passes.pass_lines(self.passes), LARGE: large.large_lines(self.large)}
        return {name: lines for name, lines in found.items() if len(lines) > 1}

    def fill(self, page: str | Path) -> None:
        """Put the measured tables in their places on a page, and leave others as they are."""
        words = {"models": 2, "budget": 0, "quick": 4, LARGE: 3}
        found = {name: table(first, lines, words[name]) for name, (first, *lines) in self.tables().items()}
        report.fill(Path(page), found, partly=True)

    def draw(self, path: str | Path) -> None:
        """Draw the cost per row against the number of rows; the file name's ending sets the format."""
        from ... import plots

        lines = {EPOCHS: self.growth, FILES: self.streaming}
        if not any(lines.values()):
            raise DataError("there is nothing to draw. Measure several numbers of rows first: growth or streaming.")
        points = [(name, g.rows, 1e6 * g.seconds_per_row) for name, sizes in lines.items() for g in sizes]
        table = pd.DataFrame(points, columns=["series", "rows", "microseconds"])
        plots.save(plots.cost_per_row(table), path)

    def draw_budgets(self, path: str | Path) -> None:
        """Draw verified rows and the changes of their answers against the budget."""
        from ... import plots

        if not self.budgets:
            raise DataError("there is no curve to draw. Measure budget first.")
        points = [
            (point.budget, measure, point.series, value, None)
            for point in self.budgets
            for measure, value in (("rows verified, per cent", point.verified), ("features changed", point.changes))
        ]
        table = pd.DataFrame(points, columns=["setting", "measure", "series", "mean", "deviation"])
        plots.save(plots.study(table, x="model queries per row, at most", log_x=True), path)


def measured(
    data: str,
    what: Iterable[str] = MEASURED,
    *,
    sample: str | None = None,
    repeat: int = 5,
    up_to: int = UP_TO,
    rows: int | None = None,
    seed: int = 0,
    on_progress: OnProgress = no_progress,
) -> Speed:
    """Measure on a data set; `what` are names from `MEASURED`, `LARGE`, or `ALONE`.

    `up_to` is the most rows of "growth", "streaming" and "large". `rows` is the number of rows explained in "compare"
    (30 by default), "models" and "budget" (300), and in "quick" (4,000). `on_progress` is called when a measurement
    begins, with its name as the stage.
    """
    chosen = _checked(what, up_to)
    tell = _Count(jobs(chosen, up_to), on_progress)
    machine, loaded = this_machine(), load_dataset(data, seed=seed, sample=sample)
    if ALONE in chosen:
        tell(Progress("fit, one epoch", 0))
        # The whole fit of the published preset, with one epoch only.
        task, fcx = _task(loaded, seed), FCx.as_published("binary", loaded.name, seed).set_params(schedule__epochs=1)
        rows_trained = int(task.refused(task.train).sum())
        timing = Timing("fit, one epoch", rows_trained, cpu_seconds(partial(fcx.fit, task)))
        return Speed(machine, (timing,), peak=peak_memory())
    timings = _tables(loaded, repeat, seed, tell) if "tables" in chosen else []
    trained, growth = _training(loaded, chosen, repeat, up_to, seed, tell)
    explained, answering, contenders, runs = _explaining(loaded, chosen, repeat, up_to, rows or dice.ROWS, seed, tell)
    how: dict[str, Any] = {"rows": rows or models.ROWS, "seed": seed, "on_progress": tell}
    by_model = models.models_speed(loaded, repeat=repeat, **how) if "models" in chosen else []
    budgets = models.budget_curves(loaded, **how) if "budget" in chosen else []
    how |= {"rows": rows or passes.ROWS, "repeat": repeat}
    quick = passes.one_pass(loaded, **how) if "quick" in chosen else []
    timings = [*timings, *trained, *explained]
    lines = tuple(timings), tuple(growth), tuple(answering), tuple(contenders), tuple(by_model), tuple(budgets)
    return Speed(machine, *lines, tuple(quick), tuple(runs), peak=peak_memory())


def jobs(chosen: Sequence[str], up_to: int) -> int:
    """The number of measurements; the preparation of some of them counts as one."""
    if ALONE in chosen:
        return 1
    parts = {
        "tables": 2,
        "training": 1,
        "growth": len(_sizes(training.SIZES, up_to)),
        "explaining": len(explaining.JOBS),
        "streaming": len(_sizes(explaining.SIZES, up_to)),
        "compare": len(dice.NAMES),
        "models": len(models.MODELS),
        "budget": len(models.CURVES),
        "quick": len(passes.JOBS),
        LARGE: large.jobs(up_to),
    }
    ready = sum(bool(group & set(chosen)) for group in (TRAINS, EXPLAINS))
    return ready + sum(parts[name] for name in set(chosen))


class _Count:
    """Counts measurements that have begun, and reports them."""

    def __init__(self, total: int, on_progress: OnProgress) -> None:
        self.begun, self.total, self.on_progress = 0, total, on_progress

    def __call__(self, event: Progress) -> None:
        self.on_progress(replace(event, done=self.begun, total=self.total))
        self.begun += 1


def _checked(what: Iterable[str], up_to: int) -> tuple[str, ...]:
    chosen, known = tuple(what), (*MEASURED, LARGE, ALONE)
    remedy = f"There are {some(known)}."
    faults = [Fault(f"{w!r}", "cannot be measured", did_you_mean(w, known) or remedy) for w in chosen if w not in known]
    if not _sizes(explaining.SIZES, up_to):
        least = min(explaining.SIZES)
        faults.append(Fault("up_to", f"is {up_to:,}, and the smallest size is {least:,}", f"Give {least:,} or more."))
    if faults:
        raise DataError("speed", faults)
    return chosen


def _sizes(sizes: Sequence[int], up_to: int) -> list[int]:
    return [size for size in sizes if size <= up_to]


def _training(
    loaded: Dataset, chosen: Sequence[str], repeat: int, up_to: int, seed: int, tell: OnProgress
) -> tuple[list[Timing], list[Growth]]:
    if not TRAINS & set(chosen):
        return [], []
    tell(Progress("preparing the training", 0))
    run = FCx.as_published("binary", loaded.name, seed).training(_task(loaded, seed), validation=loaded.validation)
    parts, schedule = (run.objective, run.model, run.train), run.schedule
    how: dict[str, Any] = {"schedule": schedule, "seed": seed}
    timings = []
    if "training" in chosen:
        tell(Progress("training, term by term", 0))
        timings = training_speed(*parts, repeat=repeat, **how)
    sizes = _sizes(training.SIZES, up_to) if "growth" in chosen else []
    return timings, training_growth(*parts, sizes=sizes, repeat=min(repeat, 3), on_progress=tell, **how)


def _explaining(
    loaded: Dataset, chosen: Sequence[str], repeat: int, up_to: int, rows: int, seed: int, tell: OnProgress
) -> tuple[list[Timing], list[Growth], list[Contender], list[LargeRun]]:
    if not EXPLAINS & set(chosen):
        return [], [], [], []
    tell(Progress("fitting", 0))
    task = _task(loaded, seed)
    fcx = FCx(seed=seed)
    fitting = cpu_seconds(partial(fcx.fit, task, validation=loaded.validation))
    refused = loaded.test[list(task.schema.names)][task.refused(loaded.test)]
    timings, growth, others, sizes = [], [], [], _sizes(explaining.SIZES, up_to)
    if "explaining" in chosen:
        timings = explaining.explaining_speed(fcx, refused, repeat=repeat, on_progress=tell)
    if "streaming" in chosen:
        growth = explaining.explaining_growth(fcx, refused, sizes=sizes, seed=seed, on_progress=tell)
    if "compare" in chosen:
        others = compared(fcx, refused, fitting=fitting, rows=rows, repeat=repeat, seed=seed, on_progress=tell)
    runs = large.large_runs(fcx, refused, up_to=up_to, seed=seed, on_progress=tell) if LARGE in chosen else []
    return timings, growth, others, runs


def _tables(loaded: Dataset, repeat: int, seed: int, tell: OnProgress) -> list[Timing]:
    table = pd.concat([loaded.train, loaded.validation, loaded.test])
    tell(Progress("encoding", 0))
    encoded = encoding(table, loaded.schema, repeat=repeat)
    tell(Progress("repairing", 0))
    return encoded + repairing(table, loaded.schema, loaded.rules["binary"], seed=seed, repeat=repeat)


def _task(loaded: Dataset, seed: int) -> Task:
    classifier = train_classifier(loaded, kind="paper", seed=seed)
    return Task(loaded.train, classifier, schema=loaded.schema, rules=loaded.rules["binary"], target=loaded.target)
