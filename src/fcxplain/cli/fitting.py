"""`fcxplain fit`: from a table, rules and a classifier to a saved model."""

from __future__ import annotations

import shlex
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.markup import escape

from ..errors import DataError, Fault
from .console import Data, Json, Seed, err, out, print_json

if TYPE_CHECKING:
    from ..datasets import Dataset
    from ..explainer import Constraint, FCx
    from ..task import Task
    from .sources import Source


def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--out", help="The folder to save the model in.")],
    rules: Annotated[
        str | None, typer.Option(help="A rule file, or the name of the data set's own rules (unary, binary).")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The label column of your own table.")] = None,
    target: Annotated[str | None, typer.Option(help="The class wanted; the other of two classes by default.")] = None,
    schema_file: Annotated[Path | None, typer.Option("--schema", help="Schema of your own table (TOML).")] = None,
    classifier: Annotated[
        str,
        typer.Option(
            help="What to explain: paper, mlp, logistic, boosting (trained now), model.onnx, module:attribute."
        ),
    ] = "paper",
    as_published: Annotated[
        bool, typer.Option("--as-published", help="FCx as the paper has it: one draw per row, no search, no promise.")
    ] = False,
    constraint: Annotated[
        str | None,
        typer.Option(help="With --as-published: the settings for unary or binary rules; by --rules if not given."),
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="At most so many rows of the data.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Times that every row is seen.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Size of the steps.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Any other setting, e.g. architecture__latent=5. May be repeated.")
    ] = None,
    graph: Annotated[Path | None, typer.Option(help="A causal graph (.csv or .dot); discovered if not given.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Where the training's state is kept; <out>.checkpoint until it is done.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model of that name.")] = False,
    history: Annotated[Path | None, typer.Option(help="Draw the loss over the epochs (.svg, .png or .pdf).")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Learn to explain a classifier's answers, and save what was learnt.

    A fit that was cut off goes on where it was when it is started again.

    Example: fcxplain fit --data adult --rules binary --out model

    Example: fcxplain fit --data loans.csv --label approved --target yes --rules my.rules --out model
    """
    from .outputs import PICTURES, check_output, write_history
    from .settings import read_settings
    from .sources import Source

    _check_folder(output, overwrite)
    if constraint is not None and not as_published:
        raise DataError(
            "", [Fault(f"--constraint {constraint}", "is only for FCx --as-published", "Add that, or drop it.")]
        )
    if history is not None:
        check_output(history, PICTURES, "--history")
    source = Source.of(data, label=label, rows=rows, seed=seed, classifier=classifier, schema=schema_file)
    fcx = _made(source, constraint or (rules if rules in ("unary", "binary") else "unary"), as_published)
    given = {"schedule__epochs": epochs, "schedule__learning_rate": learning_rate}
    given = {name: value for name, value in given.items() if value is not None}
    fcx.set_params(**given | read_settings(setting or [], fcx))
    task, loaded = _task(source, classifier, rules, target, graph)
    done = _fitted(fcx, task, loaded, checkpoint, output)
    fcx.save(output, overwrite=overwrite, source=source.to_dict())
    if checkpoint is None:
        # What cannot be removed does no harm: the same fit would find it done, any other refuses it.
        shutil.rmtree(_beside(output), ignore_errors=True)
    if history is not None:
        write_history(fcx.history_, history)
    _tell(done | {"model": str(output)}, as_json)


def _check_folder(output: Path, overwrite: bool) -> None:
    """Refuse now a folder that the model could not be saved in after hours of work."""
    from ..explainer import KIND
    from ..persistence.container import check_target, is_there

    if (output.exists() or is_there(output)) and not overwrite:
        remedy = "Pass --overwrite to replace it, or choose another name."
        raise DataError("", [Fault(f"--out {output}", "exists already", remedy)])
    check_target(output, KIND, overwrite=True)


def _made(source: Source, constraint: str, as_published: bool) -> FCx:
    """FCx, or the paper's settings for the data; a table of one's own gets those of the paper's first data set."""
    from ..datasets import DEFAULT_DATASET
    from ..explainer import FCx

    if not as_published:
        return FCx(seed=source.seed)
    name = source.data if source.is_built_in else DEFAULT_DATASET
    return FCx.as_published(cast("Constraint", constraint), name, source.seed)


def _task(
    source: Source, classifier: str, rules: str | None, target: str | None, graph: Path | None
) -> tuple[Task, Dataset]:
    """The problem, and the data that it comes from."""
    from ..model_view import as_graph
    from ..rules import parse_rules
    from ..task import Task
    from .sources import classifier_named, rules_named

    with err.status(f"loading {escape(source.data)}"):
        data = source.load(target=target)
    for note in data.notes:
        err.print("[cyan]note:[/]", escape(note), highlight=False, soft_wrap=True)
    # What can be wrong without the classifier is told before it is trained.
    known = None if graph is None else as_graph(graph, data.schema.names)
    read = parse_rules(rules_named(rules, data), data.schema)
    with err.status(f"getting the classifier {escape(classifier)} ready"):
        model = classifier_named(classifier, data, source.seed)
        wanted = {"rules": read, "target": data.target, "label": data.label, "graph": known}
        return Task(data.train, model, schema=data.schema, seed=source.seed, **wanted), data


def _fitted(fcx: FCx, task: Task, data: Dataset, checkpoint: Path | None, output: Path) -> dict[str, Any]:
    """Fit, with the progress on standard error; what there is to tell of it."""
    from .progress import TrainingProgress

    start, folder = time.perf_counter(), checkpoint or _beside(output)
    held = data.validation[list(task.schema.names)]
    try:
        with TrainingProgress(err) as progress:
            fcx.fit(task, validation=held, callbacks=[progress], checkpoint=folder)
    except KeyboardInterrupt:
        told = f"what is done is kept in {folder}; the same command goes on from there"
        err.print(escape(told), highlight=False, soft_wrap=True)
        raise
    best = fcx.history_.best
    return {
        "rows": progress.rows,
        "epochs": len(fcx.history_.epochs),
        "resumed_after": progress.resumed,
        "best_epoch": None if best is None else best.number,
        "validation_loss": None if best is None else best.validation["total"],
        "seconds": round(time.perf_counter() - start, 3),
    }


def _beside(output: Path) -> Path:
    path = output.resolve()
    return path.with_name(f"{path.name}.checkpoint")


def _tell(done: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return print_json(done)
    seen = f"{done['rows']:,} refused rows, {done['epochs']} epoch{'s' * (done['epochs'] > 1)}"
    best = f"the best was epoch {done['best_epoch']} (validation loss {done['validation_loss']:.4g})"
    out.print(f"trained on {seen}; {best}; {done['seconds']:,.1f} s", highlight=False, soft_wrap=True)
    out.print(f"saved in {escape(done['model'])}", highlight=False, soft_wrap=True)
    next_step = f"fcxplain explain {shlex.quote(done['model'])} rows.csv"
    out.print(f"go on with: [bold]{escape(next_step)}[/]", highlight=False, soft_wrap=True)
    return None
