"""`fcxplain bench`: measurements that the documents quote."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from ..files import check_output
from . import console
from .console import PICTURES, Json, Seed, err, out, print_json, split, table_of
from .manners import App
from .progress import working

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..benchmark.plan import Job
    from ..benchmark.results import Result
    from ..benchmark.speed.dice import Contender
    from ..benchmark.speed.timing import Timing
    from ..benchmark.speed.training import Growth
    from ..progress import Progress

Name = Annotated[str, typer.Option("--data", help="A data set's name.", autocompletion=console.data_sets)]
Sample = Annotated[str | None, typer.Option(help="Which sample of it, e.g. all (folktables).")]
What = Annotated[
    list[str] | None,
    typer.Option(
        "--what",
        help="tables, training, growth, explaining, streaming, compare, models, budget, quick; all by default. "
        "Or large, or memory.",
        autocompletion=console.speeds,
    ),
]
Repeat = Annotated[int, typer.Option(min=1, help="Turns; the best of each counts.")]
UpTo = Annotated[int, typer.Option(min=1_000, help="The most rows of growth, streaming and large.")]
Compared = Annotated[
    int | None,
    typer.Option("--rows", min=1, help="Rows that compare (30 by default), models and budget (300) explain."),
]
PicturePath = Annotated[
    Path | None,
    typer.Option("--picture", help="Draw the cost of a row in growth and streaming, as .svg, .png or .pdf."),
]
SpeedPage = Annotated[
    Path | None,
    typer.Option(
        "--page", help="Put the tables of models, budget and large in their places on a page, as bench report does."
    ),
]
CurvePath = Annotated[
    Path | None, typer.Option("--curve", help="Draw answers against the budget, as .svg, .png or .pdf.")
]


def bench_speed(
    data: Name = "adult",
    sample: Sample = None,
    what: What = None,
    repeat: Repeat = 5,
    up_to: UpTo = 1_000_000,
    rows: Compared = None,
    picture: PicturePath = None,
    curve: CurvePath = None,
    page: SpeedPage = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure speed against the plain work that must be done, and against dice-ml.

    Tables: encoding, decoding and repairing every row, against plain numpy and pandas. Training: FCx as published,
    all terms and each alone, against the bare network. Growth: one epoch on 10,000 to a million rows, with the
    memory that it takes. Explaining: by each preference, in a batch and one row at a time, and with a single draw
    against the bare work. Streaming: file to file, 1,000 to a million rows. Compare: CPU seconds per verified answer
    of the bare work, of ours and of dice-ml (if it is installed) for the same rows. Models: those of six kinds, queried
    about every candidate and as they are read or imitated. Budget: how good answers are by how often the model may be
    queried, with and without a generator. Quick: one pass against the search. Large: from files to a folder with one
    process and with one and two workers of Dask, 100,000 and a million rows, and with --up-to 10000000 as many in one
    pass. Memory: a fit of one epoch with nothing beside it. CPU seconds of one thread.

    Example: fcxplain bench speed --what streaming --json --picture speed-rows.svg
    """
    from ..benchmark.speed.speed import MEASURED, measured

    for path, option in ((picture, "--picture"), (curve, "--curve")):
        if path is not None:
            check_output(path, PICTURES, option)
    chosen = split(what) or list(MEASURED)
    how: dict[str, Any] = {"sample": sample, "repeat": repeat, "up_to": up_to, "rows": rows, "seed": seed}
    # A million rows take longer than a thousand, so that the pace so far says nothing of what is left.
    with working(f"measuring on {data}", even=False) as work:
        found = measured(data, chosen, on_progress=work.tell, **how)
    for path, draw in ((picture, found.draw), (curve, found.draw_budgets)):
        if path is not None:
            draw(path)
            err.print(escape(f"picture in {path}"), highlight=False, soft_wrap=True)
    if page is not None:
        found.fill(page)
    if as_json:
        return print_json(found.to_dict())
    tables = [
        _timings(found.timings),
        _growth(found.growth, "rows of one epoch"),
        _growth(found.streaming, "rows explained, file to file"),
        _contenders(found.contenders),
        *(_lines(lines) for lines in found.tables().values()),
    ]
    for shown in tables:
        if shown.row_count:
            out.print(shown)
    noted = [*((c.name, c.note) for c in found.contenders), *((m.model, m.note) for m in found.models)]
    for name, note in noted:
        if note:
            out.print(escape(f"{name}: {note}"), highlight=False, soft_wrap=True)
    out.print(f"peak memory of this process: {found.peak / 1e6:,.0f} MB", highlight=False)
    out.print(escape(f"measured on {found.machine}"), highlight=False, soft_wrap=True)
    return None


def _timings(timings: Sequence[Timing]) -> Table:
    shown = table_of("job", "rows", "CPU s", "rows per CPU s", "bare work, CPU s", "ratio")
    for t in timings:
        floor, ratio = ("", "") if t.floor is None else (f"{t.floor:.3f}", f"{t.ratio:.2f}")
        shown.add_row(t.job, f"{t.rows:,}", f"{t.seconds:.3f}", f"{t.rows_per_second:,.0f}", floor, ratio)
    return shown


def _growth(sizes: Sequence[Growth], title: str) -> Table:
    shown = table_of(title, "CPU s", "microseconds a row", "more memory, MB")
    for g in sizes:
        memory = f"{g.memory / 1e6:,.0f}"
        shown.add_row(f"{g.rows:,}", f"{g.seconds:.2f}", f"{1e6 * g.seconds_per_row:.1f}", memory)
    return shown


def _contenders(contenders: Sequence[Contender]) -> Table:
    shown = table_of("way", "verified", "CPU ms each", "valid, %", "feasible, %", "changes", "fit, CPU s")
    for c in contenders:
        each = "" if c.seconds_per_verified is None else f"{1e3 * c.seconds_per_verified:,.1f}"
        figures = ("" if v is None else f"{v:.1f}" for v in (c.validity, c.feasibility, c.changes, c.fitting))
        shown.add_row(c.name, "" if c.seconds is None else f"{c.verified} of {c.rows}", each, *figures)
    return shown


def _lines(lines: Sequence[Sequence[str]]) -> Table:
    """A table whose first line is its head."""
    shown = table_of(*lines[0])
    for line in lines[1:]:
        shown.add_row(*line)
    return shown


bench_app = App(help="Measurements that the documents quote.", no_args_is_help=True)

DataSets = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        help="Data sets with commas between them; all that are here by default.",
        autocompletion=console.some_data_sets,
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--methods",
        "--method",
        help="Names with commas between them (fcx, fcx-search, fcx-draw, revise, ...), all, or a class of your own as "
        "package.module:Class; FCx and its variants by default.",
        autocompletion=console.methods,
    ),
]
Seeds = Annotated[list[int] | None, typer.Option("--seed", help="A seed; 0, 1 and 2 by default.")]
Rows = Annotated[int | None, typer.Option(min=1, help="A sample of so many rows of each data set.")]
LimitRows = Annotated[int, typer.Option(min=1, help="Explain at most so many refused test rows, drawn by the seed.")]
Given = Annotated[
    str,
    typer.Option(
        "--rules",
        help="What methods are told of the rules: own (those that each can take), none, or all (also as a condition on "
        "candidates, where a method looks at any).",
    ),
]
UseTuned = Annotated[bool, typer.Option("--tuned", help="Run methods with the best settings of bench tune in OUT.")]
Box = Annotated[
    str,
    typer.Option(
        "--classifier",
        help="The kind of black box: paper, balanced, mlp, logistic or boosting.",
        autocompletion=console.classifiers,
    ),
]
Results = Annotated[Path, typer.Option("--out", help="The folder of results; what it has already is not done again.")]
TimeLimit = Annotated[
    float | None, typer.Option(help="Stop a run after so many seconds; each run then has a process of its own.")
]
Retry = Annotated[bool, typer.Option("--retry", help="Do failed runs again.")]
RESULTS = Path("benchmarks/results")


# Figures are to be the same on every machine, and training carries on how a processor rounds.
SAME_ROUNDING = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}


def _round_alike() -> None:
    """Have torch round as on any other machine; what the environment says already stays, and so does a loaded torch."""
    if "torch" not in sys.modules:
        for name, value in SAME_ROUNDING.items():
            os.environ.setdefault(name, value)


@bench_app.command("run")
def bench_run(
    data: DataSets = None,
    method: Methods = None,
    seed: Seeds = None,
    folder: Results = RESULTS,
    rows: Rows = None,
    limit_rows: LimitRows = 5_000,
    classifier: Box = "paper",
    rules: Given = "own",
    tuned: UseTuned = False,
    time_limit: TimeLimit = None,
    retry: Retry = False,
    as_json: Json = False,
) -> None:
    """Measure methods on data sets, once for each seed; what was cut off goes on when it is started again.

    Each run leaves a line in OUT/DATA.jsonl: its figures, or why there are none. What other code has left there is
    measured anew.

    Example: fcxplain bench run --data adult,law --methods all --seed 0 --seed 1 --limit-rows 500
    """
    _round_alike()
    from ..benchmark.plan import METHODS, OURS, plan
    from ..benchmark.results import read_results
    from ..benchmark.tuning import tuned_settings

    named = split(method) or (["all"] if tuned else [])
    jobs = plan(
        split(data) or _data_here(),
        METHODS if named == ["all"] else named or OURS,
        seed or (0, 1, 2),
        rows=rows,
        classifier=classifier,
        explained=limit_rows,
        given=rules,
        settings=tuned_settings(read_results(folder)) if tuned else None,
    )
    _run(jobs, folder, time_limit, retry, as_json)


@bench_app.command("tune")
def bench_tune(
    data: DataSets = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--methods", "--method", help="fcx-u, fcx-b, fcx-draw, fcegan, vcnet; all by default."),
    ] = None,
    tries: Annotated[int, typer.Option(min=2, help="Settings tried for each method, the same number for all.")] = 20,
    seed: Annotated[list[int] | None, typer.Option("--seed", help="A seed of the runs; 0 by default.")] = None,
    search_seed: Annotated[int, typer.Option(min=0, help="Of the settings that are drawn.")] = 0,
    folder: Results = RESULTS,
    rows: Rows = None,
    limit_rows: LimitRows = 500,
    classifier: Box = "paper",
    time_limit: TimeLimit = None,
    as_json: Json = False,
) -> None:
    """Look for settings at random, on validation rows, with the same number of tries for every method.

    The first try of each has its settings as they are. `bench run --tuned` then takes the best.

    Example: fcxplain bench tune --data adult --methods fcegan,vcnet,fcx-u --tries 20
    """
    _round_alike()
    from ..benchmark.results import read_results
    from ..benchmark.tuning import SPACES, best_tries, plan_tuning

    jobs = plan_tuning(
        split(data) or _data_here(),
        split(method) or SPACES,
        seed or (0,),
        tries=tries,
        search_seed=search_seed,
        rows=rows,
        classifier=classifier,
        explained=limit_rows,
    )
    _run(jobs, folder, time_limit, retry=False, as_json=False)
    best = best_tries(read_results(folder, {job.data for job in jobs}))
    if as_json:
        return print_json([asdict(one) for one in best])
    shown = table_of("data", "method", "tries", "success as it was", "best", "changes", "settings")
    for one in best:
        settings = ", ".join(f"{name} {value}" for name, value in one.settings.items()) or "as they were"
        before = "" if one.before is None else f"{one.before:.1f}"
        cells = (one.data, one.method, str(one.tries), before, f"{one.success:.1f}", f"{one.changes:.2f}", settings)
        shown.add_row(*map(escape, cells))
    out.print(shown)
    return None


@bench_app.command("check")
def bench_check(
    results: Annotated[Path, typer.Option(help="The folder of results.")] = RESULTS,
    data: DataSets = None,
    runs: Annotated[
        int, typer.Option(min=1, help="How many runs are made again, the quickest of as many methods.")
    ] = 3,
    as_json: Json = False,
) -> None:
    """Make a few runs again, and say whether this machine gives the same figures, and how far apart if not.

    Example: fcxplain bench check --data adult --runs 5
    """
    _round_alike()
    from ..benchmark.check import check
    from ..benchmark.results import read_results

    with working("making runs again", runs) as work:
        found = list(check(read_results(results, split(data) or None), runs, work.tell))
    if as_json:
        return print_json([asdict(one) | {"same": one.same} for one in found])
    for one in found:
        out.print(escape(f"{one.job}: {one.words}"), highlight=False, soft_wrap=True)
    return None


@bench_app.command("ablation")
def bench_ablation(
    study: Annotated[
        list[str] | None,
        typer.Option(
            "--study",
            help="latent, lof-k-metric, lof-k-loss, pc-alpha, hyperparameters, components or curves; all by default.",
            autocompletion=console.studies,
        ),
    ] = None,
    data: DataSets = None,
    method: Methods = None,
    seed: Seeds = None,
    folder: Results = RESULTS,
    rows: Rows = None,
    limit_rows: LimitRows = 5_000,
    classifier: Box = "paper",
    time_limit: TimeLimit = None,
    retry: Retry = False,
    as_json: Json = False,
) -> None:
    """Make the paper's six studies: vary one thing of FCx as published, and leave the rest as it is.

    The method is the paper's with binary rules and its authors' weights, fcx-b-authors (for the loss curves also
    fcx-u-authors), unless another is named.

    Example: fcxplain bench ablation --study components --data adult --seed 0
    """
    _round_alike()
    from ..benchmark.studies import STUDIES, plan_studies

    jobs = plan_studies(
        split(study) or STUDIES,
        split(data) or _data_here(),
        seed or (0, 1, 2),
        methods=split(method) or None,
        rows=rows,
        classifier=classifier,
        explained=limit_rows,
    )
    _run(jobs, folder, time_limit, retry, as_json)


@bench_app.command("report")
def bench_report(
    results: Annotated[Path, typer.Option(help="The folder of results.")] = RESULTS,
    folder: Annotated[Path, typer.Option("--out", help="Where to write.")] = Path("docs/reproduction"),
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="Of these data sets only.", autocompletion=console.some_data_sets),
    ] = None,
    pictures: Annotated[bool, typer.Option(help="Draw pictures; they need matplotlib.")] = True,
    pages: Annotated[
        list[Path] | None,
        typer.Option("--page", help="A page of yours with places for tables: `<!-- success -->` ... `<!-- end -->`."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write results as Markdown, CSV and pictures, with the paper's figures beside ours.

    Lines of different code are refused: they do not compare.

    Example: fcxplain bench report --results benchmarks/results --out docs/reproduction
    """
    from ..benchmark.report.report import write_report
    from ..benchmark.results import read_results

    with working("writing the report"):
        written = write_report(read_results(results, split(data) or None), folder, pictures=pictures, pages=pages or ())
    if as_json:
        return print_json([str(path) for path in written])
    for path in written:
        out.print(escape(str(path)), highlight=False, soft_wrap=True)
    return None


def _data_here() -> list[str]:
    """The data sets whose files are here."""
    from ..datasets import DATASETS
    from ..datasets.download import whereabouts

    return [name for name, spec in DATASETS.items() if spec.published and whereabouts(spec.file)]


def _run(jobs: list[Job], folder: Path, time_limit: float | None, retry: bool, as_json: bool) -> None:
    """Do jobs, telling on standard error what is being done, and on standard output what came of it."""
    from ..benchmark.runner import RUNNING, run

    new: list[Result] = []
    with working("reading results", len(jobs)) as work:

        def show(event: Progress) -> None:
            work.move(event.done, what=event.stage)
            if event.note == RUNNING and not err.is_terminal:
                begun = f"{event.done + 1} of {event.total}: {event.stage}"
                err.print(escape(begun), highlight=False, soft_wrap=True)

        try:
            for result in run(jobs, folder, show, time_limit=time_limit, retry=retry):
                new.append(result)
                if not as_json:
                    work.say(_told(result))
        except KeyboardInterrupt:
            told = f"{len(new)} new result{'s' * (len(new) != 1)} kept, and the same command goes on from there"
            raise KeyboardInterrupt(told) from None
    _end(jobs, new, folder, as_json)


def _end(jobs: list[Job], new: list[Result], folder: Path, as_json: bool) -> None:
    if as_json:
        print_json([result.to_dict() for result in new])
    failed = sum(result.failure is not None for result in new)
    there = len(jobs) - len(new)
    said = f"{len(new)} of {len(jobs)} runs made, {failed} of them failed; {there} were there already. In {folder}"
    err.print(escape(said), highlight=False, soft_wrap=True)


def _told(result: Result) -> str:
    """A result in one line."""
    if result.failure:
        return f"{result.job}: failed, {result.failure}"
    names = ("validity_soft", "validity", "feasibility_soft", "feasibility", "success")
    found = [f"{name} {result.figures[name]:.1f}" for name in names if name in result.figures]
    return f"{result.job}: {', '.join(found)}{' (measured already)' if result.copied_from else ''}"


@bench_app.command("classifiers")
def bench_classifiers(
    data: DataSets = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="Kinds of classifier; all by default.", autocompletion=console.some_classifiers),
    ] = None,
    rows: Rows = None,
    output: Annotated[Path | None, typer.Option("--out", help="Write the table as Markdown.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train every kind of classifier on every data set and score it on the test part.

    Example: fcxplain bench classifiers --data adult --data law --out classifiers.md
    """
    from ..benchmark.classifiers import markdown, measure_classifier
    from ..classifier import KINDS
    from ..files import write_whole

    if output is not None:
        check_output(output, (".md",), "--out")
    names, kinds, results = split(data) or _data_here(), split(kind) or list(KINDS), []
    with working("training", len(names) * len(kinds)) as work:
        for name, each in product(names, kinds):
            result = measure_classifier(name, each, seed=seed, rows=rows)
            results.append(result)
            work.move(len(results))
            if not as_json:
                said = f"{result.data}, {result.kind}: accuracy {result.accuracy:.1%}"
                work.say(f"{said}, balanced {result.balanced_accuracy:.1%}")
    if as_json:
        print_json([asdict(r) for r in results])
    if output is not None:
        write_whole(output, markdown(results))


bench_app.command("speed")(bench_speed)


@bench_app.command("graphs")
def bench_graphs(
    tables: Annotated[int, typer.Option(min=1, help="Synthetic tables.")] = 20,
    rows: Annotated[int, typer.Option(min=100, help="Rows of each.")] = 100_000,
    features: Annotated[int, typer.Option(min=3, help="Features of each, a third of them categories.")] = 10,
    alpha: Annotated[float, typer.Option(help="Significance level.")] = 0.01,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Score causal discovery against known graphs, for several effective sample sizes.

    Example: fcxplain bench graphs --tables 10 --rows 20000
    """
    from ..benchmark.discovery import measure_discovery

    caps = (1_000, 2_000, 5_000, 10_000, 20_000)
    with working("discovering", len(caps)) as work:
        found = measure_discovery(
            caps, tables=tables, rows=rows, features=features, alpha=alpha, seed=seed, on_progress=work.tell
        )
    if as_json:
        return print_json([asdict(one) for one in found])
    shown = table_of("effective rows", "precision", "recall", "F1", "F1 of arrows", "CPU s a table")
    for one in found:
        cap = f"{one.n_effective:,}"
        marks = (f"{v:.3f}" for v in (one.precision, one.recall, one.f1, one.arrow_f1))
        shown.add_row(cap, *marks, f"{one.seconds:.2f}")
    out.print(shown)
    return None
