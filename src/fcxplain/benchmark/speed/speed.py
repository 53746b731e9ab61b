"""Speed as ratios from one run: tables compared with plain numpy and pandas, training and explaining with the bare
network, answers with dice-ml's, models that are read with models queried on every candidate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd

from ...classifier import train_classifier
from ...datasets import Dataset, load_dataset
from ...errors import DataError, Fault, did_you_mean, some
from ...explainer import FCx
from ...generator.training import Training
from ...progress import OnProgress, Progress, no_progress
from ...task import Task
from ..report import report
from ..report.markdown import table
from . import dice, explaining, models, training
from .dice import Contender
from .explaining import LargeRun
from .models import BudgetPoint, ModelSpeed, OnePass
from .tables import encoding, repairing
from .timing import Growth, Machine, Tell, Timing, cpu_seconds, peak_memory, this_machine

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
# The measurements that fill tables of a page: their lines after a header, and how many of the columns are words.
TABLES: dict[str, tuple[Callable[[Any], Iterator[tuple[str, ...]]], int]] = {
    "models": (models.speed_lines, 2),
    "budget": (models.budget_lines, 0),
    "quick": (models.pass_lines, 4),
    LARGE: (explaining.large_lines, 3),
}
# Figures that follow from others, for those lines that have them.
DERIVED = ("rows_per_second", "ratio", "seconds_per_row", "seconds_per_verified")


@dataclass(frozen=True)
class Speed:
    """All measurements by their names, the machine, and the peak memory of the process."""

    machine: Machine
    timings: tuple[Timing, ...] = ()
    """Of tables, training and explaining."""
    growth: tuple[Growth, ...] = ()
    streaming: tuple[Growth, ...] = ()
    compare: tuple[Contender, ...] = ()
    models: tuple[ModelSpeed, ...] = ()
    budget: tuple[BudgetPoint, ...] = ()
    quick: tuple[OnePass, ...] = ()
    large: tuple[LargeRun, ...] = ()
    peak: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        lines = {name: [_plain(one) for one in found] for name, found in vars(self).items() if isinstance(found, tuple)}
        return {"machine": asdict(self.machine), **lines, "peak": self.peak}

    def tables(self) -> dict[str, list[tuple[str, ...]]]:
        """The tables of models, budgets, one pass and large runs, by name, as texts; the first line is the header."""
        return {name: list(lines(getattr(self, name))) for name, (lines, _) in TABLES.items() if getattr(self, name)}

    def fill(self, page: str | Path) -> None:
        """Put the measured tables in their places on a page, and leave others as they are."""
        found = {name: table(head, lines, TABLES[name][1]) for name, (head, *lines) in self.tables().items()}
        report.fill(Path(page), found, partly=True)

    def draw(self, path: str | Path) -> None:
        """Draw the cost per row against the number of rows; the file name's ending sets the format."""
        from ... import plots

        lines = {EPOCHS: self.growth, FILES: self.streaming}
        if not any(lines.values()):
            raise DataError("there is nothing to draw. Measure several numbers of rows first: growth or streaming.")
        points = [(name, g.rows, 1e6 * g.seconds_per_row) for name, sizes in lines.items() for g in sizes]
        plots.save(plots.cost_per_row(pd.DataFrame(points, columns=["series", "rows", "microseconds"])), path)

    def draw_budgets(self, path: str | Path) -> None:
        """Draw verified rows and the changes of their answers against the budget."""
        from ... import plots

        if not self.budget:
            raise DataError("there is no curve to draw. Measure budget first.")
        points = [
            (point.budget, measure, point.series, value, None)
            for point in self.budget
            for measure, value in (("rows verified, per cent", point.verified), ("features changed", point.changes))
        ]
        table = pd.DataFrame(points, columns=["setting", "measure", "series", "mean", "deviation"])
        plots.save(plots.study(table, x="model queries per row, at most", log_x=True), path)


def _plain(line: Any) -> dict[str, Any]:
    return asdict(line) | {name: getattr(line, name) for name in DERIVED if hasattr(line, name)}


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
    chosen, begun = _checked(what, up_to), list[str]()
    total = jobs(chosen, up_to)

    def tell(name: str) -> None:
        on_progress(Progress(name, len(begun), total))
        begun.append(name)

    machine = this_machine()
    subject = _Subject(load_dataset(data, seed=seed, sample=sample), repeat, up_to, rows, seed, tell)
    if ALONE in chosen:
        return Speed(machine, (subject.one_epoch(),), peak=peak_memory())
    found = {name: tuple(measure(subject)) for name, measure in MEASURES.items() if name in chosen}
    timings = [timing for name in ("tables", "training", "explaining") for timing in found.pop(name, ())]
    return Speed(machine, tuple(timings), **found, peak=peak_memory())


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
        "quick": len(models.PASSES),
        LARGE: explaining.large_jobs(up_to),
    }
    ready = sum(bool(group & set(chosen)) for group in (TRAINS, EXPLAINS))
    return ready + sum(parts[name] for name in set(chosen))


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


@dataclass
class _Subject:
    """A data set to measure on, and what several measurements share: a prepared training, and a fitted explainer."""

    data: Dataset
    repeat: int
    up_to: int
    rows: int | None
    seed: int
    tell: Tell

    @cached_property
    def run(self) -> Training:
        """A training of FCx as published."""
        self.tell("preparing the training")
        return self._published().training(self._task(), validation=self.data.validation)

    @cached_property
    def fitted(self) -> tuple[FCx, pd.DataFrame, float]:
        """A fitted explainer, the refused test rows, and the CPU seconds of its fit."""
        self.tell("fitting")
        task, fcx = self._task(), FCx(seed=self.seed)
        seconds = cpu_seconds(partial(fcx.fit, task, validation=self.data.validation))
        return fcx, self.data.test[list(task.schema.names)][task.refused(self.data.test)], seconds

    def _published(self) -> FCx:
        return FCx.as_published("binary", self.data.name, self.seed)

    def _task(self) -> Task:
        data, classifier = self.data, train_classifier(self.data, kind="paper", seed=self.seed)
        return Task(data.train, classifier, schema=data.schema, rules=data.rules["binary"], target=data.target)

    def one_epoch(self) -> Timing:
        """The whole fit of the published preset, with one epoch only."""
        self.tell("fit, one epoch")
        task, fcx = self._task(), self._published().set_params(schedule__epochs=1)
        return Timing("fit, one epoch", int(task.refused(task.train).sum()), cpu_seconds(partial(fcx.fit, task)))

    def tables(self) -> list[Timing]:
        """All rows encoded, decoded and repaired."""
        data, table = self.data, pd.concat([self.data.train, self.data.validation, self.data.test])
        self.tell("encoding")
        encoded = encoding(table, data.schema, repeat=self.repeat)
        self.tell("repairing")
        return encoded + repairing(table, data.schema, data.rules["binary"], seed=self.seed, repeat=self.repeat)

    def training(self) -> list[Timing]:
        """An epoch, term by term."""
        run = self.run
        self.tell("training, term by term")
        return training.training_speed(run, repeat=self.repeat, seed=self.seed)

    def growth(self) -> list[Growth]:
        """An epoch on more and more rows."""
        sizes, repeat = _sizes(training.SIZES, self.up_to), min(self.repeat, 3)
        return training.training_growth(self.run, sizes, repeat=repeat, seed=self.seed, tell=self.tell)

    def compare(self) -> list[Contender]:
        """The same rows by each method."""
        fcx, refused, fitting = self.fitted
        how: dict[str, Any] = {"repeat": self.repeat, "seed": self.seed, "tell": self.tell}
        return dice.compared(fcx, refused, fitting=fitting, rows=self.rows or dice.ROWS, **how)


# In the order in which they are measured.
MEASURES: dict[str, Callable[[_Subject], Sequence[Any]]] = {
    "tables": _Subject.tables,
    "training": _Subject.training,
    "growth": _Subject.growth,
    "explaining": lambda s: explaining.explaining_speed(*s.fitted[:2], repeat=s.repeat, tell=s.tell),
    "streaming": lambda s: explaining.explaining_growth(
        *s.fitted[:2], _sizes(explaining.SIZES, s.up_to), seed=s.seed, tell=s.tell
    ),
    "compare": _Subject.compare,
    LARGE: lambda s: explaining.large_runs(*s.fitted[:2], up_to=s.up_to, seed=s.seed, tell=s.tell),
    "models": lambda s: models.models_speed(
        s.data, rows=s.rows or models.ROWS, repeat=s.repeat, seed=s.seed, tell=s.tell
    ),
    "budget": lambda s: models.budget_curves(s.data, rows=s.rows or models.ROWS, seed=s.seed, tell=s.tell),
    "quick": lambda s: models.one_pass(
        s.data, rows=s.rows or models.PASS_ROWS, repeat=s.repeat, seed=s.seed, tell=s.tell
    ),
}
