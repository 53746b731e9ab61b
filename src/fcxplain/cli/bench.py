"""`fcxplain bench`: the measurements that the documentation quotes."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape

from ..files import check_output
from ..text import counted
from . import console
from .console import App, Json, Seed, err, option, out, print_json, split, table_of
from .progress import Work

if TYPE_CHECKING:
    from ..benchmark.plan import Job
    from ..benchmark.results import Result
    from ..benchmark.speed.dice import Contender
    from ..benchmark.speed.speed import Speed
    from ..benchmark.speed.timing import Growth, Timing
    from ..progress import Progress

bench_app = App(help="Run the measurements that the documentation quotes.", no_args_is_help=True)

DataSets = Annotated[
    list[str] | None,
    option("Comma-separated data sets; by default all whose files are on this machine.", among=console.DATA_SETS),
]
Methods = Annotated[
    list[str] | None,
    option(
        "Comma-separated names (fcx, fcx-search, fcx-draw, revise, ...), all, or your own class as "
        "package.module:Class; by default FCx and its variants.",
        "--methods",
        "--method",
        among=(*console.METHODS, "all"),
    ),
]
Seeds = Annotated[list[int] | None, option("A seed; 0, 1 and 2 by default.")]
Rows = Annotated[int | None, option("The number of rows to sample from each data set.", least=1)]
LimitRows = Annotated[int, option("The maximum number of refused test rows to explain, drawn by the seed.", least=1)]
Box = Annotated[
    str, option("The kind of classifier: paper, balanced, mlp, logistic or boosting.", among=console.CLASSIFIERS)
]
Results = Annotated[Path, option("The folder of results; runs that it already holds are not repeated.", "--out")]
TimeLimit = Annotated[float | None, option("The maximum seconds per run; each run then gets its own process.")]
Retry = Annotated[bool, option("Repeat failed runs.", "--retry")]
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
    rules: Annotated[
        str,
        option(
            "The rules that methods are given: own (those that each can take), none, or all (also as a condition "
            "on candidates, for methods that check any)."
        ),
    ] = "own",
    tuned: Annotated[bool, option("Use the best settings that bench tune has found in OUT.", "--tuned")] = False,
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
        list[str] | None, option("fcx-u, fcx-b, fcx-draw, fcegan, vcnet; all by default.", "--methods", "--method")
    ] = None,
    tries: Annotated[int, option("The number of settings to try for each method.", least=2)] = 20,
    seed: Annotated[list[int] | None, option("A seed of the runs; 0 by default.")] = None,
    search_seed: Annotated[int, option("Seed for drawing the settings.", least=0)] = 0,
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
    lines = []
    for one in best:
        settings = ", ".join(f"{name} {value}" for name, value in one.settings.items()) or "default"
        before = "" if one.before is None else f"{one.before:.1f}"
        success = (before, f"{one.success:.1f}", f"{one.changes:.2f}")
        lines.append((one.data, one.method, one.tries, *success, settings))
    heads = ("data", "method", "tries", "default success", "best", "changes", "settings")
    return out.print(table_of(*heads, rows=lines))


@bench_app.command("check")
def bench_check(
    results: Annotated[Path, option("The folder of results.")] = RESULTS,
    data: DataSets = None,
    runs: Annotated[int, option("The number of runs to repeat: the quickest of as many methods.", least=1)] = 3,
    as_json: Json = False,
) -> None:
    """Repeat a few runs, and say whether this machine reproduces the figures or how far off it is.

    Example: fcxplain bench check --data adult --runs 5
    """
    _round_alike()
    from ..benchmark.results import read_results
    from ..benchmark.runner import check

    with Work("repeating runs", runs) as work:
        found = list(check(read_results(results, split(data) or None), runs, work.tell))
    if as_json:
        return print_json([asdict(one) | {"same": one.same} for one in found])
    for one in found:
        out.print(escape(f"{one.job}: {one.words}"))
    return None


@bench_app.command("ablation")
def bench_ablation(
    study: Annotated[
        list[str] | None,
        option(
            "latent, lof-k-metric, lof-k-loss, pc-alpha, hyperparameters, components or curves; all by default.",
            among=console.STUDIES,
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
    results: Annotated[Path, option("The folder of results.")] = RESULTS,
    folder: Annotated[Path, option("The folder to write to.", "--out")] = Path("docs/reproduction"),
    data: Annotated[
        list[str] | None, option("Comma-separated data sets; all by default.", among=console.DATA_SETS)
    ] = None,
    pictures: Annotated[bool, option("Draw plots; needs matplotlib.")] = True,
    pages: Annotated[
        list[Path] | None,
        option("A Markdown page of yours with places for tables: `<!-- success -->` ... `<!-- end -->`.", "--page"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write results as Markdown, CSV and plots, with the paper's figures next to ours.

    Example: fcxplain bench report --results benchmarks/results --out docs/reproduction

    Results from different versions of the code are refused, since they cannot be compared.
    """
    from ..benchmark.report.report import write_report
    from ..benchmark.results import read_results

    with Work("writing the report"):
        written = write_report(read_results(results, split(data) or None), folder, pictures=pictures, pages=pages or ())
    paths = [str(path) for path in written]
    return print_json(paths) if as_json else out.print(escape("\n".join(paths)))


def _data_here() -> list[str]:
    """The data sets whose files are on this machine."""
    from ..datasets import DATASETS
    from ..datasets.download import whereabouts

    return [name for name, spec in DATASETS.items() if spec.published and whereabouts(spec.file)]


def _run(jobs: list[Job], folder: Path, time_limit: float | None, retry: bool, as_json: bool) -> None:
    """Run jobs, with progress on standard error and results on standard output."""
    from ..benchmark.runner import RUNNING, run

    new: list[Result] = []
    with Work("reading results", len(jobs)) as work:

        def show(event: Progress) -> None:
            work.move(event.done, what=event.stage)
            if event.note == RUNNING and not err.is_terminal:
                err.print(escape(f"{event.done + 1} of {event.total}: {event.stage}"))

        try:
            for result in run(jobs, folder, show, time_limit=time_limit, retry=retry):
                new.append(result)
                if not as_json:
                    work.say(_line(result))
        except KeyboardInterrupt:
            kept = f"{counted(len(new), 'new result')} kept; run the same command again to resume"
            raise KeyboardInterrupt(kept) from None
    if as_json:
        print_json([result.to_dict() for result in new])
    failed, there = sum(result.failure is not None for result in new), len(jobs) - len(new)
    done = f"{len(new)} of {len(jobs)} runs done, {failed} of them failed"
    err.print(escape(f"{done}; {there} were done before. In {folder}"))


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
        list[str] | None, option("Comma-separated kinds of classifier; all by default.", among=console.CLASSIFIERS)
    ] = None,
    rows: Rows = None,
    output: Annotated[Path | None, option("Write the table as Markdown.", "--out")] = None,
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
    with Work("training", len(names) * len(kinds)) as work:
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
    tables: Annotated[int, option("The number of synthetic tables.", least=1)] = 20,
    rows: Annotated[int, option("Rows per table.", least=100)] = 100_000,
    features: Annotated[int, option("Features per table, a third of them categorical.", least=3)] = 10,
    alpha: Annotated[float, option("Significance level.")] = 0.01,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Score causal discovery against known graphs, for several effective sample sizes.

    Example: fcxplain bench graphs --tables 10 --rows 20000
    """
    from ..benchmark.accuracy import measure_discovery

    caps = (1_000, 2_000, 5_000, 10_000, 20_000)
    with Work("discovering", len(caps)) as work:
        found = measure_discovery(
            caps, tables=tables, rows=rows, features=features, alpha=alpha, seed=seed, on_progress=work.tell
        )
    if as_json:
        return print_json([asdict(one) for one in found])
    lines = [
        (f"{m.n_effective:,}", *(f"{v:.3f}" for v in (m.precision, m.recall, m.f1, m.arrow_f1)), f"{m.seconds:.2f}")
        for m in found
    ]
    heads = ("effective rows", "precision", "recall", "F1", "F1 of arrows", "CPU s per table")
    return out.print(table_of(*heads, rows=lines))


@bench_app.command("speed")
def bench_speed(
    data: Annotated[str, option("The name of a data set.", among=console.DATA_SETS)] = "adult",
    sample: Annotated[str | None, option("The sample of the data set, e.g. all (folktables).")] = None,
    what: Annotated[
        list[str] | None,
        option(
            "tables, training, growth, explaining, streaming, compare, models, budget, quick; all by default. Or "
            "large, or memory.",
            among=console.SPEEDS,
        ),
    ] = None,
    repeat: Annotated[int, option("The number of repetitions; the best counts.", least=1)] = 5,
    up_to: Annotated[
        int, option("The maximum number of rows in growth, streaming and large.", least=1_000)
    ] = 1_000_000,
    rows: Annotated[
        int | None, option("Rows explained by compare (30 by default), models and budget (300).", least=1)
    ] = None,
    picture: Annotated[
        Path | None, option("Plot the cost per row in growth and streaming (.svg, .png or .pdf).")
    ] = None,
    curve: Annotated[
        Path | None, option("Plot the quality of answers against the budget (.svg, .png or .pdf).")
    ] = None,
    page: Annotated[
        Path | None, option("Fill in the tables of models, budget and large on a Markdown page, as bench report does.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure speed against a plain baseline, and against dice-ml.

    Example: fcxplain bench speed --what streaming --json --picture speed-rows.svg

    All times are CPU seconds of one thread.

    tables: encode, decode and repair every row, against plain numpy and pandas.

    training: FCx as published, with all terms and with each alone, against the network without terms.

    growth: one epoch on 10,000 to a million rows, with its memory.

    explaining: each preference, in a batch and row by row, and a single draw against its baseline.

    streaming: file to file, 1,000 to a million rows.

    compare: CPU seconds per verified answer of the baseline, of FCx and of dice-ml (if installed) on the same rows.

    models: six kinds of model, queried about every candidate, and read or imitated.

    budget: quality of answers by the number of model queries allowed, with and without a generator.

    quick: one pass against the full search.

    large: files to a folder with one process and with one and two Dask workers, 100,000 and a million rows; with
    --up-to 10000000 also ten million in one pass.

    memory: one epoch of a fit, on its own.
    """
    from ..benchmark.speed.speed import MEASURED, measured

    for path, flag in ((picture, "--picture"), (curve, "--curve")):
        if path is not None:
            check_output(path, console.PICTURES, flag)
    chosen = split(what) or list(MEASURED)
    how: dict[str, Any] = {"sample": sample, "repeat": repeat, "up_to": up_to, "rows": rows, "seed": seed}
    # A million rows take longer than a thousand, so the pace so far does not predict the time left.
    with Work(f"measuring on {data}", even=False) as work:
        found = measured(data, chosen, on_progress=work.tell, **how)
    for path, draw in ((picture, found.draw), (curve, found.draw_budgets)):
        if path is not None:
            draw(path)
            err.print(escape(f"picture in {path}"))
    if page is not None:
        found.fill(page)
    if as_json:
        print_json(found.to_dict())
    else:
        _show(found)


def _show(found: Speed) -> None:
    """Print the tables that were measured, their notes, and the machine."""
    growth = ("CPU s", "microseconds per row", "more memory, MB")
    contenders = ("method", "verified", "CPU ms each", "valid, %", "feasible, %", "changes", "fit, CPU s")
    tables = [
        (("job", "rows", "CPU s", "rows per CPU s", "baseline, CPU s", "ratio"), map(_timing, found.timings)),
        (("rows of one epoch", *growth), map(_growth, found.growth)),
        (("rows explained, file to file", *growth), map(_growth, found.streaming)),
        (contenders, map(_contender, found.compare)),
        *((lines[0], lines[1:]) for lines in found.tables().values()),
    ]
    for heads, lines in tables:
        shown = table_of(*heads, rows=lines)
        if shown.row_count:
            out.print(shown)
    noted = [*((c.name, c.note) for c in found.compare), *((m.model, m.note) for m in found.models)]
    for name, note in noted:
        if note:
            out.print(escape(f"{name}: {note}"))
    out.print(f"peak memory of this process: {found.peak / 1e6:,.0f} MB")
    out.print(escape(f"measured on {found.machine}"))


def _timing(t: Timing) -> tuple[str, ...]:
    floor, ratio = ("", "") if t.floor is None else (f"{t.floor:.3f}", f"{t.ratio:.2f}")
    return t.job, f"{t.rows:,}", f"{t.seconds:.3f}", f"{t.rows_per_second:,.0f}", floor, ratio


def _growth(g: Growth) -> tuple[str, ...]:
    return f"{g.rows:,}", f"{g.seconds:.2f}", f"{1e6 * g.seconds_per_row:.1f}", f"{g.memory / 1e6:,.0f}"


def _contender(c: Contender) -> tuple[str, ...]:
    each = "" if c.seconds_per_verified is None else f"{1e3 * c.seconds_per_verified:,.1f}"
    figures = ("" if v is None else f"{v:.1f}" for v in (c.validity, c.feasibility, c.changes, c.fitting))
    return c.name, "" if c.seconds is None else f"{c.verified} of {c.rows}", each, *figures
