"""`fcxplain explain`, `evaluate` and `graph`: what is done with a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from .console import Json, Seed, err, out, print_json, table_of

if TYPE_CHECKING:
    from ..causal import CausalGraph
    from ..explanation import Certificate, Explanation
    from ..metrics import Evaluation

# Answers that are shown when they go to no file.
SHOWN = 5
STATUSES = {
    "verified": "everything that was checked holds",
    "best_effort": "an answer of which something does not hold",
    "already": "has the class wanted as it is",
    "not_found": "no answer was found",
    "impossible": "proved to have no answer",
    "timed_out": "no answer in the time given",
}

Model = Annotated[Path, typer.Argument(help="The folder of a saved model (see `fcxplain fit`).")]
OwnClassifier = Annotated[
    str | None, typer.Option("--classifier", help="The classifier, if it is your own: model.onnx or module:attribute.")
]


def explain(
    model: Model,
    rows: Annotated[str, typer.Argument(help="A CSV or parquet file, or a data set's name (its test part).")],
    output: Annotated[Path | None, typer.Option("--out", help="Write answers (.parquet, .csv, .json).")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Answers for each row.")] = 1,
    prefer: Annotated[
        str, typer.Option(help="sparse (few changes), balanced, or plausible (like rows that there are).")
    ] = "balanced",
    best_effort: Annotated[
        bool, typer.Option("--best-effort", help="Give rows without an answer what came nearest, marked as such.")
    ] = False,
    classifier: OwnClassifier = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with code 1 unless every row that needs one has a verified answer.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say for each row what could change for the model to give the answer wanted.

    Every answer is checked with the classifier itself, the rules and the schema, and only those that pass are handed
    out; rows without one say whether that is proved. A model fitted --as-published hands out every draw, and marks
    those that fail a check best_effort. Columns that are no features are ignored.

    Example: fcxplain explain model rows.csv --out answers.parquet
    """
    from .outputs import ANSWERS, check_output, write_answers
    from .sources import load_model, remembered, rows_to_explain

    if output is not None:
        check_output(output, ANSWERS)
    with err.status("loading the model and the rows"):
        fcx = load_model(model, classifier)
        table = rows_to_explain(rows, fcx.task_, remembered(model))
    with err.status(f"explaining {len(table):,} rows"):
        answer = fcx.explain(table, k=k, prefer=prefer, best_effort=best_effort)
        if output is not None:
            write_answers(answer, output)
    if as_json:
        print_json(answer.to_dict() if output is None else _counted(answer, output))
    else:
        _print_answers(answer, output)
    if strict and set(answer.counts) - {"verified", "already"}:
        raise typer.Exit(1)


def _counted(answer: Explanation, output: Path) -> dict[str, Any]:
    told = {"rows": len(answer), "answers": len(answer.answers), "counts": answer.counts}
    return {"method": answer.method, **told, "notes": list(answer.notes), "out": str(output)}


def _print_answers(answer: Explanation, output: Path | None) -> None:
    count = len(answer.answers)
    if output is None and count:
        _print_table(answer, min(count, SHOWN))
    if output is None and count > SHOWN:
        out.print(f"... and {count - SHOWN:,} more; write all of them to a file with --out\n", highlight=False)
    out.print(f"{len(answer):,} rows, {count:,} answers by {escape(answer.method)}:", highlight=False)
    for status, rows in sorted(answer.counts.items()):
        out.print(f"  {rows:>7,}  [bold]{status}[/]: {STATUSES[status]}", highlight=False)
    for note in answer.notes:
        out.print(escape(note), highlight=False)
    if output is not None:
        out.print(f"written to {escape(str(output))}", highlight=False, soft_wrap=True)


def _print_table(answer: Explanation, count: int) -> None:
    """The first answers, a change a line."""
    table = table_of("row", "what changes", "probability", "status")
    for c in map(answer.certificate, range(count)):
        row = f"{c.row}" if c.rank == 1 else f"{c.row}, answer {c.rank}"
        moves = "\n".join(f"{m.feature}: {m.now} -> {m.then}" for m in c.changes) or "nothing"
        known = "" if c.predicted is None else f"{c.probability:.2f}"
        status = "\n".join([c.status, *(f"- {failure}" for failure in _failures(c))])
        table.add_row(*map(escape, (row, moves, known, status)))
        table.add_row()
    out.print(table)


def _failures(c: Certificate) -> list[str]:
    found = [r.words for r in c.rules if not r.kept]
    found += ["an immutable feature must not change"] if not c.immutables_kept else []
    if not c.in_domain:
        return [*found, "a value is outside its domain"]
    return found if c.valid else [*found, f"the model answers {c.predicted}, not {c.wanted}"]


def evaluate(
    model: Model,
    rows: Annotated[
        str | None, typer.Option(help="A file or a data set's name; the test part of the model's own data by default.")
    ] = None,
    metrics: Annotated[str | None, typer.Option(help="Names with commas between them; all by default.")] = None,
    convention: Annotated[
        str, typer.Option(help="How to measure: ours, or authors (as the paper's code does).")
    ] = "ours",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many refused rows.")] = None,
    classifier: OwnClassifier = None,
    as_json: Json = False,
) -> None:
    """Measure the answers for refused rows: how many are valid and feasible, how near, how usual.

    Example: fcxplain evaluate model --metrics validity,feasibility,success
    """
    from ..metrics import evaluate as measure
    from .sources import load_model, own_data, remembered, rows_to_explain

    with err.status("loading the model and the rows"):
        fcx = load_model(model, classifier)
        schema = fcx.task_.schema
        table = own_data(model, schema).test if rows is None else rows_to_explain(rows, fcx.task_, remembered(model))
        table = table[list(schema.names)]
        refused = table[fcx.task_.refused(table)].iloc[:limit]
    with err.status(f"explaining and measuring {len(refused):,} rows"):
        names = [name.strip() for name in (metrics or "").split(",") if name.strip()]
        found = measure(fcx.explain(refused), metrics=names or None, convention=convention)
    if as_json:
        print_json(found.to_dict())
    else:
        _print_evaluation(found)


def _print_evaluation(found: Evaluation) -> None:
    from ..metrics import CONVENTIONS, METRICS

    measures = METRICS | CONVENTIONS[found.convention]
    told = f"{found.method}: {found.asked:,} refused rows, {found.answers:,} answers, {len(found.rules)} rules"
    out.print(escape(told), highlight=False)
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
    model: Annotated[Path | None, typer.Argument(help="The folder of a saved model; or give --data instead.")] = None,
    output: Annotated[Path | None, typer.Option("--out", help="Write it (.svg, .png, .pdf, .csv, .dot).")] = None,
    data: Annotated[str | None, typer.Option(help="A data set's name or a file, to discover a graph in.")] = None,
    label: Annotated[str | None, typer.Option(help="The label column of your own table; it is no feature.")] = None,
    schema_file: Annotated[Path | None, typer.Option("--schema", help="Schema of your own table (TOML).")] = None,
    alpha: Annotated[float | None, typer.Option(help="Level of the tests, 0.01 by default; less joins less.")] = None,
    n_effective: Annotated[
        int | None, typer.Option(min=0, help="The most rows that significance counts on, 5000 by default; 0 for all.")
    ] = None,
    bootstrap: Annotated[int, typer.Option(min=0, help="Resamples that tell how sure each edge is.")] = 0,
    seed: Seed = 0,
    classifier: OwnClassifier = None,
    as_json: Json = False,
) -> None:
    """Show which feature causes which: the graph of a saved model, or one discovered in a table.

    Support is the share of the resamples in which an edge was found; a model's own graph gets it with --bootstrap.

    Example: fcxplain graph --data adult --bootstrap 20 --out graph.svg
    """
    from .graphs import check_choice, discovered, model_graph
    from .outputs import GRAPHS, check_output, write_graph

    chosen: dict[str, Any] = {"--label": label, "--schema": schema_file, "--alpha": alpha, "--n-effective": n_effective}
    check_choice(model, data, chosen)
    if output is not None:
        check_output(output, GRAPHS)
    with err.status("looking for causes"):
        if data is None:
            found = model_graph(Path(str(model)), classifier, bootstrap)
        else:
            found = discovered(
                data, label, schema_file, alpha=alpha, n_effective=n_effective, bootstrap=bootstrap, seed=seed
            )
    if output is not None:
        write_graph(found, output, title=str(data or model))
    if as_json:
        print_json(found.to_dict())
    elif output is None:
        _print_graph(found)
    else:
        told = f"{len(found.nodes)} features, {len(found.edges)} edges, written to {output}"
        out.print(escape(told), highlight=False, soft_wrap=True)


def _print_graph(found: CausalGraph) -> None:
    table = table_of("from", "", "to", "support")
    for a, b in found.edges:
        share = found.support_of(a, b)
        arrow = "->" if (a, b) in found.directed else "--"
        table.add_row(escape(a), arrow, escape(b), "" if share is None else f"{share:.0%}")
    out.print(table)
    loose = f", {len(found.undirected)} of them of unknown direction (--)" if found.undirected else ""
    out.print(f"{len(found.nodes)} features, {len(found.edges)} edges{loose}", highlight=False)
