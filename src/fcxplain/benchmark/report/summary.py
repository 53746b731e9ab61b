"""Summaries of results: which lines are current, which are comparable, and mean and deviation over seeds."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from ...datasets import DATASETS
from ..plan import EXPLAINED, METHODS, TUNED, Job
from ..results import Result
from . import published
from .markdown import Measure, as_csv, number, span

Thing = TypeVar("Thing")
Kind = TypeVar("Kind")
NUMBER = re.compile(r"\d[\d.,]*")


@dataclass(frozen=True)
class Setup:
    """What the results of one table share: the data set, its sample, the black box, and the limit of rows explained."""

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
        """The data set's name, and every setting that is not the default."""
        rows = f", a sample of {self.rows:,} rows" if self.rows is not None else ""
        classifier = f", classifier {self.classifier}" if self.classifier != "paper" else ""
        limit = "every refused row" if self.explained is None else f"{self.explained:,}"
        return f"{self.data}{rows}{classifier}" + (f", {limit} explained" if self.explained != EXPLAINED else "")

    @property
    def slug(self) -> str:
        """The same for file names."""
        rows = f"-rows{self.rows}" if self.rows is not None else ""
        classifier = f"-{self.classifier}" if self.classifier != "paper" else ""
        limit = f"-explained{self.explained or 'all'}" if self.explained != EXPLAINED else ""
        return f"{self.data}{rows}{classifier}{limit}"

    @property
    def picture(self) -> str:
        """The file stem of the picture that compares methods."""
        return f"methods-{self.slug}"


@dataclass(frozen=True)
class Summary:
    """One figure over seeds, and the paper's."""

    values: tuple[float, ...]
    of: int
    """The number of runs; those without a value failed, or have a reason for its absence."""
    paper: float | None = None

    @property
    def mean(self) -> float | None:
        """The mean of the values; None if there are none."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation; None with fewer than two values."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, if both exist."""
        return None if self.mean is None or self.paper is None else self.mean - self.paper

    def spread(self, digits: int = 2) -> str:
        """Mean and deviation as text, with the number of runs that have a value if some have none."""
        if self.mean is None:
            return "none"
        deviation = "" if self.deviation is None else f" ± {number(self.deviation, digits=digits)}"
        some = "" if len(self.values) == self.of else f" ({len(self.values)} of {self.of} runs)"
        return f"{number(self.mean, digits=digits)}{deviation}{some}"

    def cells(self, digits: int = 2) -> tuple[str, str, str]:
        """The paper's, ours, and the difference."""
        difference = number(self.difference, digits=digits, sign="+")
        return number(self.paper, digits=digits), self.spread(digits), difference


@dataclass(frozen=True)
class Runs:
    """The runs of a method with one rule set in one setup, one result per seed; `point` is the point of a study."""

    setup: Setup
    method: str
    rules: str
    results: tuple[Result, ...]
    study: str = ""
    point: str = ""
    given: str = "own"

    @property
    def label(self) -> str:
        """The method's name, and whether its settings were tuned."""
        return f"{self.method}, {TUNED}" if self.point == TUNED and not self.study else self.method

    @property
    def title(self) -> str:
        """The method's name, with the rules if it is run with more than one rule set."""
        known = METHODS.get(self.method)
        return self.label if known and known.rules == (self.rules,) else f"{self.label}, {self.rules}"

    def of(self, figure: str) -> Summary:
        """One figure over seeds, with the paper's at a point of its study of loss components."""
        found = [value_of(result, figure) for result in self.results]
        metric = {"feasibility_soft": "feasibility_binary"}.get(figure, figure)
        in_paper = self.study == "components" and self.method in ("fcx-b", "fcx-b-authors")
        paper = published.components(self.setup.data, self.point, metric) if in_paper else None
        return Summary(tuple(value for value in found if value is not None), len(found), paper)

    def mean(self, figure: str) -> float | None:
        """The mean of a figure over seeds."""
        return self.of(figure).mean

    def compared(self, measure: Measure) -> Summary:
        """A figure over seeds, with that of the paper's tables."""
        own = self.of(measure.figure)
        return Summary(own.values, own.of, self.published(self.method, measure.paper))

    def published(self, method: str, metric: str) -> float | None:
        """The figure in the paper's tables for a method on this data set, under these rules."""
        metric = f"feasibility_{self.rules}" if metric == "feasibility" else metric
        return published.figure(self.setup.data, method.removesuffix("-authors"), metric)


CSV_HEAD = (
    *("study", "data", "rows", "classifier", "explained", "method", "rules", "given", "point", "figure"),
    *("paper", "ours", "deviation", "runs", "runs_with_a_value", "difference"),
)


def figures_csv(lines: Iterable[tuple[Runs, str, Summary]], *, of_studies: bool) -> str:
    """Every figure on a line, with all digits."""
    head = [name for name in CSV_HEAD if of_studies or name != "study"]
    records = (
        vars(run)
        | vars(run.setup)
        | {"figure": figure, "paper": found.paper, "ours": found.mean, "deviation": found.deviation}
        | {"runs": found.of, "runs_with_a_value": len(found.values), "difference": found.difference}
        for run, figure, found in lines
    )
    return as_csv(head, records)


def sizes_of(results: list[Result]) -> str:
    """The seeds and numbers of rows behind the figures, in words."""
    seeds = seeds_of(results)
    done = [r for r in results if r.sizes and r.explaining and r.black_box]
    if not done:
        return f"{seeds}; every run failed.\n"
    accuracy = statistics.fmean(r.black_box.accuracy for r in done if r.black_box)
    trained = span(r.fitting.rows for r in done if r.fitting)
    explained = span(r.explaining.rows for r in done if r.explaining)
    every, train, test, refused = (
        span(getattr(r.sizes, part) for r in done) for part in ("rows", "train", "test", "refused")
    )
    return (
        f"{seeds}. {every} rows: {train} for training, of which the methods use {trained} refused ones, and "
        f"{test} for testing. The black box is right on {number(accuracy, digits=1)} % of the test rows and refuses "
        f"{refused}; {'all of them' if explained == refused else explained} were explained.\n"
    )


def seeds_of(results: Iterable[Result]) -> str:
    """The seeds in words."""
    seeds = sorted({result.job.seed for result in results})
    return f"Seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def current(results: Iterable[Result]) -> list[Result]:
    """The latest line of each job, in a stable order; parameters may have changed since an older one."""
    newest: dict[Job, Result] = {result.job: result for result in results}
    return sorted(newest.values(), key=lambda result: order(result.job))


def order(job: Job) -> tuple[object, ...]:
    """Sort key of a job: data sets and methods in the order of their registries, then unregistered ones by name."""
    size = (job.rows is not None, job.rows or 0, job.classifier != "paper", job.classifier)
    limit = (job.explained != EXPLAINED, job.explained or 0)
    named = (place(job.method, METHODS), job.point, job.rules, job.given, job.study, job.seed)
    return (place(job.data, DATASETS), *size, *limit, *named)


def place(name: str, known: Iterable[str]) -> tuple[int, str]:
    """Sort key of a name: the order of the registry, then unregistered names alphabetically."""
    listed = list(known)
    return (listed.index(name) if name in listed else len(listed), name)


def grouped(things: Iterable[Thing], by: Callable[[Thing], Kind]) -> dict[Kind, list[Thing]]:
    """Group items by a key, in the order of their first occurrence."""
    groups: dict[Kind, list[Thing]] = {}
    for thing in things:
        groups.setdefault(by(thing), []).append(thing)
    return groups


def runs_of(results: Iterable[Result], study: str = "") -> list[Runs]:
    """The results of a study, or of no study, by data set, method and point."""
    own = (result for result in results if result.job.study == study)
    groups = grouped(own, lambda r: (Setup.of(r.job), r.job.method, r.job.rules, r.job.point, r.job.given))
    return [
        Runs(setup, method, rules, tuple(found), study, point, given)
        for (setup, method, rules, point, given), found in groups.items()
    ]


def value_of(result: Result, figure: str) -> float | None:
    """A figure of a result, or a figure of its effort."""
    fitting, explaining = result.fitting, result.explaining
    if figure in ("seconds_per_epoch", "cpu_seconds"):
        return None if fitting is None else getattr(fitting, figure)
    if figure == "rows_per_cpu_second":
        return explaining.rows / explaining.cpu_seconds if explaining and explaining.cpu_seconds else None
    return result.figures.get(figure)


def noted(notes: Iterable[tuple[str, ...]]) -> list[str]:
    """The notes of some runs, each once; notes that differ only in their numbers count as one."""
    runs = list(notes)
    pairs = [(run, note) for run, of_run in enumerate(runs) for note in of_run]
    lines = []
    for found in grouped(pairs, lambda pair: NUMBER.sub("#", pair[1])).values():
        where, texts = {run for run, _ in found}, list(dict.fromkeys(note for _, note in found))
        more = [] if len(where) == len(runs) else [f"in {len(where)} of {len(runs)} runs"]
        more += ["other numbers in other runs"] if len(texts) > 1 else []
        lines.append(texts[0] + (f" ({'; '.join(more)})" if more else ""))
    return lines
