"""Speed as ratios from one run: tables against plain numpy and pandas, training and explaining against the bare
network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from ..classifier import train_classifier
from ..datasets import Dataset, load_dataset
from ..errors import DataError, Fault, did_you_mean, some
from ..explainer import FCx
from ..task import Task
from .explaining import explaining_growth, explaining_speed
from .tables import encoding, repairing
from .timing import Timing, cpu_seconds
from .training import Growth, peak_memory, training_growth, training_speed

MEASURED = ("tables", "training", "growth", "explaining", "streaming")
# Not among the others: the peak of a process tells something of one epoch only if nothing else was done in it.
ALONE = "memory"


@dataclass(frozen=True)
class Speed:
    """What was measured, and the most memory that the process had."""

    timings: tuple[Timing, ...]
    growth: tuple[Growth, ...]
    """Of training, epoch by epoch."""
    streaming: tuple[Growth, ...]
    """Of explaining, file to file."""
    peak: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "timings": [asdict(t) | {"rows_per_second": t.rows_per_second, "ratio": t.ratio} for t in self.timings],
            "growth": [asdict(g) | {"seconds_per_row": g.seconds_per_row} for g in self.growth],
            "streaming": [asdict(g) | {"seconds_per_row": g.seconds_per_row} for g in self.streaming],
            "peak": self.peak,
        }


def measured(
    data: str, what: Iterable[str] = MEASURED, *, sample: str | None = None, repeat: int = 5, seed: int = 0
) -> Speed:
    """Measure on a data set; `what` are names from `MEASURED`, or `ALONE`."""
    chosen, known = tuple(what), (*MEASURED, ALONE)
    strange = [w for w in chosen if w not in known]
    if strange:
        remedy = f"There are {some(known)}."
        faults = [Fault(f"{w!r}", "cannot be measured", did_you_mean(w, known) or remedy) for w in strange]
        raise DataError("speed", faults)
    loaded = load_dataset(data, seed=seed, sample=sample)
    if ALONE in chosen:
        return Speed((_one_epoch(loaded, seed),), (), (), peak_memory())
    timings: list[Timing] = _tables(loaded, repeat, seed) if "tables" in chosen else []
    growth: list[Growth] = []
    if {"training", "growth"} & set(chosen):
        task = _task(loaded, seed)
        run = FCx.as_published("binary", loaded.name, seed).training(task, validation=loaded.validation)
        parts = (run.objective, run.model, run.train)
        if "training" in chosen:
            timings += training_speed(*parts, schedule=run.schedule, repeat=repeat, seed=seed)
        if "growth" in chosen:
            growth = training_growth(*parts, schedule=run.schedule, repeat=min(repeat, 3), seed=seed)
    answering: list[Growth] = []
    if {"explaining", "streaming"} & set(chosen):
        task = _task(loaded, seed)
        fcx = FCx(seed=seed).fit(task, validation=loaded.validation)
        refused = loaded.test[list(task.schema.names)][task.refused(loaded.test)]
        timings += explaining_speed(fcx, refused, repeat=repeat) if "explaining" in chosen else []
        answering = explaining_growth(fcx, refused, seed=seed) if "streaming" in chosen else []
    return Speed(tuple(timings), tuple(growth), tuple(answering), peak_memory())


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
