"""The six studies as tables: one line per point, with the paper's value if it gives one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...datasets import DATASETS
from ...datasets.base import PublishedSettings
from ...training_loop import History
from ..results import Result
from ..studies import STUDIES, Study
from . import published
from .markdown import legend, measures, number, span, table
from .summary import Runs, Setup, Summary, figures_csv, grouped, runs_of, seeds_of

MEASURES = measures("ablation")
SECONDS = "seconds_per_epoch"
CURVES = ("seed", "epochs", "training loss, first epoch", "last", "validation loss, first epoch", "best", "last")


@dataclass(frozen=True)
class StudyRuns:
    """A study of one method on one data set: its points in the study's order, and the paper's settings."""

    study: Study
    setup: Setup
    points: tuple[Runs, ...]
    known: PublishedSettings | None

    @property
    def chosen(self) -> tuple[str, ...]:
        """The points that match the paper's final choice."""
        return self.study.chosen(self.known) if self.known else ()

    @property
    def results(self) -> list[Result]:
        """The results of all points."""
        return [result for point in self.points for result in point.results]

    @property
    def slug(self) -> str:
        """The name of this study's picture files."""
        method = self.points[0].title.replace(", ", "-").replace(":", ".")
        return f"{self.study.name}-{self.setup.slug}-{method}"

    @property
    def title(self) -> str:
        """The data set and the method."""
        return f"{self.setup.title}, {self.points[0].title}"


def studies_of(results: Iterable[Result]) -> list[StudyRuns]:
    """The results of studies, in the order of `STUDIES`."""
    results, found = list(results), []
    for study in STUDIES.values():
        groups = grouped(runs_of(results, study.name), lambda run: (run.setup, run.method, run.rules))
        for (setup, _, rules), points in groups.items():
            known = DATASETS[setup.data].published.get(rules) if setup.data in DATASETS else None
            tried = list(study.points(known)) if known else []
            points.sort(key=lambda run: (tried.index(run.point) if run.point in tried else len(tried), run.point))
            found.append(StudyRuns(study, setup, tuple(points), known))
    return found


def page(runs: Sequence[StudyRuns], pictures: Sequence[str] = ()) -> str:
    """The Markdown page, with the pictures of these names."""
    parts = ["## The paper's studies, and ours\n", legend("ablation")]
    for name, here in grouped(runs, lambda run: run.study.name).items():
        study = STUDIES[name]
        parts.append(f"### {study.title}\n\n{study.question} The paper: {study.paper}\n")
        parts += [_section(run, pictures) for run in here]
    return "\n".join(parts)


def _section(run: StudyRuns, pictures: Sequence[str]) -> str:
    explained = span(r.explaining.rows for r in run.results if r.explaining)
    trained = span(r.fitting.rows for r in run.results if r.fitting)
    sizes = f"{seeds_of(run.results)}; {trained} rows trained on, {explained} explained."
    tables = table(CURVES, map(_curve, run.results)) if run.study.history else _table(run)
    shown = [f"![{run.study.title}: {run.title}]({run.slug}.svg)\n"] if run.slug in pictures else []
    return "\n".join([f"#### {run.title}\n\n{sizes}\n", tables, *_robustness(run), *shown])


def _table(run: StudyRuns) -> str:
    head, names = [run.study.axis or run.study.title.lower()], [point.point for point in run.points]
    lines = [[f"**{name}** (the paper's choice)" if name in run.chosen else name] for name in names]
    for name in run.study.figures:
        found, words = [point.of(name) for point in run.points], MEASURES[name].words
        in_paper = any(one.paper is not None for one in found)
        # Seconds of two machines cannot be compared.
        head += [words, *["paper"] * in_paper, *["difference"] * (in_paper and name != SECONDS)]
        for line, one in zip(lines, found, strict=True):
            _, ours, difference = one.cells(MEASURES[name].digits)
            line += [ours if name != SECONDS or one.mean is None else f"{one.mean:.3g}"]
            line += [*[number(one.paper)] * in_paper, *[difference] * (in_paper and name != SECONDS)]
    return table(head, lines)


def _robustness(run: StudyRuns) -> list[str]:
    """Mean and deviation over the points, as the paper reports them for the significance levels of PC."""
    if run.study.name != "pc-alpha":
        return []
    paper = published.robustness(run.setup.data)
    theirs = "" if paper is None else f" The paper: {number(paper.mean)} ± {number(paper.deviation)}."
    lines = []
    for figure in ("feasibility_soft", "feasibility"):
        means = [mean for point in run.points if (mean := point.mean(figure)) is not None]
        _, ours, difference = Summary(tuple(means), len(run.points), paper.mean if paper else None).cells()
        lines.append(f"- {MEASURES[figure].words}: {ours}{f', difference {difference}' if difference else ''}\n")
    return [f"Over the {len(run.points)} levels, mean ± deviation of their means.{theirs}\n", "".join(lines)]


def _curve(result: Result) -> tuple[str, ...]:
    """The total loss at the start, at its best and at the end."""
    history = history_of(result)
    if not history.epochs:
        return (str(result.job.seed), "failed", *[""] * 5)
    train, held = (history.curve("total", part) for part in ("train", "validation"))
    lowest = f"{number(min(held))} (epoch {history.best.number})" if history.best else ""
    ends = number(train[0]), number(train[-1]), number(held[0]), lowest, number(held[-1])
    return (str(result.job.seed), str(len(train)), *ends)


def history_of(result: Result) -> History:
    """The losses stored in a result."""
    return History.from_list(list(result.history))


def csv_page(runs: Iterable[StudyRuns]) -> str:
    """Every figure of every point on a line, with all digits."""
    lines = ((point, name, point.of(name)) for run in runs for point in run.points for name in run.study.figures)
    return figures_csv(lines, of_studies=True)
