"""Results brought together: which lines count, which belong beside each other, and mean and deviation over seeds."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from ...datasets import DATASETS
from ..plan import EXPLAINED, METHODS, Job
from ..results import Result

Kind = TypeVar("Kind")
NUMBER = re.compile(r"\d[\d.,]*")


@dataclass(frozen=True)
class Setup:
    """What results in one table share: the data set, the sample of it, the black box, and how many rows at most."""

    data: str
    rows: int | None
    classifier: str
    explained: int | None

    @classmethod
    def of(cls, job: Job) -> Setup:
        """A job's."""
        return cls(job.data, job.rows, job.classifier, job.explained)

    @property
    def title(self) -> str:
        """The data set's name, and whatever is not as usual."""
        parts = [self.data]
        parts += [] if self.rows is None else [f"a sample of {self.rows:,} rows"]
        parts += [] if self.classifier == "paper" else [f"classifier {self.classifier}"]
        if self.explained != EXPLAINED:
            parts.append("every refused row explained" if self.explained is None else f"{self.explained:,} explained")
        return ", ".join(parts)

    @property
    def slug(self) -> str:
        """The same for file names."""
        parts = [self.data]
        parts += [] if self.rows is None else [f"rows{self.rows}"]
        parts += [] if self.classifier == "paper" else [self.classifier]
        parts += [] if self.explained == EXPLAINED else [f"explained{self.explained or 'all'}"]
        return "-".join(parts)


@dataclass(frozen=True)
class Summary:
    """One figure over seeds."""

    values: tuple[float, ...]
    of: int
    """Runs that were made; those without a value failed, or have a reason for its absence."""

    @property
    def mean(self) -> float | None:
        """The mean of what there is."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """The sample's standard deviation; None with fewer than two values."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


def method_title(method: str, rules: str) -> str:
    """A method's name, with the rules if it is run with more than one set of them."""
    return method if method in METHODS and METHODS[method].rules == (rules,) else f"{method}, {rules}"


def seeds_of(results: Iterable[Result]) -> str:
    """The seeds in words."""
    seeds = sorted({result.job.seed for result in results})
    return f"Seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def current(results: Iterable[Result]) -> list[Result]:
    """Of each job the newest line only: parameters may have changed since an older one. In a stable order."""
    newest: dict[Job, Result] = {result.job: result for result in results}
    return sorted(newest.values(), key=lambda result: order(result.job))


def order(job: Job) -> tuple[object, ...]:
    """Where a job stands: data sets and methods as they are registered, those that are not after them by name."""
    size = (job.rows is not None, job.rows or 0, job.classifier != "paper", job.classifier)
    limit = (job.explained != EXPLAINED, job.explained or 0)
    return (place(job.data, DATASETS), *size, *limit, place(job.method, METHODS), job.rules, job.study, job.seed)


def place(name: str, known: Iterable[str]) -> tuple[int, str]:
    """Where a name stands: as it is registered, and after all of these by name."""
    listed = list(known)
    return (listed.index(name) if name in listed else len(listed), name)


def grouped(results: Iterable[Result], by: Callable[[Result], Kind]) -> dict[Kind, list[Result]]:
    """Results by what they share, in the order in which they come."""
    groups: dict[Kind, list[Result]] = {}
    for result in results:
        groups.setdefault(by(result), []).append(result)
    return groups


def summarised(results: Iterable[Result], figure: str) -> Summary:
    """One figure of some results."""
    results = list(results)
    found = [value_of(result, figure) for result in results]
    return Summary(tuple(value for value in found if value is not None), len(results))


def value_of(result: Result, figure: str) -> float | None:
    """A figure of a result, or what it took."""
    fitting, explaining = result.fitting, result.explaining
    if figure == "seconds_per_epoch":
        return None if fitting is None else fitting.seconds_per_epoch
    if figure == "cpu_seconds":
        return None if fitting is None else fitting.cpu_seconds
    if figure == "rows_per_cpu_second":
        return explaining.rows / explaining.cpu_seconds if explaining and explaining.cpu_seconds else None
    return result.figures.get(figure)


def noted(notes: Iterable[tuple[str, ...]]) -> list[str]:
    """The notes of some runs, each once; those that only differ in their numbers count as one."""
    runs = list(notes)
    said: dict[str, list[tuple[int, str]]] = {}
    for run, of_run in enumerate(runs):
        for note in of_run:
            said.setdefault(NUMBER.sub("#", note), []).append((run, note))
    return [_told(found, len(runs)) for found in said.values()]


def _told(found: list[tuple[int, str]], runs: int) -> str:
    where, texts = {run for run, _ in found}, list(dict.fromkeys(note for _, note in found))
    more = [] if len(where) == runs else [f"in {len(where)} of {runs} runs"]
    more += ["other numbers in other runs"] if len(texts) > 1 else []
    return texts[0] + (f" ({'; '.join(more)})" if more else "")
