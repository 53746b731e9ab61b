"""The paper's tables: each of its figures, ours next to it, and the difference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import published
from .markdown import cell, legend, measures, number, table
from .summary import Runs, Setup, Summary, figures_csv, grouped, noted, sizes_of

MEASURES = measures("reproduction")
# Feasibility and success do not show a collapse: one outlying answer for everyone can have 100 % of both.
HONEST = ("diversity", "category_combinations", "supported", "outliers_to_data")
# Shares below which a table warns its reader. They are chosen to warn early, not measured.
FEW = {"diversity": (20.0, "distinct"), "supported": (1.0, "supported")}
# Notes on what the tables leave out.
NOT_SHOWN = ("speed:", "optimality_gap:")
# FCx as published; all other methods are in the comparison of methods.
PUBLISHED = ("fcx-u", "fcx-b", "fcx-u-authors", "fcx-b-authors")
# The black boxes of the paper and of its authors' code.
BLACK_BOXES = ("paper", "balanced")
# Methods side by side in one table.
ABREAST = 2


def published_runs(runs: Iterable[Runs]) -> list[Runs]:
    """The runs of FCx as published, with the paper's black boxes."""
    own = (run for run in runs if run.method in PUBLISHED and run.given == "own")
    return [run for run in own if run.setup.classifier in BLACK_BOXES]


def page(runs: Sequence[Runs], picture: str | None = None) -> str:
    """The Markdown page, with a picture below its first table."""
    parts = ["## The paper's tables, and ours\n", f"The paper: *{published.PAPER}*.\n", legend("reproduction")]
    parts += [_overview(runs), *_warned(runs)]
    parts += [] if picture is None else [f"![Feasibility, the paper's and ours]({picture})\n"]
    return "\n".join([*parts, *(_section(*group) for group in grouped(runs, lambda run: run.setup).items())])


def _overview(runs: Sequence[Runs]) -> str:
    """Feasibility under each method's own rules, success, and the variety of the answers."""
    head = (
        *("data", "method", "feasibility, paper", "raw outputs", "difference", "decoded", "success"),
        *("distinct, %", "combinations", "supported, %", "outliers to data, %"),
    )
    lines = []
    for run in runs:
        decoded = under_rules(run, "feasibility").cells()[1:2]
        others = (run.of(name).spread() for name in ("success", *HONEST))
        lines.append((run.setup.title, run.title, *under_rules(run, "feasibility_soft").cells(), *decoded, *others))
    return table(head, lines, left=2)


def under_rules(run: Runs, figure: str) -> Summary:
    """A figure; feasibility is that under the method's own rules."""
    own = {"feasibility": f"feasibility_{run.rules}", "feasibility_soft": f"feasibility_{run.rules}_soft"}
    return run.compared(MEASURES[own.get(figure, figure)])


def in_one_table(runs: Sequence[Runs]) -> str:
    """Feasibility as the paper counts it, and on legal rows."""
    head = ["data", "method", "paper", "ours", "difference"]
    head += ["decoded: valid and feasible (success)", "combinations of categories"]
    lines = []
    for run in runs:
        decoded = (run.of(name).spread() for name in ("success", "category_combinations"))
        lines.append((run.setup.title, run.label, *under_rules(run, "feasibility_soft").cells(), *decoded))
    return table(head, lines, left=2) if lines else ""


def _warned(runs: Sequence[Runs]) -> list[str]:
    """A warning that names methods that give many people the same few answers, or answers unlike any training row."""
    named = []
    for run in runs:
        means = ((run.mean(figure), least, word) for figure, (least, word) in FEW.items())
        why = [f"{number(mean, digits=1)} % {word}" for mean, least, word in means if mean is not None and mean < least]
        named += [f"{run.setup.title}, {run.title} ({', '.join(why)})"] if why else []
    said = "**Beware** of high feasibility and success where answers are few or unlike any training rows"
    return [f"{said}: {'; '.join(named)}.\n"] if named else []


def _section(setup: Setup, runs: list[Runs]) -> str:
    results = [result for run in runs for result in run.results]
    tables = [_table(runs[start : start + ABREAST]) for start in range(0, len(runs), ABREAST)]
    done = [result for result in results if not result.failure]
    notes = noted([tuple(n for n in r.notes if not n.startswith(NOT_SHOWN)) for r in done])
    listed = ["".join(f"- {cell(note)}\n" for note in notes)] if notes else []
    return "\n".join([f"### {setup.title}\n", sizes_of(results), *tables, *listed])


def _table(runs: list[Runs]) -> str:
    """Figures counted as in the paper, with its figure and the difference; then those of decoded rows."""
    head = ["as the authors count", *(c for run in runs for c in (f"{run.title}: paper", "ours", "difference"))]
    theirs, others = ([m for m in MEASURES.values() if bool(m.paper) == which] for which in (True, False))
    lines = ((m.words, *(text for run in runs for text in run.compared(m).cells(m.digits))) for m in theirs)
    decoded = ((m.words, *(run.compared(m).cells(m.digits)[1] for run in runs)) for m in others)
    return f"{table(head, lines)}\n{table(['decoded', *(run.title for run in runs)], decoded)}"


def csv_page(runs: Iterable[Runs]) -> str:
    """Every comparison on a line, with all digits."""
    return figures_csv(((run, m.figure, run.compared(m)) for run in runs for m in MEASURES.values()), of_studies=False)
