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
from . import completion
from .console import Data, Ignore, Json, Label, SchemaFile, Seed, err, note, out, print_json
from .work import working

if TYPE_CHECKING:
    from ..datasets import Dataset
    from ..explainer import FCx
    from ..presets import Constraint
    from ..task import Task
    from .sources import Source


def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--out", help="The folder to save the model in.")],
    rules: Annotated[
        str | None,
        typer.Option(
            help="A rule file, or the name of the data set's own rules (unary, binary).",
            autocompletion=completion.rules,
        ),
    ] = None,
    label: Label = None,
    target: Annotated[str | None, typer.Option(help="The class wanted; the other of two classes by default.")] = None,
    schema_file: SchemaFile = None,
    write_schema: Annotated[
        Path | None, typer.Option("--write-schema", help="Write the schema that was guessed (.toml), to correct it.")
    ] = None,
    ignore: Ignore = None,
    freeze: Annotated[
        list[str] | None, typer.Option("--freeze", help="A feature that nobody can change. May be repeated.")
    ] = None,
    classifier: Annotated[
        str,
        typer.Option(
            help="What to explain: paper, mlp, logistic, boosting (trained now), model.onnx, module:attribute.",
            autocompletion=completion.classifiers,
        ),
    ] = "paper",
    as_published: Annotated[
        bool, typer.Option("--as-published", help="FCx as the paper has it: one draw per row, no search, no promise.")
    ] = False,
    constraint: Annotated[
        str | None,
        typer.Option(
            help="With --as-published: the settings for unary or binary rules; by --rules if not given.",
            autocompletion=completion.rules,
        ),
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="At most so many rows of the data.")] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Times that every row is seen; as many as it takes by default.")
    ] = None,
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

    Of a table of your own it shows first what each column was taken for, and how to correct that. A fit that was cut
    off goes on where it was when it is started again.

    Example: fcxplain fit --data adult --rules binary --out model

    Example: fcxplain fit --data loans.csv --label approved --target yes --rules my.rules --out model
    """
    from .outputs import PICTURES, check_output, write_history
    from .sources import Source, own_unless_trained

    _check_folder(output, overwrite)
    if constraint is not None and not as_published:
        raise DataError(
            "", [Fault(f"--constraint {constraint}", "is only for FCx --as-published", "Add that, or drop it.")]
        )
    for path, endings, option in ((history, PICTURES, "--history"), (write_schema, (".toml",), "--write-schema")):
        if path is not None:
            check_output(path, endings, option)
    source = Source.of(data, label=label, rows=rows, seed=seed, classifier=classifier, schema=schema_file)
    fcx = _made(source, constraint or (rules if rules in ("unary", "binary") else "unary"), as_published)
    _set(fcx, epochs, learning_rate, setting or [])
    own = own_unless_trained(classifier)
    with working(f"loading {source.data}"):
        # The classes of a model of one's own may be called otherwise than those of the label.
        loaded = source.load(target=target if own is None else None, ignore=ignore or [], freeze=freeze or [])
    if write_schema is not None:
        loaded.schema.to_toml(write_schema)
    _introduce(loaded, source, target, rules, schema_file, write_schema)
    task = _task(loaded, source, own, rules, target, graph)
    done = _fitted(fcx, task, loaded, checkpoint, output)
    fcx.save(output, overwrite=overwrite, source=source.to_dict())
    if checkpoint is None:
        # What cannot be removed does no harm: the same fit would find it done, any other refuses it.
        shutil.rmtree(_beside(output), ignore_errors=True)
    if history is not None:
        write_history(fcx.history_, history)
    _tell(done | {"model": str(output), "label": loaded.label, "target": task.target}, as_json)


def _set(fcx: FCx, epochs: int | None, learning_rate: float | None, settings: list[str]) -> None:
    """What was asked for on the command line, in the explainer."""
    from .settings import read_settings

    # Who names the epochs means them: they are not made more for the sake of a small table.
    steps = None if epochs is None else 0
    given = {"schedule__epochs": epochs, "schedule__steps": steps, "schedule__learning_rate": learning_rate}
    given = {name: value for name, value in given.items() if value is not None}
    fcx.set_params(**given | read_settings(settings, fcx))


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


def _introduce(
    data: Dataset, source: Source, target: str | None, rules: str | None, schema_file: Path | None, kept: Path | None
) -> None:
    """Show what there is to learn from before anything is learnt, if it is a table that we do not know."""
    from .guide import mention_suggestions, show_own_table

    if err.quiet:
        return
    if source.is_built_in:
        for told in data.notes:
            note(told)
        return
    show_own_table(data, target, source.data, schema_file, kept)
    if rules is None:
        mention_suggestions(data, source.data)


def _task(data: Dataset, source: Source, own: Any, rules: str | None, target: str | None, graph: Path | None) -> Task:
    """The problem; the classifier is `own`, or trained now if there is none."""
    from ..classifier import train_classifier
    from ..model_view import as_graph
    from ..rules import parse_rules
    from ..task import Task
    from .sources import rules_named

    # What can be wrong without the classifier is told before it is trained.
    known = None if graph is None else as_graph(graph, data.schema.names)
    read = parse_rules(rules_named(rules, data), data.schema)
    with working(f"getting the classifier {source.classifier} ready"):
        model = train_classifier(data, source.classifier, source.seed) if own is None else own
        wanted = data.target if own is None or target is None else target
        how: dict[str, Any] = {"rules": read, "target": wanted, "label": data.label, "graph": known}
        return Task(data.train, model, schema=data.schema, seed=source.seed, **how)


def _fitted(fcx: FCx, task: Task, data: Dataset, checkpoint: Path | None, output: Path) -> dict[str, Any]:
    """Fit, with the progress on standard error; what there is to tell of it."""
    from .progress import TrainingProgress

    start, folder = time.perf_counter(), checkpoint or _beside(output)
    held = data.validation[list(task.schema.names)]
    try:
        with TrainingProgress(err) as progress:
            fcx.fit(task, validation=held, callbacks=[progress], checkpoint=folder)
    except KeyboardInterrupt:
        if not folder.is_dir():
            raise
        told = f"what is done is kept in {folder}; the same command goes on from there"
        raise KeyboardInterrupt(told) from None
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
    if err.quiet:
        return None
    seen = f"{done['rows']:,} refused rows, {done['epochs']} epoch{'s' * (done['epochs'] > 1)}"
    best = f"the best was epoch {done['best_epoch']} (validation loss {done['validation_loss']:.4g})"
    out.print(f"trained on {seen}; {best}; {done['seconds']:,.1f} s", highlight=False, soft_wrap=True)
    out.print(f"saved in {escape(done['model'])}", highlight=False, soft_wrap=True)
    next_step = f"fcxplain explain {shlex.quote(done['model'])} rows.csv"
    out.print(f"go on with: [bold]{escape(next_step)}[/]", highlight=False, soft_wrap=True)
    return None
