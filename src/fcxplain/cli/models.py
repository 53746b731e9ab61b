"""`fcxplain evaluate`, `verify` and `graph`: measure a saved model's answers, check them, and show its causal graph."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..errors import DataError, Fault
from ..files import check_output
from ..text import counted
from . import console
from .console import argument, as_given, need_extra, option, out, print_json, split, table_of
from .progress import Work

if TYPE_CHECKING:
    import pandas as pd

    from ..causal import CausalGraph
    from ..datasets import Dataset
    from ..explainer import FCx
    from ..explanation import Explanation
    from ..explanation.files.verification import Verification
    from ..metrics import Evaluation
    from ..progress import OnProgress

# Differences listed, and characters shown of a value.
SHOWN, LETTERS = 12, 60


Model = Annotated[Path, argument("The folder of a saved model (see `fcxplain fit`).")]
Rows = Annotated[
    str,
    argument(
        "A CSV or parquet file, a folder or 'glob' of such files, an fsspec address (s3://...), or the name "
        "of a data set (its test part).",
        among=console.DATA_SETS,
    ),
]
OwnClassifier = Annotated[
    str | None,
    option(
        "Your own classifier, if the model was fitted to one: model.onnx or module:attribute.",
        among=console.CLASSIFIERS,
    ),
]
CalledBy = Annotated[
    str | None,
    option(
        "The column with the row labels; by default the one given to fit. '' labels rows by number.", "--index", "--id"
    ),
]


def evaluate(
    model: Model,
    rows: Annotated[
        str | None,
        option(
            "A file or the name of a data set; by default the test part of the model's own data.",
            among=console.DATA_SETS,
        ),
    ] = None,
    metrics: Annotated[str | None, option("Comma-separated names; all by default.", among=console.METRICS)] = None,
    convention: Annotated[
        str, option("How to count: ours, or authors (as the paper's code does).", among=console.CONVENTIONS)
    ] = "ours",
    limit: Annotated[int | None, option("The maximum number of refused rows.", least=1)] = None,
    answers: Annotated[
        str | None, option("Measure the answers in this file or folder (see `fcxplain explain --out`) instead.")
    ] = None,
    index: CalledBy = None,
    skip_missing: console.SkipMissing = False,
    classifier: OwnClassifier = None,
    as_json: console.Json = False,
) -> None:
    """Measure the answers for refused rows: validity, feasibility, proximity, plausibility.

    Example: fcxplain evaluate model --metrics validity,feasibility,success

    Example: fcxplain evaluate model --answers answers/
    """
    from ..explainer import FCx
    from ..metrics import evaluate as measure
    from ..metrics.evaluation import checked

    names = split([metrics or ""])
    checked(names or None, convention)
    with Work("loading the model and the rows"):
        fcx = FCx.load(model, classifier)
        if answers is not None:
            answer = _saved_answers(fcx, answers, {"--rows": rows, "--limit": limit, "--index": index})
        else:
            table = _rows(fcx, model, rows, index, skip_missing=skip_missing)[list(fcx.task_.schema.names)]
            refused = table[fcx.task_.refused(table)].iloc[:limit]
    if answers is None:
        with Work("explaining rows", len(refused)) as work:
            answer = fcx.explain(refused, on_progress=work.tell)
    with Work("measuring"):
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


def given_overrides(path: Path | None) -> Any:
    """The overrides in a file, if one is given."""
    from ..overrides import read_overrides

    return None if path is None else read_overrides(path)


def read_key(path: Path | None) -> bytes | None:
    """The secret bytes of a key file, if one is given."""
    from ..explanation.files.digest import checked_key

    try:
        return None if path is None else checked_key(path.read_bytes())
    except OSError as error:
        remedy = f"Make one: openssl rand -out {path} 32."
        raise DataError("", [Fault(f"--key {path}", f"cannot be read ({error.strerror})", remedy)]) from error


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
    out.print(escape(head))
    rows = []
    for name, value in found.values.items():
        meaning = (measures[name].__doc__ or "").strip().partition("\n")[0]
        reason = found.reasons.get(name)
        absent = ("absent", f"{meaning} Absent: {reason}.")
        rows.append((name, *((f"{value:,.2f}", meaning) if reason is None else absent)))
    table = table_of("metric", "value", "what it means", rows=rows)
    table.columns[1].justify = "right"
    out.print(table)
    for note in found.notes:
        out.print("[cyan]note:[/]", escape(note))


def verify(
    model: Annotated[Path, argument("The folder of a saved model; or, with --model, a receipt.")],
    rows: Annotated[str | None, argument("A CSV or parquet file, a folder or glob of them, or a data set.")] = None,
    answers: Annotated[str | None, argument("The file or folder that `fcxplain explain --out` wrote.")] = None,
    folder: Annotated[
        Path | None, option("The model to check a receipt of `fcxplain serve` against.", "--model")
    ] = None,
    overrides: Annotated[Path | None, option("The --overrides of `explain`; the answers must have the same.")] = None,
    target: Annotated[list[str] | None, option("The --target of `explain`; the answers must have the same.")] = None,
    at_least: Annotated[float | None, option("The --at-least of `explain`; the answers must have the same.")] = None,
    key: Annotated[Path | None, option("The --key of `explain`: only it proves who wrote the file.")] = None,
    index: CalledBy = None,
    skip_missing: console.SkipMissing = False,
    classifier: OwnClassifier = None,
    as_json: console.Json = False,
) -> None:
    """Check every answer in a file again, and the file against its digest.

    Example: fcxplain verify model rows.csv answers.parquet

    Example: fcxplain verify receipt.json --model model

    Each certificate is rebuilt from the counterfactual alone, with the classifier, the rules and the rows at hand, and
    compared with the one in the file. Claims that only a new search could check (that a row has no answer, that none is
    possible, why not) are taken from the file; the digest shows whether they were edited. Without a key, the digest
    detects damage and careless edits only, since anyone who edits the file can compute a new digest.

    A receipt.json of `fcxplain serve` is checked against its signature and against the model given by --model.

    Exits with code 0 if everything holds, 1 if anything differs (an edited file, another classifier, other rules or
    overrides, a missing row, another key), 2 if a file cannot be read.
    """
    if folder is not None:
        return _verify_receipt(model, folder, classifier, as_json)
    if rows is None or answers is None:
        remedy = "Give MODEL ROWS ANSWERS; or a receipt and --model MODEL."
        raise DataError("", [Fault("verify", "needs the model, the rows and the file of answers", remedy)])
    from ..explainer import FCx
    from ..explanation.files.verification import verify as verified

    own, secret = given_overrides(overrides), read_key(key)
    with Work("loading the model and the rows"):
        fcx = FCx.load(model, classifier, any_classifier=True)
        task, table = fcx.task_, rows_named(rows, fcx, index, skip_missing=skip_missing, strict=False)
    with Work("checking answers", len(table)) as work:
        asked: dict[str, Any] = {"target": as_given(target), "target_probability": at_least}
        found = verified(task, table, answers, overrides=own, key=secret, on_progress=work.tell, **asked)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
    if not found.passed:
        raise typer.Exit(1)
    return None


def _verify_receipt(path: Path, folder: Path, classifier: str | None, as_json: bool) -> None:
    """Check the signature, model, rules and answer of a receipt."""
    from ..explainer import FCx

    need_extra()
    from ..service.receipts import held_against, read_receipt

    if not path.is_file():
        raise DataError("", [Fault(str(path), "does not exist", "Give the file of a receipt.")])
    receipt = read_receipt(path.read_bytes())
    with Work("loading the model"):
        task = FCx.load(folder, classifier, any_classifier=True).task_
    found = held_against(task, receipt)
    if as_json:
        print_json(found.to_dict())
    else:
        verdict = "[bold green]it holds[/]" if found.holds else "[bold red]IT DOES NOT HOLD[/]"
        out.print(f"{verdict}: receipt {escape(receipt['id'])} of {escape(str(receipt['issued']))}")
        for name in ("signature", "model", "rules", "answer"):
            mark = "[green]holds[/]" if getattr(found, name) else "[bold red]DOES NOT HOLD[/]"
            out.print(f"  {name}: {mark}")
        out.print(f"  signed by the key {escape(found.key)}")
        for said in found.differences:
            out.print(f"  {escape(_short(said))}")
    if not found.holds:
        raise typer.Exit(1)


def _print(found: Verification) -> None:
    if found.passed:
        out.print("[bold green]verified:[/] all answers and certificates hold")
    elif found.total:
        out.print(f"[bold red]NOT VERIFIED: {counted(found.total, 'difference')}[/]")
        _print_differences(found)
    else:
        out.print("[bold red]NOT VERIFIED:[/] answers and certificates hold, the digest does not")
    colour = "bold red" if not found.digest.holds else "cyan"
    out.print(f"[{colour}]digest:[/]", escape(found.digest.words))
    content = f"{counted(found.rows, 'row')}, {counted(found.answers, 'answer')} in {escape(str(found.path))}"
    out.print(f"{content}:" if found.passed else f"{content}; the file claims:")
    for status, rows in sorted(found.counts.items()):
        out.print(f"  {rows:>7,}  [bold]{escape(status)}[/]")
    for note in found.notes:
        out.print("[cyan]note:[/]", escape(note))


def _print_differences(found: Verification) -> None:
    rows = [
        (d.row, "" if d.rank is None else d.rank, d.field, _short(d.stored), _short(d.found))
        for d in found.differences[:SHOWN]
    ]
    out.print(table_of("row", "answer", "field", "in the file", "should be", rows=rows))
    if found.total > SHOWN:
        counted = ", ".join(f"{name} {count:,}" for name, count in sorted(found.fields.items(), key=lambda f: -f[1]))
        out.print(escape(f"... and {found.total - SHOWN:,} more; by field: {counted}"))


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LETTERS else f"{text[:LETTERS]}..."


def graph(
    model: Annotated[Path | None, argument("The folder of a saved model; or use --data.")] = None,
    output: Annotated[Path | None, option("Write the graph (.svg, .png, .pdf, .csv, .dot).", "--out")] = None,
    data: Annotated[
        str | None, option("A data set or a file in which to discover a graph.", among=console.DATA_SETS)
    ] = None,
    label: console.Label = None,
    schema_file: console.SchemaFile = None,
    ignore: console.Ignore = None,
    significance: Annotated[
        float | None,
        option(
            "Significance level of the tests; 0.01 by default. Lower gives fewer edges.", "--significance", "--alpha"
        ),
    ] = None,
    n_effective: Annotated[
        int | None, option("The maximum sample size that the tests assume; 5000 by default, 0 for all rows.", least=0)
    ] = None,
    bootstrap: Annotated[int, option("The number of resamples that measure how stable each edge is.", least=0)] = 0,
    seed: console.Seed = 0,
    classifier: OwnClassifier = None,
    as_json: console.Json = False,
) -> None:
    """Show which feature causes which: the graph of a saved model, or one discovered in a table.

    Example: fcxplain graph --data adult --bootstrap 20 --out graph.svg

    With --bootstrap, the support of an edge is the share of resamples in which it was found.
    """
    chosen: dict[str, Any] = {"--label": label, "--schema": schema_file, "--significance": significance}
    _check_choice(model, data, chosen | {"--n-effective": n_effective, "--ignore": ignore})
    if output is not None:
        check_output(output, (*console.PICTURES, ".csv", ".dot"), "--out")
    with Work("looking for causes") as work:
        if data is None:
            found = _model_graph(Path(str(model)), classifier, bootstrap, work.tell)
        else:
            settings: dict[str, Any] = {"bootstrap": bootstrap, "on_progress": work.tell, "seed": seed}
            settings |= {} if significance is None else {"significance": significance}
            settings |= {} if n_effective is None else {"n_effective": n_effective or None}
            found = _discovered(data, label, schema_file, ignore or [], settings)
    if output is not None:
        _write_graph(found, output, title=str(data or model))
    if as_json:
        print_json(found.to_dict())
    elif output is None:
        _print_graph(found)
    else:
        out.print(escape(f"{len(found.nodes)} features, {len(found.edges)} edges, written to {output}"))


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
    rows = []
    for a, b in found.edges:
        share = found.support_of(a, b)
        rows.append((a, "->" if (a, b) in found.directed else "--", b, *([] if share is None else [f"{share:.0%}"])))
    if rows:
        out.print(table_of("from", "", "to", *(["support"] if found.support else []), rows=rows))
    loose = f", {len(found.undirected)} of them of unknown direction (--)" if found.undirected else ""
    out.print(f"{len(found.nodes)} features, {len(found.edges)} edges{loose}")


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
    how: dict[str, Any] = {"significance": fcx.significance, "n_effective": fcx.n_effective, "seed": fcx.seed}
    how |= {"bootstrap": bootstrap, "on_progress": on_progress}
    found = discover(_own_data(fcx, folder).train, fcx.task_.schema, **how)
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
    data: str, label: str | None, schema_file: Path | None, ignore: Sequence[str], settings: Mapping[str, Any]
) -> CausalGraph:
    """The graph of the training rows, as `fit` finds it, or of all complete rows of a table without a label."""
    from ..causal import discover
    from ..datasets.source import Source, load_features

    source = Source.of(data, label=label, seed=settings["seed"], schema=schema_file)
    if source.is_built_in or label is not None:
        loaded = source.load(ignore=ignore)
        return discover(loaded.train, loaded.schema, **settings)
    schema, rows = load_features(data, schema=schema_file, ignore=ignore)
    return discover(rows, schema, **settings)
