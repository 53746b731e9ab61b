"""`fcxplain evaluate` and `graph`: measure a saved model's answers, and show its causal graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..errors import DataError, Fault
from ..files import check_output
from . import console
from .console import PICTURES, Ignore, Json, Label, SchemaFile, Seed, SkipMissing, out, print_json, table_of
from .progress import working

if TYPE_CHECKING:
    import pandas as pd

    from ..causal import CausalGraph
    from ..datasets import Dataset
    from ..explainer import FCx
    from ..explanation import Explanation
    from ..metrics import Evaluation
    from ..progress import OnProgress


Model = Annotated[Path, typer.Argument(help="The folder of a saved model (see `fcxplain fit`).")]
Rows = Annotated[
    str,
    typer.Argument(
        help="A CSV or parquet file, a folder or 'glob' of such files, an fsspec address (s3://...), or the name of a "
        "data set (its test part).",
        autocompletion=console.data_sets,
    ),
]
OwnClassifier = Annotated[
    str | None,
    typer.Option(
        "--classifier",
        help="Your own classifier, if the model was fitted to one: model.onnx or module:attribute.",
        autocompletion=console.classifiers,
    ),
]
CalledBy = Annotated[
    str | None,
    typer.Option(
        "--index",
        "--id",
        help="The column with the row labels; by default the one given to fit. '' labels rows by number.",
    ),
]


def evaluate(
    model: Model,
    rows: Annotated[
        str | None,
        typer.Option(
            help="A file or the name of a data set; by default the test part of the model's own data.",
            autocompletion=console.data_sets,
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(help="Comma-separated names; all by default.", autocompletion=console.metrics),
    ] = None,
    convention: Annotated[
        str,
        typer.Option(
            help="How to count: ours, or authors (as the paper's code does).", autocompletion=console.conventions
        ),
    ] = "ours",
    limit: Annotated[int | None, typer.Option(min=1, help="The maximum number of refused rows.")] = None,
    answers: Annotated[
        str | None,
        typer.Option(help="Measure the answers in this file or folder (see `fcxplain explain --out`) instead."),
    ] = None,
    index: CalledBy = None,
    skip_missing: SkipMissing = False,
    classifier: OwnClassifier = None,
    as_json: Json = False,
) -> None:
    """Measure the answers for refused rows: validity, feasibility, proximity, plausibility.

    Example: fcxplain evaluate model --metrics validity,feasibility,success

    Example: fcxplain evaluate model --answers answers/
    """
    from ..explainer import FCx
    from ..metrics import evaluate as measure
    from ..metrics.evaluation import checked

    names = [name.strip() for name in (metrics or "").split(",") if name.strip()]
    checked(names or None, convention)
    with working("loading the model and the rows"):
        fcx = FCx.load(model, classifier)
        if answers is not None:
            answer = _saved_answers(fcx, answers, {"--rows": rows, "--limit": limit, "--index": index})
        else:
            table = _rows(fcx, model, rows, index, skip_missing=skip_missing)[list(fcx.task_.schema.names)]
            refused = table[fcx.task_.refused(table)].iloc[:limit]
    if answers is None:
        with working("explaining rows", len(refused)) as work:
            answer = fcx.explain(refused, on_progress=work.tell)
    with working("measuring"):
        found = measure(answer, metrics=names or None, convention=convention)
    if as_json:
        print_json(found.to_dict())
    else:
        _print_evaluation(found)


def _saved_answers(fcx: FCx, answers: str, others: Mapping[str, object]) -> Explanation:
    """The answers of a file or folder; options that choose rows to explain are refused."""
    from ..explanation import read_answers

    faults = [Fault(name, "is for rows to explain", "Leave it out.") for name, given in others.items() if given]
    if faults:
        raise DataError("--answers", faults)
    return read_answers(answers, fcx)


def rows_named(
    rows: str, fcx: FCx, index: str | None, *, skip_missing: bool = False, strict: bool = True
) -> pd.DataFrame:
    """All rows of a file, of several files, or of a data set."""
    from ..datasets.source import Source, read_rows
    from ..storage import is_several
    from ..streaming import RowFiles

    source = Source.remembered(fcx.source_)
    if is_built_in(rows) or not is_several(rows):
        return read_rows(rows, fcx.task_, source, index=index, skip_missing=skip_missing, strict=strict)
    if skip_missing:
        raise DataError("", [Fault("--skip-missing", "is for rows of one file", "Leave it out.")])
    return RowFiles(rows, fcx.task_, index_of(rows, fcx, index), strict=strict).read()


def is_built_in(rows: str) -> bool:
    """Whether this is the name of a data set."""
    from ..datasets import DATASETS

    return rows in DATASETS


def index_of(rows: str, fcx: FCx, index: str | None) -> str | None:
    """The column with the labels of rows in files."""
    from ..datasets.source import Source, index_in
    from ..datasets.tables import columns_of
    from ..storage import is_several
    from ..streaming import RowFiles

    several = is_several(rows)
    names = RowFiles(rows, fcx.task_, strict=False).files[0].names if several else columns_of(Path(rows))
    return index_in(names, Source.remembered(fcx.source_), index)


def _rows(fcx: FCx, folder: Path, rows: str | None, index: str | None, *, skip_missing: bool) -> pd.DataFrame:
    """The given rows, or the test part of the model's own data."""
    if rows is None and index is not None:
        raise DataError("", [Fault(f"index {index!r}", "is for your own rows", "Give their file with --rows.")])
    if rows is None:
        return _own_data(fcx, folder).test
    return rows_named(rows, fcx, index, skip_missing=skip_missing)


def _print_evaluation(found: Evaluation) -> None:
    from ..metrics import CONVENTIONS, METRICS

    measures = METRICS | CONVENTIONS[found.convention]
    head = f"{found.method}: {found.asked:,} refused rows, {found.answers:,} answers, {len(found.rules)} rules"
    out.print(escape(head), highlight=False)
    table = table_of("metric", "value", "what it means")
    table.columns[1].justify = "right"
    for name, value in found.values.items():
        meaning = (measures[name].__doc__ or "").strip().partition("\n")[0]
        shown = "absent" if name in found.reasons else f"{value:,.2f}"
        meaning = f"{meaning} Absent: {found.reasons[name]}." if name in found.reasons else meaning
        table.add_row(name, shown, escape(meaning))
    out.print(table)
    for note in found.notes:
        out.print("[cyan]note:[/]", escape(note), highlight=False)


def graph(
    model: Annotated[Path | None, typer.Argument(help="The folder of a saved model; or use --data.")] = None,
    output: Annotated[
        Path | None, typer.Option("--out", help="Write the graph (.svg, .png, .pdf, .csv, .dot).")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="A data set or a file in which to discover a graph.", autocompletion=console.data_sets),
    ] = None,
    label: Label = None,
    schema_file: SchemaFile = None,
    ignore: Ignore = None,
    significance: Annotated[
        float | None,
        typer.Option(
            "--significance",
            "--alpha",
            help="Significance level of the tests; 0.01 by default. Lower gives fewer edges.",
        ),
    ] = None,
    n_effective: Annotated[
        int | None,
        typer.Option(min=0, help="The maximum sample size that the tests assume; 5000 by default, 0 for all rows."),
    ] = None,
    bootstrap: Annotated[
        int, typer.Option(min=0, help="The number of resamples that measure how stable each edge is.")
    ] = 0,
    seed: Seed = 0,
    classifier: OwnClassifier = None,
    as_json: Json = False,
) -> None:
    """Show which feature causes which: the graph of a saved model, or one discovered in a table.

    Example: fcxplain graph --data adult --bootstrap 20 --out graph.svg

    With --bootstrap, the support of an edge is the share of resamples in which it was found.
    """
    chosen: dict[str, Any] = {"--label": label, "--schema": schema_file, "--significance": significance}
    chosen |= {"--n-effective": n_effective}
    _check_choice(model, data, chosen | {"--ignore": ignore})
    if output is not None:
        check_output(output, (*PICTURES, ".csv", ".dot"), "--out")
    with working("looking for causes") as work:
        if data is None:
            found = _model_graph(Path(str(model)), classifier, bootstrap, work.tell)
        else:
            settings: dict[str, Any] = {"bootstrap": bootstrap, "on_progress": work.tell}
            settings |= {} if significance is None else {"significance": significance}
            settings |= {} if n_effective is None else {"n_effective": n_effective or None}
            found = _discovered(data, label, schema_file, ignore or [], seed, settings)
    if output is not None:
        _write_graph(found, output, title=str(data or model))
    if as_json:
        print_json(found.to_dict())
    elif output is None:
        _print_graph(found)
    else:
        summary = f"{len(found.nodes)} features, {len(found.edges)} edges, written to {output}"
        out.print(escape(summary), highlight=False, soft_wrap=True)


def _write_graph(graph: CausalGraph, path: Path, title: str) -> None:
    """A causal graph as a picture, a CSV table or DOT."""
    if path.suffix.lower() == ".csv":
        graph.to_csv(path)
    elif path.suffix.lower() == ".dot":
        graph.to_dot(path)
    else:
        from .. import plots

        plots.save(plots.causal_graph(graph, title=title), path)


def _print_graph(found: CausalGraph) -> None:
    table = table_of("from", "", "to", *(["support"] if found.support else []))
    for a, b in found.edges:
        share = found.support_of(a, b)
        arrow = "->" if (a, b) in found.directed else "--"
        table.add_row(escape(a), arrow, escape(b), *([] if share is None else [f"{share:.0%}"]))
    if found.edges:
        out.print(table)
    loose = f", {len(found.undirected)} of them of unknown direction (--)" if found.undirected else ""
    out.print(f"{len(found.nodes)} features, {len(found.edges)} edges{loose}", highlight=False)


def _check_choice(model: Path | None, data: str | None, chosen: Mapping[str, Any]) -> None:
    """Refuse neither or both of a model and data, and options for discovery with a model."""
    if (model is None) == (data is None):
        raise DataError("give either the folder of a model or --data, e.g. fcxplain graph --data adult")
    stray = [option for option, value in chosen.items() if value is not None]
    if model is not None and stray:
        problem = "does not apply to a saved model, whose graph is fixed"
        raise DataError("", [Fault(option, problem, "Use it with --data, without a model.") for option in stray])


def _model_graph(folder: Path, classifier: str | None, bootstrap: int, on_progress: OnProgress) -> CausalGraph:
    """The graph that a model was fitted with; with `bootstrap`, the support of its edges in the data of the fit."""
    from ..causal import CausalGraph, discover
    from ..explainer import FCx
    from ..saving import read
    from ..saving.explainer import KIND

    # Without a bootstrap, the classifier is not needed.
    kept = CausalGraph.from_dict(read(folder, KIND).content.get("graph"))
    if not bootstrap:
        return kept
    fcx = FCx.load(folder, classifier)
    settings: dict[str, Any] = {"significance": fcx.significance, "n_effective": fcx.n_effective, "seed": fcx.seed}
    found = discover(
        _own_data(fcx, folder).train, fcx.task_.schema, bootstrap=bootstrap, on_progress=on_progress, **settings
    )
    if replace(found, support=()) != replace(kept, support=()):
        problem = "has a graph that was given, or its data has changed: resamples say nothing about it"
        remedy = "Leave --bootstrap out, or discover a graph in the data with --data."
        raise DataError("", [Fault(str(folder), problem, remedy)])
    return found


def _own_data(fcx: FCx, folder: Path) -> Dataset:
    """The data that a model was fitted on."""
    from ..datasets.source import Source

    source = Source.remembered(fcx.source_)
    if source is None:
        remedy = "Pass your own rows, or fit it again with `fcxplain fit`."
        raise DataError("", [Fault(str(folder), "does not record its data", remedy)])
    return source.load_again(fcx.task_.schema)


def _discovered(
    data: str,
    label: str | None,
    schema_file: Path | None,
    ignore: Sequence[str],
    seed: int,
    settings: Mapping[str, Any],
) -> CausalGraph:
    """The graph of the training rows, as `fit` finds it, or of all complete rows of a table without a label."""
    from ..causal import discover
    from ..datasets.source import Source, load_features

    source = Source.of(data, label=label, seed=seed, schema=schema_file)
    if source.is_built_in or label is not None:
        loaded = source.load(ignore=ignore)
        return discover(loaded.train, loaded.schema, seed=seed, **settings)
    schema, rows = load_features(data, schema=schema_file, ignore=ignore)
    return discover(rows, schema, seed=seed, **settings)
