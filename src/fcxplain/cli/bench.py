"""`fcxplain bench`: the measurements that the documentation quotes."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ..files import check_output
from ..text import counted
from . import console
from .bench_speed import bench_speed
from .console import Json, Seed, err, out, print_json, split, table_of
from .manners import App
from .progress import working

if TYPE_CHECKING:
    from ..benchmark.plan import Job
    from ..benchmark.results import Result
    from ..progress import Progress

bench_app = App(help="Run the measurements that the documentation quotes.", no_args_is_help=True)

DataSets = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        help="Comma-separated data sets; by default all whose files are on this machine.",
        autocompletion=console.some_data_sets,
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--methods",
        "--method",
        help="Comma-separated names (fcx, fcx-search, fcx-draw, revise, ...), all, or your own class as "
        "package.module:Class; by default FCx and its variants.",
        autocompletion=console.methods,
    ),
]
Seeds = Annotated[list[int] | None, typer.Option("--seed", help="A seed; 0, 1 and 2 by default.")]
Rows = Annotated[int | None, typer.Option(min=1, help="The number of rows to sample from each data set.")]
LimitRows = Annotated[
    int, typer.Option(min=1, help="The maximum number of refused test rows to explain, drawn by the seed.")
]
Given = Annotated[
    str,
    typer.Option(
        "--rules",
        help="The rules that methods are given: own (those that each can take), none, or all (also as a condition on "
        "candidates, for methods that check any).",
    ),
]
UseTuned = Annotated[bool, typer.Option("--tuned", help="Use the best settings that bench tune has found in OUT.")]
Box = Annotated[
    str,
    typer.Option(
        "--classifier",
        help="The kind of classifier: paper, balanced, mlp, logistic or boosting.",
        autocompletion=console.classifiers,
    ),
]
Results = Annotated[
    Path, typer.Option("--out", help="The folder of results; runs that it already holds are not repeated.")
]
TimeLimit = Annotated[
    float | None, typer.Option(help="The maximum seconds per run; each run then gets its own process.")
]
Retry = Annotated[bool, typer.Option("--retry", help="Repeat failed runs.")]
RESULTS = Path("benchmarks/results")


# Figures should be the same on every machine, and training amplifies differences in rounding between processors.
SAME_ROUNDING = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}


def _round_alike() -> None:
    """Make torch round the same on every machine, unless the environment says otherwise or torch is already loaded."""
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
    """Measure methods on data sets, once per seed.

    Example: fcxplain bench run --data adult,law --methods all --seed 0 --seed 1 --limit-rows 500

    Each run adds one line to OUT/DATA.jsonl: its figures, or why it failed. Results of other versions of the code are
    measured again. An interrupted benchmark resumes when you run the same command again.
    """
    _round_alike()
    from ..benchmark.plan import METHODS, OURS, plan
    from ..benchmark.results import read_results
    from ..benchmark.studies import tuned_settings

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
    tries: Annotated[int, typer.Option(min=2, help="The number of settings to try for each method.")] = 20,
    seed: Annotated[list[int] | None, typer.Option("--seed", help="A seed of the runs; 0 by default.")] = None,
    search_seed: Annotated[int, typer.Option(min=0, help="Seed for drawing the settings.")] = 0,
    folder: Results = RESULTS,
    rows: Rows = None,
    limit_rows: LimitRows = 500,
    classifier: Box = "paper",
    time_limit: TimeLimit = None,
    as_json: Json = False,
) -> None:
    """Tune methods by random search on validation rows, with the same number of tries for each.

    Example: fcxplain bench tune --data adult --methods fcegan,vcnet,fcx-u --tries 20

    The first try of each method uses its default settings. `bench run --tuned` then uses the best.
    """
    _round_alike()
    from ..benchmark.results import read_results
    from ..benchmark.studies import SPACES, best_tries, plan_tuning

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
    shown = table_of("data", "method", "tries", "default success", "best", "changes", "settings")
    for one in best:
        settings = ", ".join(f"{name} {value}" for name, value in one.settings.items()) or "default"
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
        int, typer.Option(min=1, help="The number of runs to repeat: the quickest of as many methods.")
    ] = 3,
    as_json: Json = False,
) -> None:
    """Repeat a few runs, and say whether this machine reproduces the figures or how far off it is.

    Example: fcxplain bench check --data adult --runs 5
    """
    _round_alike()
    from ..benchmark.results import read_results
    from ..benchmark.runner import check

    with working("repeating runs", runs) as work:
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
    """Run the paper's six ablation studies: vary one setting of FCx as published, and keep the rest.

    Example: fcxplain bench ablation --study components --data adult --seed 0

    The default method is the paper's with binary rules and its authors' weights, fcx-b-authors (for the loss curves
    also fcx-u-authors).
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
    folder: Annotated[Path, typer.Option("--out", help="The folder to write to.")] = Path("docs/reproduction"),
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data", help="Comma-separated data sets; all by default.", autocompletion=console.some_data_sets
        ),
    ] = None,
    pictures: Annotated[bool, typer.Option(help="Draw plots; needs matplotlib.")] = True,
    pages: Annotated[
        list[Path] | None,
        typer.Option(
            "--page", help="A Markdown page of yours with places for tables: `<!-- success -->` ... `<!-- end -->`."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write results as Markdown, CSV and plots, with the paper's figures next to ours.

    Example: fcxplain bench report --results benchmarks/results --out docs/reproduction

    Results from different versions of the code are refused, since they cannot be compared.
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
    """The data sets whose files are on this machine."""
    from ..datasets import DATASETS
    from ..datasets.download import whereabouts

    return [name for name, spec in DATASETS.items() if spec.published and whereabouts(spec.file)]


def _run(jobs: list[Job], folder: Path, time_limit: float | None, retry: bool, as_json: bool) -> None:
    """Run jobs, with progress on standard error and results on standard output."""
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
                    work.say(_line(result))
        except KeyboardInterrupt:
            kept = f"{counted(len(new), 'new result')} kept; run the same command again to resume"
            raise KeyboardInterrupt(kept) from None
    _end(jobs, new, folder, as_json)


def _end(jobs: list[Job], new: list[Result], folder: Path, as_json: bool) -> None:
    if as_json:
        print_json([result.to_dict() for result in new])
    failed = sum(result.failure is not None for result in new)
    there = len(jobs) - len(new)
    said = f"{len(new)} of {len(jobs)} runs done, {failed} of them failed; {there} were done before. In {folder}"
    err.print(escape(said), highlight=False, soft_wrap=True)


def _line(result: Result) -> str:
    """A result in one line."""
    if result.failure:
        return f"{result.job}: failed, {result.failure}"
    names = ("validity_soft", "validity", "feasibility_soft", "feasibility", "success")
    found = [f"{name} {result.figures[name]:.1f}" for name in names if name in result.figures]
    return f"{result.job}: {', '.join(found)}{' (copied from an equal run)' if result.copied_from else ''}"


@bench_app.command("classifiers")
def bench_classifiers(
    data: DataSets = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="Comma-separated kinds of classifier; all by default.",
            autocompletion=console.some_classifiers,
        ),
    ] = None,
    rows: Rows = None,
    output: Annotated[Path | None, typer.Option("--out", help="Write the table as Markdown.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train each kind of classifier on each data set, and score it on the test part.

    Example: fcxplain bench classifiers --data adult --data law --out classifiers.md
    """
    from ..benchmark.accuracy import markdown, measure_classifier
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


@bench_app.command("graphs")
def bench_graphs(
    tables: Annotated[int, typer.Option(min=1, help="The number of synthetic tables.")] = 20,
    rows: Annotated[int, typer.Option(min=100, help="Rows per table.")] = 100_000,
    features: Annotated[int, typer.Option(min=3, help="Features per table, a third of them categorical.")] = 10,
    alpha: Annotated[float, typer.Option(help="Significance level.")] = 0.01,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Score causal discovery against known graphs, for several effective sample sizes.

    Example: fcxplain bench graphs --tables 10 --rows 20000
    """
    from ..benchmark.accuracy import measure_discovery

    caps = (1_000, 2_000, 5_000, 10_000, 20_000)
    with working("discovering", len(caps)) as work:
        found = measure_discovery(
            caps, tables=tables, rows=rows, features=features, alpha=alpha, seed=seed, on_progress=work.tell
        )
    if as_json:
        return print_json([asdict(one) for one in found])
    shown = table_of("effective rows", "precision", "recall", "F1", "F1 of arrows", "CPU s per table")
    for one in found:
        cap = f"{one.n_effective:,}"
        marks = (f"{v:.3f}" for v in (one.precision, one.recall, one.f1, one.arrow_f1))
        shown.add_row(cap, *marks, f"{one.seconds:.2f}")
    out.print(shown)
    return None


bench_app.command("speed")(bench_speed)
