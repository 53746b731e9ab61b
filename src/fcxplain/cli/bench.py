"""`fcxplain bench`: measurements that the documents quote."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from .console import Json, Seed, err, out, print_json, table_of

if TYPE_CHECKING:
    from ..benchmark.plan import Job
    from ..benchmark.results import Result
    from ..benchmark.runner import Progress as Step

bench_app = typer.Typer(help="Measurements that the documents quote.", no_args_is_help=True)

DataSets = Annotated[list[str] | None, typer.Option("--data", help="A data set; all that are here by default.")]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--methods",
        "--method",
        help="Names with commas between them (fcx, fcx-u, revise, ...), all, or a class of your own as "
        "package.module:Class; FCx and its variants by default.",
    ),
]
Seeds = Annotated[list[int] | None, typer.Option("--seed", help="A seed; 0, 1 and 2 by default.")]
Rows = Annotated[int | None, typer.Option(help="A sample of so many rows of each data set.")]
LimitRows = Annotated[int, typer.Option(help="Explain at most so many refused test rows, drawn by the seed.")]
Box = Annotated[str, typer.Option("--classifier", help="The kind of black box: paper, mlp, logistic or boosting.")]
Results = Annotated[Path, typer.Option("--out", help="The folder of results; what it has already is not done again.")]
TimeLimit = Annotated[
    float | None, typer.Option(help="Stop a run after so many seconds; each run then has a process of its own.")
]
Retry = Annotated[bool, typer.Option("--retry", help="Do failed runs again.")]
RESULTS = Path("benchmarks/results")


@bench_app.command("run")
def bench_run(
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
    """Measure methods on data sets, once for each seed; what was cut off goes on when it is started again.

    Each run leaves a line in OUT/DATA.jsonl: its figures, or why there are none.

    Example: fcxplain bench run --data adult,law --methods all --seed 0 --seed 1 --limit-rows 500
    """
    from ..benchmark.plan import METHODS, OURS, plan

    named = split(method)
    jobs = plan(
        split(data) or _data_here(),
        METHODS if named == ["all"] else named or OURS,
        seed or (0, 1, 2),
        rows=rows,
        classifier=classifier,
        explained=limit_rows,
    )
    _run(jobs, folder, time_limit, retry, as_json)


@bench_app.command("ablation")
def bench_ablation(
    study: Annotated[
        list[str] | None,
        typer.Option("--study", help="latent, lof-k, pc-alpha, hyperparameters, components or curves; all by default."),
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

    The method is fcx-b, as in the paper (for the loss curves fcx-u and fcx-b), unless another is named.

    Example: fcxplain bench ablation --study components --data adult --seed 0
    """
    from ..benchmark.studies import STUDIES, plan_studies

    jobs = plan_studies(
        study or STUDIES,
        data or _data_here(),
        seed or (0, 1, 2),
        methods=method,
        rows=rows,
        classifier=classifier,
        explained=limit_rows,
    )
    _run(jobs, folder, time_limit, retry, as_json)


@bench_app.command("report")
def bench_report(
    results: Annotated[Path, typer.Option(help="The folder of results.")] = RESULTS,
    folder: Annotated[Path, typer.Option("--out", help="Where to write.")] = Path("docs/reproduction"),
    data: Annotated[list[str] | None, typer.Option("--data", help="Of these data sets only.")] = None,
    pictures: Annotated[bool, typer.Option(help="Draw pictures; they need matplotlib.")] = True,
    as_json: Json = False,
) -> None:
    """Write results as Markdown, CSV and pictures, with the paper's figures beside ours.

    Example: fcxplain bench report --results benchmarks/results --out docs/reproduction
    """
    from ..benchmark.report import write_report
    from ..benchmark.results import read_results

    with err.status("writing"):
        written = write_report(read_results(results, data), folder, pictures=pictures)
    if as_json:
        return print_json([str(path) for path in written])
    for path in written:
        out.print(escape(str(path)), highlight=False, soft_wrap=True)
    return None


def split(given: list[str] | None) -> list[str]:
    """Names that were given one by one, or several with commas between them."""
    return [name.strip() for part in given or [] for name in part.split(",") if name.strip()]


def _data_here() -> list[str]:
    """The data sets whose files are here."""
    from ..datasets import DATASETS
    from ..datasets.files import whereabouts

    return [name for name, spec in DATASETS.items() if whereabouts(spec.file)]


def _run(jobs: list[Job], folder: Path, time_limit: float | None, retry: bool, as_json: bool) -> None:
    """Do jobs, telling on standard error what is being done, and on standard output what came of it."""
    from ..benchmark.runner import run

    new: list[Result] = []
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as shown:
        bar = shown.add_task("reading results", total=len(jobs))

        def show(step: Step) -> None:
            done = step.number - (step.state == "running")
            shown.update(bar, description=escape(str(step.job)), completed=done)
            if step.state == "running" and not err.is_terminal:
                err.print(escape(f"{step.number} of {step.of}: {step.job}"), highlight=False, soft_wrap=True)

        try:
            for result in run(jobs, folder, show, time_limit=time_limit, retry=retry):
                new.append(result)
                if not as_json:
                    out.print(escape(_told(result)), highlight=False, soft_wrap=True)
        except KeyboardInterrupt:
            shown.stop()
            err.print(f"stopped; {len(new)} results are kept, and the same command goes on from there")
            raise typer.Exit(130) from None
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
    data: Annotated[list[str] | None, typer.Option("--data", help="Data sets; all that are here by default.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--kind", help="Kinds of classifier; all by default.")] = None,
    rows: Annotated[int | None, typer.Option(help="At most so many rows of each data set.")] = None,
    output: Annotated[Path | None, typer.Option("--out", help="Write the table as Markdown.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train every kind of classifier on every data set and score it on the test part.

    Example: fcxplain bench classifiers --data adult --data law --out classifiers.md
    """
    from ..benchmark.classifiers import markdown, measure_all
    from ..classifier import KINDS
    from ..datasets import DATASETS
    from ..datasets.files import whereabouts

    names = data or [n for n, spec in DATASETS.items() if whereabouts(spec.file)]
    kinds = kind or list(KINDS)
    results = []
    with err.status("training") as status:
        for result in measure_all(names, kinds, seed=seed, rows=rows):
            results.append(result)
            status.update(f"{len(results)} of {len(names) * len(kinds)}: {result.data}, {result.kind} done")
            if not as_json:
                said = f"{result.data}, {result.kind}: accuracy {result.accuracy:.1%}"
                out.print(f"{said}, balanced {result.balanced_accuracy:.1%}", highlight=False)
    if as_json:
        print_json([asdict(r) for r in results])
    if output is not None:
        from ..writing import write_whole

        write_whole(output, markdown(results))


@bench_app.command("speed")
def bench_speed(
    data: Annotated[str, typer.Option("--data", help="A data set's name.")] = "adult",
    sample: Annotated[str | None, typer.Option(help="Which sample of it, e.g. all (folktables).")] = None,
    what: Annotated[
        list[str] | None,
        typer.Option("--what", help="tables, training, growth, explaining, streaming; all by default. Or memory."),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Turns; the best of each counts.")] = 5,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure encoding, repairing and training against the plain work that they contain.

    Tables: encoding, decoding and repairing every row, against plain numpy and pandas. Training: FCx as published,
    all terms and each alone, against the bare network. Growth: one epoch on 10,000 to a million rows, with the
    memory that it takes. Explaining: by each preference, in a batch and one row at a time, and with a single draw
    against the bare work. Streaming: file to file, 1,000 to a million rows. Memory: a fit of one epoch with nothing
    beside it. CPU seconds of one thread.

    Example: fcxplain bench speed --data folktables --sample all
    """
    from ..benchmark.speed import MEASURED, measured

    with err.status(f"measuring on {data}"):
        found = measured(data, what or list(MEASURED), sample=sample, repeat=repeat, seed=seed)
    if as_json:
        return print_json(found.to_dict())
    if found.timings:
        shown = table_of("job", "rows", "CPU s", "rows per CPU s", "bare work, CPU s", "ratio")
        for t in found.timings:
            floor, ratio = ("", "") if t.floor is None else (f"{t.floor:.3f}", f"{t.ratio:.2f}")
            shown.add_row(t.job, f"{t.rows:,}", f"{t.seconds:.3f}", f"{t.rows_per_second:,.0f}", floor, ratio)
        out.print(shown)
    for growth, title in ((found.growth, "rows of one epoch"), (found.streaming, "rows explained, file to file")):
        if growth:
            shown = table_of(title, "CPU s", "microseconds a row", "more memory, MB")
            for g in growth:
                memory = f"{g.memory / 1e6:,.0f}"
                shown.add_row(f"{g.rows:,}", f"{g.seconds:.2f}", f"{1e6 * g.seconds_per_row:.1f}", memory)
            out.print(shown)
    out.print(f"peak memory of this process: {found.peak / 1e6:,.0f} MB", highlight=False)
    return None


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
    from ..benchmark.graphs import measure

    with err.status("discovering"):
        caps = (1_000, 2_000, 5_000, 10_000, 20_000)
        found = measure(caps, tables=tables, rows=rows, features=features, alpha=alpha, seed=seed)
    if as_json:
        return print_json([asdict(one) for one in found])
    shown = table_of("effective rows", "precision", "recall", "F1", "F1 of arrows", "CPU s a table")
    for one in found:
        cap = f"{one.n_effective:,}"
        marks = (f"{v:.3f}" for v in (one.precision, one.recall, one.f1, one.arrow_f1))
        shown.add_row(cap, *marks, f"{one.seconds:.2f}")
    out.print(shown)
    return None
