"""`fcxplain fit`: from a table, rules and a classifier to a saved model."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from rich.markup import escape

from ..errors import DataError, Fault
from ..files import check_output, only_run
from . import console
from .console import as_given, err, note, option, out, print_json, split
from .progress import TrainingProgress, Work

if TYPE_CHECKING:
    from ..classifier import Classifier
    from ..datasets import Dataset
    from ..datasets.source import Source
    from ..explainer import FCx
    from ..generator.presets import Constraint
    from ..progress import Progress
    from ..rules import Rule
    from ..task import Task


def fit(
    data: console.Data,
    output: Annotated[Path, option("The folder to save the model in.", "--out")],
    rules: Annotated[
        str | None,
        option("A rule file, or the name of a built-in rule set (unary, binary, actionable).", among=console.RULES),
    ] = None,
    label: console.Label = None,
    target: Annotated[
        list[str] | None,
        option(
            "The desired class; with two classes the other one by default, required with three or more. Repeat it, or "
            "use commas, to accept any of several. For a regressor a range: '>= 700', '<= 0.05', '700..800', '+10 %'."
        ),
    ] = None,
    schema_file: console.SchemaFile = None,
    write_schema: Annotated[Path | None, option("Write the inferred schema (.toml), for editing.")] = None,
    ignore: console.Ignore = None,
    index: console.Index = None,
    immutable: Annotated[
        list[str] | None, option("A feature that cannot change. May be repeated.", "--immutable", "--freeze")
    ] = None,
    classifier: Annotated[
        str,
        option(
            "The model to explain: paper, mlp, logistic or boosting (trained now), model.onnx, or module:attribute.",
            among=console.CLASSIFIERS,
        ),
    ] = "paper",
    classes: Annotated[
        list[str] | None,
        option("Names for your own model's classes, in its order: no,yes for a model that answers 0 and 1."),
    ] = None,
    threshold: Annotated[
        float | None, option("With two classes, the probability from which the second is predicted; 0.5 by default.")
    ] = None,
    at_least: Annotated[
        float | None, option("The minimum probability of the desired class, e.g. 0.8: a safety margin.")
    ] = None,
    as_published: Annotated[
        bool, option("FCx as in the paper: one draw per row, no search, no guarantee.", "--as-published")
    ] = False,
    constraint: Annotated[
        str | None,
        option(
            "With --as-published: the settings for unary or binary rules; taken from --rules by default.",
            among=console.RULES,
        ),
    ] = None,
    no_generator: Annotated[
        bool,
        option("Do not train a generator: fitting is quick, and the search alone finds answers.", "--no-generator"),
    ] = False,
    rows: Annotated[int | None, option("The maximum number of rows to use.", least=1)] = None,
    epochs: Annotated[
        int | None,
        option(
            "The maximum number of epochs: 8 by default, more for small tables. Training stops early when it no "
            "longer improves.",
            least=1,
        ),
    ] = None,
    learning_rate: Annotated[float | None, option("The learning rate.")] = None,
    setting: Annotated[
        list[str] | None, option("Any other setting, e.g. architecture__latent=5. May be repeated.", "--set")
    ] = None,
    graph: Annotated[Path | None, option("A causal graph (.csv or .dot); discovered if not given.")] = None,
    checkpoint: Annotated[
        Path | None,
        option("The folder for the state of the training; by default <out>.checkpoint, removed at the end."),
    ] = None,
    overwrite: Annotated[bool, option("Replace a model of that name.", "--overwrite")] = False,
    history: Annotated[Path | None, option("Plot the loss by epoch (.svg, .png or .pdf).")] = None,
    seed: console.Seed = 0,
    as_json: console.Json = False,
) -> None:
    """Fit an explainer to a table, a classifier and rules, and save it.

    Example: fcxplain fit --data adult --rules binary --out model

    Example: fcxplain fit --data loans.csv --label approved --target yes --rules my.rules --out model

    Example: fcxplain fit --data adult --rules binary --classifier boosting --no-generator --out model

    Example: fcxplain fit --data loans.csv --label approved --index customer --classifier my_code:model
    --classes no,yes --target yes --rules my.rules --out model

    For your own table, it first shows the type inferred for each column, and how to correct it. An interrupted fit
    resumes when you run the same command again.
    """
    from ..causal import as_graph
    from ..datasets.source import Source, rules_named
    from ..outcome import Outcome
    from ..rules import parse_rules
    from ..saving.container import check_target
    from ..saving.explainer import KIND
    from ..schema import level_named
    from .tables import next_step

    check_target(output, KIND, overwrite=overwrite)
    with only_run(output):
        _check_options(constraint, as_published, history, write_schema)
        if no_generator:
            trained = {"--epochs": epochs, "--learning-rate": learning_rate, "--checkpoint": checkpoint}
            _refuse_training(trained | {"--as-published": as_published, "--history": history})
        chosen = {"label": label, "rows": rows, "seed": seed, "index": index}
        source = Source.of(data, classifier=classifier, schema=schema_file, **chosen)
        fcx = _made(source, constraint or (rules if rules in ("unary", "binary") else "unary"), as_published)
        fcx.set_params(generator=not no_generator)
        _set(fcx, epochs, learning_rate, setting or [])
        own, wanted = _own_classifier(classifier, classes), as_given(target)
        loaded = _loaded(source, own, wanted, ignore or [], immutable or []).under(rules)
        # All options are read before any work begins, so that mistakes are reported at once.
        asked: dict[str, Any] = {"target": loaded.target if wanted is None else wanted, "target_probability": at_least}
        asked |= {"threshold": threshold, "graph": None if graph is None else as_graph(graph, loaded.schema.names)}
        asked["classes"] = tuple(level_named(name, loaded.classes) or name for name in split(classes)) or None
        asked["rules"] = parse_rules(rules_named(rules, loaded), loaded.schema)
        _introduce(loaded, source, wanted, asked["rules"], write_schema)
        folder = checkpoint or output.resolve().with_name(f"{output.resolve().name}.checkpoint")
        task, done = _fitted(fcx, loaded, source, own, asked, folder)
        fcx.save(output, overwrite=overwrite, source=source.to_dict())
        if checkpoint is None:
            # A checkpoint that cannot be removed does no harm: the same fit finds it complete, any other refuses it.
            shutil.rmtree(folder, ignore_errors=True)
        if history is not None:
            from .. import plots

            plots.save(plots.loss_curves(fcx.history_), history)
        named = task.target.to_data() if isinstance(task.target, Outcome) else task.target
        done |= {"model": str(output), "label": loaded.label, "target": named, "classes": task.classes}
        _tell(done | {"classifier": classifier}, next_step(source, output, loaded.notes), as_json)


def _check_options(constraint: str | None, as_published: bool, history: Path | None, write_schema: Path | None) -> None:
    """Refuse options that exclude each other, and files that cannot be written."""
    if constraint is not None and not as_published:
        fault = Fault(f"--constraint {constraint}", "needs --as-published", "Add that, or leave this out.")
        raise DataError("", [fault])
    for path, endings, flag in ((history, console.PICTURES, "--history"), (write_schema, (".toml",), "--write-schema")):
        if path is not None:
            check_output(path, endings, flag)


def _refuse_training(given: dict[str, Any]) -> None:
    """Refuse options for training together with --no-generator."""
    problem, remedy = "is for training a generator, and --no-generator trains none", "Leave out one of the two."
    if faults := [Fault(name, problem, remedy) for name, value in given.items() if value]:
        raise DataError("", faults)


def _own_classifier(name: str, classes: list[str] | None) -> Any:
    """The user's own classifier, or None for one to be trained, whose class names are those of the label."""
    from ..classifier import KINDS
    from ..classifier.named import named_classifier

    if name not in KINDS:
        return named_classifier(name)
    if classes:
        problem = f"is for your own model; {name} is trained on the label and uses its class names"
        raise DataError("", [Fault(f"--classes {','.join(classes)}", problem, "Leave it out.")])
    return None


def _loaded(source: Source, own: Any, target: Any, ignore: list[str], immutable: list[str]) -> Dataset:
    """Load the table, split into its parts."""
    from ..classifier.labels import checked_target
    from ..outcome import read_range

    # A user's own model may name its classes differently from the label.
    wanted = target if own is None and isinstance(target, str) and "," not in target else None
    wanted = target if read_range(target) is not None else wanted
    with Work(f"loading {source.data}") as work:
        loaded = source.load(target=wanted, ignore=ignore, immutable=immutable, on_progress=work.tell)
    if own is None:
        checked_target(loaded.target if target is None else target, loaded.classes)
    return loaded


def _set(fcx: FCx, epochs: int | None, learning_rate: float | None, settings: list[str]) -> None:
    """Apply the settings of the command line to the explainer."""
    from ..settings import read_settings

    # An explicit number of epochs is not raised for a small table.
    steps = None if epochs is None else 0
    given = {"schedule__epochs": epochs, "schedule__steps": steps, "schedule__learning_rate": learning_rate}
    given = {name: value for name, value in given.items() if value is not None}
    fcx.set_params(**given | read_settings(settings, fcx))


def _made(source: Source, constraint: str, as_published: bool) -> FCx:
    """FCx, or the paper's settings for the data set; other tables get those of the paper's first data set."""
    from ..datasets import DEFAULT_DATASET
    from ..explainer import FCx

    if not as_published:
        return FCx(seed=source.seed)
    name = source.data if source.is_built_in else DEFAULT_DATASET
    return FCx.as_published(cast("Constraint", constraint), name, source.seed)


def _introduce(data: Dataset, source: Source, target: Any, rules: Sequence[Rule], kept: Path | None) -> None:
    """Show the table before the work begins, and write its schema if `kept` names a file."""
    from .tables import show_freedom, show_own_table

    if kept is not None:
        data.schema.to_toml(kept)
    if err.quiet:
        return
    if source.is_built_in:
        for line in data.notes:
            note(line)
    else:
        show_own_table(data, source, target, rules, kept)
    show_freedom(data, rules, source)


def _task(data: Dataset, source: Source, own: Any, asked: dict[str, Any]) -> Task:
    """The task, with the user's own classifier or one that is trained now."""
    from ..classifier import train_classifier
    from ..task import Task

    model = own
    if own is None:
        with Work(f"training the classifier {source.classifier}") as work:

            def move(event: Progress) -> None:
                work.move(event.done, event.total)

            model = train_classifier(data, source.classifier, source.seed, on_progress=move)
    with Work(f"preparing the classifier {source.classifier}"):
        return Task(data.train, model, schema=data.schema, label=data.label, seed=source.seed, **asked)


def _marks(data: Dataset, source: Source, model: Classifier, is_trained: bool) -> dict[str, Any]:
    """Show how accurate the classifier is; nothing if its class names are not those of the label."""
    from ..classifier import score
    from ..task import PROBES
    from .tables import show_marks

    if not is_trained and not set(data.classes) & set(model.classes):
        return {}
    # A user's own model may be expensive to query.
    marks = score(model, data.test if is_trained else data.test[:PROBES], data.label)
    show_marks(source.classifier, data.label, marks, is_trained)
    return {"accuracy": marks.accuracy, "majority": max(c.share for c in marks.classes), "tested_on": marks.rows}


def _fitted(
    fcx: FCx, data: Dataset, source: Source, own: Any, asked: dict[str, Any], folder: Path
) -> tuple[Task, dict[str, Any]]:
    """Fit with progress on standard error; return the task and a summary."""
    task = _task(data, source, own, asked)
    marks, start = _marks(data, source, task.classifier, own is None), time.perf_counter()
    if not fcx.generator:
        with Work("looking for causes"):
            fcx.fit(task)
        return task, {"generator": False, "seconds": round(time.perf_counter() - start, 3), **marks}
    try:
        with TrainingProgress(err) as progress:
            held = data.validation[list(task.schema.names)]
            fcx.fit(task, validation=held, callbacks=[progress], checkpoint=folder)
    except KeyboardInterrupt:
        if not folder.is_dir():
            raise
        kept = f"finished epochs are kept in {folder}; run the same command again to resume"
        raise KeyboardInterrupt(kept) from None
    best = fcx.history_.best
    return task, {
        "generator": True,
        "rows": progress.rows,
        "epochs": len(fcx.history_.epochs),
        "resumed_after": progress.resumed,
        "best_epoch": None if best is None else best.number,
        "validation_loss": None if best is None else best.validation["total"],
        "seconds": round(time.perf_counter() - start, 3),
        **marks,
    }


def _tell(done: dict[str, Any], then: str, as_json: bool) -> None:
    if as_json:
        return print_json(done)
    if err.quiet:
        return None
    summary = "ready to search, without a generator"
    if done["generator"]:
        seen = f"{done['rows']:,} refused rows, {done['epochs']} epoch{'s' * (done['epochs'] > 1)}"
        best = f"best epoch {done['best_epoch']} (validation loss {done['validation_loss']:.4g})"
        summary = f"trained on {seen}; {best}"
    out.print(f"{summary}; {done['seconds']:,.1f} s")
    out.print(f"saved in {escape(done['model'])}")
    out.print(f"next: [bold]{escape(then)}[/]")
    return None
