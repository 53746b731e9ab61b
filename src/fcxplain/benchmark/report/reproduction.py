"""The paper's tables again: each of its figures, ours beside it, and the difference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..results import Result
from . import published
from .markdown import as_csv, cell, number, signed, span, spread, table
from .summary import Setup, Summary, grouped, method_title, noted, seeds_of, summarised


@dataclass(frozen=True)
class Measure:
    """A line of the tables: its wording, our figure, and the paper's that it is held against."""

    words: str
    figure: str
    paper: str = ""
    digits: int = 2


MEASURES = (
    Measure("validity, raw outputs", "validity_soft", "validity"),
    Measure("validity", "validity", "validity"),
    Measure("continuous proximity", "continuous_proximity", "continuous_proximity"),
    Measure("categorical proximity", "categorical_proximity", "categorical_proximity"),
    Measure("sparsity", "sparsity", "sparsity"),
    Measure("LOF, copies counted", "lof_raw", "lof"),
    Measure("LOF", "lof", "lof"),
    Measure("outliers (a count)", "outliers", "outliers", digits=1),
    Measure("feasibility (unary), raw outputs", "feasibility_unary_soft", "feasibility_unary"),
    Measure("feasibility (unary)", "feasibility_unary", "feasibility_unary"),
    Measure("feasibility (binary), raw outputs", "feasibility_binary_soft", "feasibility_binary"),
    Measure("feasibility (binary)", "feasibility_binary", "feasibility_binary"),
    Measure("success", "success"),
    Measure("LOF to training rows", "lof_to_data"),
    Measure("outliers to training rows, %", "outliers_to_data"),
    Measure("supported categories, %", "supported"),
    Measure("distinct answers, %", "diversity"),
    Measure("combinations of categories", "category_combinations", digits=1),
    Measure("CPU s to train", "cpu_seconds", digits=1),
    Measure("CPU s for an epoch", "seconds_per_epoch", digits=3),
    Measure("rows explained in a CPU s", "rows_per_cpu_second", digits=0),
)
LEGEND = """\
Shares are in percent. *Raw outputs* are the generator's, before they are decoded to legal rows: so the paper's code
counts validity, and feasibility among the outputs that are valid so. All other figures are of decoded rows: validity of
rows asked, feasibility of the valid answers, *success* (valid, feasible, legal, immutables kept) of rows asked. LOF and
outliers are among the feasible answers; outliers are counted, so they grow with the rows explained. *none*: no run has
this figure, mostly since no answer is valid. Ours are means over seeds, ± the standard deviation; the difference is
ours less the paper's.

A method with one far-off answer for everybody can have 100 % feasibility and success. So beside them: *distinct*,
different answers in percent of answers; *combinations*, how many combinations of changeable categories all the answers
have; *supported*, answers whose categories occur together in more than 20 training rows; *outliers to data*, answers
far from training rows.
"""
# What feasibility and success do not see: one far-off answer for everybody can have 100 % of both.
HONEST = ("diversity", "category_combinations", "supported", "outliers_to_data")
# Below these shares a table warns its reader. They are a choice, made to be noticed early, not a finding.
FEW_DISTINCT, FEW_SUPPORTED = 20.0, 1.0
# Notes on what the tables leave out.
NOT_SHOWN = ("speed:", "optimality_gap:")
# FCx as published; what else was run stands in the comparison of all methods.
PUBLISHED = ("fcx-u", "fcx-b")
# Methods side by side in one table.
ABREAST = 2


@dataclass(frozen=True)
class Comparison:
    """One figure of one method on one data set, and the paper's."""

    setup: Setup
    method: str
    rules: str
    measure: Measure
    paper: float | None
    ours: Summary

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.paper is None or self.ours.mean is None else self.ours.mean - self.paper


@dataclass(frozen=True)
class MethodRuns:
    """The runs of a method with one rule set in one setup, a result per seed."""

    setup: Setup
    method: str
    rules: str
    results: tuple[Result, ...]

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """All the figures."""
        return tuple(self.compared(measure) for measure in MEASURES)

    def compared(self, measure: Measure) -> Comparison:
        """One figure."""
        paper = published.figure(self.setup.data, self.method, measure.paper) if measure.paper else None
        ours = summarised(self.results, measure.figure)
        return Comparison(self.setup, self.method, self.rules, measure, paper, ours)


def runs_of(results: Iterable[Result]) -> list[MethodRuns]:
    """The results that belong to no study, by data set and method."""
    groups = grouped((r for r in results if not r.job.study), lambda r: (Setup.of(r.job), r.job.method, r.job.rules))
    return [MethodRuns(*key, tuple(found)) for key, found in groups.items()]


def published_runs(runs: Iterable[MethodRuns]) -> list[MethodRuns]:
    """Those of FCx as published."""
    return [run for run in runs if run.method in PUBLISHED]


def page(runs: Sequence[MethodRuns], picture: str | None = None) -> str:
    """The Markdown page, with a picture below its first table."""
    parts = ["## The paper's tables, and ours\n", f"The paper: *{published.PAPER}*.\n", LEGEND, _overview(runs)]
    parts += [] if picture is None else [f"![Feasibility, the paper's and ours]({picture})\n"]
    setups = dict.fromkeys(run.setup for run in runs)
    parts += [_section(setup, [run for run in runs if run.setup == setup]) for setup in setups]
    return "\n".join(parts)


def _overview(runs: Sequence[MethodRuns]) -> str:
    """Feasibility under the rules of each method, success, and whether the answers are more than one for all."""
    head = (
        *("data", "method", "feasibility, paper", "raw outputs", "difference", "decoded", "difference", "success"),
        *("distinct, %", "combinations", "supported, %", "outliers to data, %"),
    )
    lines = []
    for run in runs:
        measures = {m.figure: run.compared(m) for m in MEASURES}
        raw, decoded = measures[f"feasibility_{run.rules}_soft"], measures[f"feasibility_{run.rules}"]
        lines.append(
            (
                run.setup.title,
                method_title(run.method, run.rules),
                number(raw.paper),
                *(spread(raw.ours), signed(raw.difference)),
                *(spread(decoded.ours), signed(decoded.difference)),
                *(spread(measures[name].ours) for name in ("success", *HONEST)),
            )
        )
    return "\n".join([table(head, lines, left=2), *_warned(runs)])


def in_one_table(runs: Sequence[MethodRuns]) -> str:
    """Feasibility as the paper counts it, and what is left of it on legal rows."""
    head = (
        *("data", "method", "paper", "ours", "difference"),
        *("decoded: valid and feasible (success)", "combinations of categories"),
    )
    words = {m.figure: m for m in MEASURES}
    lines = []
    for run in runs:
        raw = run.compared(words[f"feasibility_{run.rules}_soft"])
        decoded = (spread(run.compared(words[name]).ours) for name in ("success", "category_combinations"))
        lines.append(
            (run.setup.title, run.method, number(raw.paper), spread(raw.ours), signed(raw.difference), *decoded)
        )
    return table(head, lines, left=2) if lines else ""


def _warned(runs: Sequence[MethodRuns]) -> list[str]:
    """Which methods give many people the same few answers, or answers like no training row."""
    named = [f"{run.setup.title}, {method_title(run.method, run.rules)} ({why})" for run in runs if (why := _why(run))]
    said = "**Beware** of high feasibility and success where answers are few or unlike any training rows"
    return [f"{said}: {'; '.join(named)}.\n"] if named else []


def _why(run: MethodRuns) -> str:
    distinct, supported = (summarised(run.results, name).mean for name in ("diversity", "supported"))
    why = [f"{number(distinct, digits=1)} % distinct"] if distinct is not None and distinct < FEW_DISTINCT else []
    if supported is not None and supported < FEW_SUPPORTED:
        why.append(f"{number(supported, digits=1)} % supported")
    return ", ".join(why)


def _section(setup: Setup, runs: list[MethodRuns]) -> str:
    parts = [f"### {setup.title}\n", sizes_of([result for run in runs for result in run.results])]
    for start in range(0, len(runs), ABREAST):
        parts.append(_table(runs[start : start + ABREAST]))
    return "\n".join([*parts, *_notes([result for run in runs for result in run.results])])


def _table(runs: list[MethodRuns]) -> str:
    """The paper's figure, ours and the difference, for methods side by side."""
    names = [method_title(run.method, run.rules) for run in runs]
    head = ["", *(column for name in names for column in (f"{name}: paper", "ours", "difference"))]
    lines = []
    for measure in MEASURES:
        found = [run.compared(measure) for run in runs]
        lines.append((measure.words, *(text for c in found for text in _cells(c))))
    return table(head, lines)


def _cells(c: Comparison) -> tuple[str, str, str]:
    digits = c.measure.digits
    return number(c.paper, digits=digits), spread(c.ours, digits=digits), signed(c.difference, digits=digits)


def sizes_of(results: list[Result]) -> str:
    """How much the figures stand on."""
    seeds = seeds_of(results)
    done = [r for r in results if r.sizes and r.explaining and r.black_box]
    if not done:
        return f"{seeds}; every run failed.\n"
    sizes = [r.sizes for r in done if r.sizes]
    marks = Summary(tuple(r.black_box.accuracy for r in done if r.black_box), len(done))
    trained = span(r.fitting.rows for r in done if r.fitting and r.fitting.rows)
    refused = span(s.refused for s in sizes)
    explained = span(r.explaining.rows for r in done if r.explaining)
    all_rows, train, test = (span(getattr(s, part) for s in sizes) for part in ("rows", "train", "test"))
    return (
        f"{seeds}. {all_rows} rows: {train} to train with, of which the methods saw {trained} refused ones, and "
        f"{test} to test with. The black box is right on {number(marks.mean, digits=1)} % of the test rows and refuses "
        f"{refused}; {'all of them' if explained == refused else explained} were explained.\n"
    )


def _notes(results: list[Result]) -> Iterator[str]:
    """What was noted of runs, each thing once; and a word of warning if the code changed between runs."""
    done = [result for result in results if not result.failure]
    lines = noted([tuple(n for n in r.notes if not n.startswith(NOT_SHOWN)) for r in done])
    if len({r.environment.get("code") for r in results}) > 1:
        lines.append("measured by different states of the code; do all runs again to be sure that they compare")
    if lines:
        yield "".join(f"- {cell(line)}\n" for line in lines)


CSV_HEAD = (
    *("data", "rows", "classifier", "explained", "method", "rules", "figure"),
    *("paper", "ours", "deviation", "runs", "runs_with_a_value", "difference"),
)


def csv_page(runs: Iterable[MethodRuns]) -> str:
    """Every comparison as a line, with all digits."""
    return as_csv(CSV_HEAD, (_record(c) for run in runs for c in run.comparisons))


def _record(c: Comparison) -> dict[str, object]:
    return vars(c.setup) | {
        "method": c.method,
        "rules": c.rules,
        "figure": c.measure.figure,
        "paper": c.paper,
        "ours": c.ours.mean,
        "deviation": c.ours.deviation,
        "runs": c.ours.of,
        "runs_with_a_value": len(c.ours.values),
        "difference": c.difference,
    }
