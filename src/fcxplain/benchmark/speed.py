"""Speed as ratios from one run: tables against plain numpy and pandas, training and explaining against the bare
network, answers against dice-ml's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ..classifier import train_classifier
from ..datasets import Dataset, load_dataset
from ..errors import DataError, Fault, did_you_mean, some
from ..explainer import FCx
from ..task import Task
from . import explaining, training, versus
from .machine import Machine, this_machine
from .tables import encoding, repairing
from .timing import Timing, cpu_seconds
from .training import Growth, peak_memory, training_growth, training_speed
from .versus import Contender, compared

MEASURED = ("tables", "training", "growth", "explaining", "streaming", "compare")
# Not among the others: the peak of a process tells something of one epoch only if nothing else was done in it.
ALONE = "memory"
UP_TO = 10**6
# What the lines of the picture are called.
EPOCHS, FILES = "train, one epoch", "explain, file to file"


@dataclass(frozen=True)
class Speed:
    """What was measured, on what, and the most memory that the process had."""

    machine: Machine
    timings: tuple[Timing, ...] = ()
    growth: tuple[Growth, ...] = ()
    """Of training, epoch by epoch."""
    streaming: tuple[Growth, ...] = ()
    """Of explaining, file to file."""
    contenders: tuple[Contender, ...] = ()
    """Ways to explain the same rows."""
    peak: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "machine": asdict(self.machine),
            "timings": [asdict(t) | {"rows_per_second": t.rows_per_second, "ratio": t.ratio} for t in self.timings],
            "growth": [asdict(g) | {"seconds_per_row": g.seconds_per_row} for g in self.growth],
            "streaming": [asdict(g) | {"seconds_per_row": g.seconds_per_row} for g in self.streaming],
            "compare": [asdict(c) | {"seconds_per_verified": c.seconds_per_verified} for c in self.contenders],
            "peak": self.peak,
        }

    def draw(self, path: str | Path) -> None:
        """Draw what a row costs against how many there are, as the picture that the name ends in."""
        from .. import plots

        lines = {EPOCHS: self.growth, FILES: self.streaming}
        points = [(name, g.rows, 1e6 * g.seconds_per_row) for name, sizes in lines.items() for g in sizes]
        table = pd.DataFrame(points, columns=["series", "rows", "microseconds"])
        plots.save(plots.cost_per_row(table), path)


def measured(
    data: str,
    what: Iterable[str] = MEASURED,
    *,
    sample: str | None = None,
    repeat: int = 5,
    up_to: int = UP_TO,
    rows: int = versus.ROWS,
    seed: int = 0,
) -> Speed:
    """Measure on a data set; `what` are names from `MEASURED`, or `ALONE`.

    up_to: the most rows of "growth" and "streaming". rows: how many are explained in "compare".
    """
    chosen = _checked(what, up_to)
    machine, loaded = this_machine(), load_dataset(data, seed=seed, sample=sample)
    if ALONE in chosen:
        return Speed(machine, (_one_epoch(loaded, seed),), peak=peak_memory())
    timings = _tables(loaded, repeat, seed) if "tables" in chosen else []
    trained, growth = _training(loaded, chosen, repeat, up_to, seed)
    explained, answering, contenders = _explaining(loaded, chosen, repeat, up_to, rows, seed)
    parts = (*timings, *trained, *explained), tuple(growth), tuple(answering), tuple(contenders)
    return Speed(machine, *parts, peak=peak_memory())


def _checked(what: Iterable[str], up_to: int) -> tuple[str, ...]:
    chosen, known = tuple(what), (*MEASURED, ALONE)
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
    loaded: Dataset, chosen: Sequence[str], repeat: int, up_to: int, seed: int
) -> tuple[list[Timing], list[Growth]]:
    if not {"training", "growth"} & set(chosen):
        return [], []
    run = FCx.as_published("binary", loaded.name, seed).training(_task(loaded, seed), validation=loaded.validation)
    parts, schedule = (run.objective, run.model, run.train), run.schedule
    timings = training_speed(*parts, schedule=schedule, repeat=repeat, seed=seed) if "training" in chosen else []
    sizes = _sizes(training.SIZES, up_to) if "growth" in chosen else []
    return timings, training_growth(*parts, sizes=sizes, schedule=schedule, repeat=min(repeat, 3), seed=seed)


def _explaining(
    loaded: Dataset, chosen: Sequence[str], repeat: int, up_to: int, rows: int, seed: int
) -> tuple[list[Timing], list[Growth], list[Contender]]:
    if not {"explaining", "streaming", "compare"} & set(chosen):
        return [], [], []
    task = _task(loaded, seed)
    fcx = FCx(seed=seed)
    fitting = cpu_seconds(partial(fcx.fit, task, validation=loaded.validation))
    refused = loaded.test[list(task.schema.names)][task.refused(loaded.test)]
    timings = explaining.explaining_speed(fcx, refused, repeat=repeat) if "explaining" in chosen else []
    growth, others = [], []
    if "streaming" in chosen:
        growth = explaining.explaining_growth(fcx, refused, sizes=_sizes(explaining.SIZES, up_to), seed=seed)
    if "compare" in chosen:
        others = compared(fcx, refused, fitting=fitting, rows=rows, repeat=repeat, seed=seed)
    return timings, growth, others


def _one_epoch(loaded: Dataset, seed: int) -> Timing:
    """The whole fit of the published preset, but with one epoch."""
    task = _task(loaded, seed)
    fcx = FCx.as_published("binary", loaded.name, seed).set_params(schedule__epochs=1)
    return Timing("fit, one epoch", int(task.refused(task.train).sum()), cpu_seconds(lambda: fcx.fit(task)))


def _tables(loaded: Dataset, repeat: int, seed: int) -> list[Timing]:
    table = pd.concat([loaded.train, loaded.validation, loaded.test])
    repaired = repairing(table, loaded.schema, loaded.rules["binary"], seed=seed, repeat=repeat)
    return encoding(table, loaded.schema, repeat=repeat) + repaired


def _task(loaded: Dataset, seed: int) -> Task:
    classifier = train_classifier(loaded, kind="paper", seed=seed)
    return Task(loaded.train, classifier, schema=loaded.schema, rules=loaded.rules["binary"], target=loaded.target)
