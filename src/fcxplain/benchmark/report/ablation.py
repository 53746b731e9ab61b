"""The six studies as tables: a line for each point, with the paper's value where it gives one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...datasets import DATASETS
from ...datasets.base import PublishedSettings
from ...training_loop import History
from ..results import Result
from ..studies import STUDIES, Study
from . import published
from .markdown import as_csv, number, signed, span, spread, table
from .summary import Setup, Summary, grouped, method_title, seeds_of, summarised

WORDS = {
    "feasibility_soft": "feasibility, raw outputs",
    "feasibility": "feasibility",
    "validity_soft": "validity, raw outputs",
    "validity": "validity",
    "success": "success",
    "lof": "LOF",
    "outliers": "outliers",
    "lof_raw": "LOF, copies counted",
    "lof_to_data": "LOF to training rows",
    "outliers_to_data": "outliers to training rows, %",
    "diversity": "distinct, %",
    "category_combinations": "combinations",
    "graph_edges": "edges of the graph",
    "seconds_per_epoch": "s per epoch",
}
SECONDS = "seconds_per_epoch"
DIGITS = {"outliers": 1, "graph_edges": 1, "category_combinations": 1}
LEGEND = """\
*Raw outputs* are the generator's, before they are decoded to legal rows: so the paper's code counts validity, and
feasibility among the outputs that are valid so; the other columns are of decoded rows. Shares are in percent. Means
over seeds, ± the standard deviation. *Distinct*: different answers in percent of answers; *combinations*: how many
combinations of changeable categories all the answers have. Where these are few, many people get the same answer, and
high feasibility says little.
"""


@dataclass(frozen=True)
class Point:
    """One value that a study tried, with a result per seed."""

    name: str
    results: tuple[Result, ...]

    def of(self, figure: str) -> Summary:
        """One figure over seeds."""
        return summarised(self.results, figure)


@dataclass(frozen=True)
class StudyRuns:
    """A study on one data set with one method: its points in the study's order."""

    study: Study
    setup: Setup
    method: str
    rules: str
    points: tuple[Point, ...]

    @property
    def chosen(self) -> tuple[str, ...]:
        """The points that agree with what the paper settled on."""
        return self.study.chosen(self.known) if self.known else ()

    @property
    def known(self) -> PublishedSettings | None:
        """The paper's settings."""
        return _known(self.setup.data, self.rules)

    @property
    def results(self) -> list[Result]:
        """All of them."""
        return [result for point in self.points for result in point.results]

    @property
    def slug(self) -> str:
        """What the files of this study's pictures are called."""
        method = method_title(self.method, self.rules).replace(", ", "-").replace(":", ".")
        return f"{self.study.name}-{self.setup.slug}-{method}"

    @property
    def title(self) -> str:
        """The data set and the method."""
        return f"{self.setup.title}, {method_title(self.method, self.rules)}"

    def paper(self, point: Point, figure: str) -> float | None:
        """What the paper says of a figure at a point: its study of loss components has numbers."""
        if self.study.name != "components" or self.method != "fcx-b":
            return None
        names = {"feasibility_soft": "feasibility_binary", "seconds_per_epoch": "seconds_per_epoch"}
        return published.components(self.setup.data, point.name, names[figure]) if figure in names else None


def studies_of(results: Iterable[Result]) -> list[StudyRuns]:
    """The results of studies, in the order of `STUDIES`."""
    results = list(results)
    found = []
    for study in STUDIES.values():
        own = [r for r in results if r.job.study == study.name]
        for key, runs in grouped(own, lambda r: (Setup.of(r.job), r.job.method, r.job.rules)).items():
            found.append(StudyRuns(study, *key, _points(study, runs, _known(key[0].data, key[2]))))
    return found


def _points(study: Study, results: list[Result], known: PublishedSettings | None) -> tuple[Point, ...]:
    tried = list(study.points(known)) if known else []
    groups = grouped(results, lambda r: r.job.point)
    names = sorted(groups, key=lambda name: (tried.index(name) if name in tried else len(tried), name))
    return tuple(Point(name, tuple(groups[name])) for name in names)


def _known(data: str, rules: str) -> PublishedSettings | None:
    return DATASETS[data].published.get(rules) if data in DATASETS else None


def page(runs: Sequence[StudyRuns], pictures: Sequence[str] = ()) -> str:
    """The Markdown page, with the pictures of these names where they belong."""
    parts = ["## The paper's studies, and ours\n", LEGEND]
    for study in dict.fromkeys(run.study.name for run in runs):
        known = STUDIES[study]
        parts.append(f"### {known.title}\n\n{known.question} The paper: {known.paper}\n")
        parts += [_section(run, pictures) for run in runs if run.study.name == study]
    return "\n".join(parts)


def _section(run: StudyRuns, pictures: Sequence[str]) -> str:
    head = f"#### {run.title}\n\n{_sizes(run)}\n"
    tables = _curves(run) if run.study.history else _table(run)
    shown = [f"![{run.study.title}: {run.title}]({run.slug}.svg)\n"] if run.slug in pictures else []
    return "\n".join([head, tables, *_robustness(run), *shown])


def _sizes(run: StudyRuns) -> str:
    seeds = seeds_of(run.results)
    explained = span(r.explaining.rows for r in run.results if r.explaining)
    trained = span(r.fitting.rows for r in run.results if r.fitting and r.fitting.rows)
    return f"{seeds}; {trained} rows trained on, {explained} explained."


def _table(run: StudyRuns) -> str:
    figures = [(name, any(run.paper(p, name) is not None for p in run.points)) for name in run.study.figures]
    head = [run.study.axis or run.study.title.lower()]
    for name, in_paper in figures:
        head += [WORDS[name], "paper"] if in_paper else [WORDS[name]]
        # Two machines' seconds are not to be held against each other.
        head += ["difference"] if in_paper and name != SECONDS else []
    return table(head, [_line(run, point, figures) for point in run.points])


def _line(run: StudyRuns, point: Point, figures: list[tuple[str, bool]]) -> list[str]:
    line = [f"**{point.name}** (the paper's choice)" if point.name in run.chosen else point.name]
    for name, in_paper in figures:
        ours, paper = point.of(name), run.paper(point, name)
        line.append(seconds(ours) if name == SECONDS else spread(ours, digits=DIGITS.get(name, 2)))
        line += [number(paper)] if in_paper else []
        line += [signed(less(ours.mean, paper))] if in_paper and name != SECONDS else []
    return line


def seconds(summary: Summary) -> str:
    """Seconds in three digits."""
    return "none" if summary.mean is None else f"{summary.mean:.3g}"


def less(ours: float | None, paper: float | None) -> float | None:
    """Ours less the paper's, where both are there."""
    return None if ours is None or paper is None else ours - paper


def _robustness(run: StudyRuns) -> list[str]:
    """Mean and deviation over the points, as the paper tells them for the levels of PC's test."""
    if run.study.name != "pc-alpha":
        return []
    paper = published.robustness(run.setup.data)
    told = "" if paper is None else f" The paper: {number(paper.mean)} ± {number(paper.deviation)}."
    lines = []
    for figure in ("feasibility_soft", "feasibility"):
        ours = over_points(run, figure)
        difference = signed(less(ours.mean, paper.mean if paper else None))
        lines.append(f"- {WORDS[figure]}: {spread(ours)}{f', difference {difference}' if difference else ''}\n")
    return [f"Over the {len(run.points)} levels, mean ± deviation of their means.{told}\n", "".join(lines)]


def over_points(run: StudyRuns, figure: str) -> Summary:
    """A figure over a study's points, each point's mean a value."""
    means = [point.of(figure).mean for point in run.points]
    return Summary(tuple(mean for mean in means if mean is not None), len(means))


def _curves(run: StudyRuns) -> str:
    """The total loss at the start, at its best and at the end."""
    head = ("seed", "epochs", "training loss, first epoch", "last", "validation loss, first epoch", "best", "last")
    return table(head, [_curve(result) for result in run.results])


def _curve(result: Result) -> tuple[str, ...]:
    history = history_of(result)
    if not history.epochs:
        return (str(result.job.seed), "failed", *[""] * 5)
    train, held = (history.curve("total", part) for part in ("train", "validation"))
    best = history.best
    told = f"{number(min(held))} (epoch {best.number})" if best else ""
    ends = number(train[0]), number(train[-1]), number(held[0]), told, number(held[-1])
    return (str(result.job.seed), str(len(train)), *ends)


def history_of(result: Result) -> History:
    """The losses that a result keeps."""
    return History.from_list(list(result.history))


CSV_HEAD = (
    *("study", "data", "rows", "classifier", "explained", "method", "rules", "point", "figure"),
    *("paper", "ours", "deviation", "runs", "runs_with_a_value", "difference"),
)


def csv_page(runs: Iterable[StudyRuns]) -> str:
    """Every figure of every point as a line, with all digits."""
    lines = (_record(run, point, name) for run in runs for point in run.points for name in run.study.figures)
    return as_csv(CSV_HEAD, lines)


def _record(run: StudyRuns, point: Point, figure: str) -> dict[str, object]:
    ours, paper = point.of(figure), run.paper(point, figure)
    return vars(run.setup) | {
        "study": run.study.name,
        "method": run.method,
        "rules": run.rules,
        "point": point.name,
        "figure": figure,
        "paper": paper,
        "ours": ours.mean,
        "deviation": ours.deviation,
        "runs": ours.of,
        "runs_with_a_value": len(ours.values),
        "difference": less(ours.mean, paper),
    }
