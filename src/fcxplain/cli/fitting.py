"""`fcxplain fit`: from a table, rules and a classifier to a saved model."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.markup import escape

from ..errors import DataError, Fault
from ..files import check_output, only_run
from . import console
from .console import (
    PICTURES,
    Data,
    Ignore,
    Index,
    Json,
    Label,
    SchemaFile,
    Seed,
    as_given,
    err,
    note,
    out,
    print_json,
    split,
)
from .progress import TrainingProgress, working

if TYPE_CHECKING:
    from ..causal import CausalGraph
    from ..classifier import Classifier
    from ..datasets import Dataset
    from ..datasets.source import Source
    from ..explainer import FCx
    from ..generator.presets import Constraint
    from ..progress import Progress
    from ..rules import Rule
    from ..task import Task

Output = Annotated[Path, typer.Option("--out", help="The folder to save the model in.")]
Rules = Annotated[
    str | None,
    typer.Option(
        help="A rule file, or the name of the data set's own rules (unary, binary, actionable).",
        autocompletion=console.rules,
    ),
]
Target = Annotated[
    list[str] | None,
    typer.Option(
        help="The class wanted; the other of two by default, and to be given with three classes or more. Repeated, or "
        "with commas: any of them will do. Of a regressor a range: '>= 700', '<= 0.05', '700..800', '+10 %'."
    ),
]
AtLeast = Annotated[
    float | None,
    typer.Option(help="The probability that the class wanted must have at least, e.g. 0.8: a margin of safety."),
]
WriteSchema = Annotated[
    Path | None, typer.Option("--write-schema", help="Write the schema that was guessed (.toml), to correct it.")
]
Immutable = Annotated[
    list[str] | None,
    typer.Option("--immutable", "--freeze", help="A feature that nobody can change. May be repeated."),
]
ToExplain = Annotated[
    str,
    typer.Option(
        "--classifier",
        help="What to explain: paper, mlp, logistic, boosting (trained now), model.onnx, module:attribute.",
        autocompletion=console.classifiers,
    ),
]
Classes = Annotated[
    list[str] | None,
    typer.Option(
        "--classes",
        help="What your own model's classes are called, in its order: no,yes for a model that answers 0 and 1.",
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(help="Of two classes, the second is the answer from this probability on; 0.5 by default."),
]
AsPublished = Annotated[
    bool, typer.Option("--as-published", help="FCx as the paper has it: one draw per row, no search, no promise.")
]
Constrained = Annotated[
    str | None,
    typer.Option(
        "--constraint",
        help="With --as-published: the settings for unary or binary rules; by --rules if not given.",
        autocompletion=console.rules,
    ),
]
NoGenerator = Annotated[
    bool, typer.Option("--no-generator", help="Train nothing: quick, and answers are found by the search alone.")
]
MostRows = Annotated[int | None, typer.Option(min=1, help="At most so many rows of the data.")]
Epochs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="How often every row is seen at most: 8 times by default, more often if there are few rows. "
        "It ends sooner where nothing gets better.",
    ),
]
LearningRate = Annotated[float | None, typer.Option(help="Size of the steps.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Any other setting, e.g. architecture__latent=5. May be repeated.")
]
GraphFile = Annotated[Path | None, typer.Option(help="A causal graph (.csv or .dot); discovered if not given.")]
CheckpointFolder = Annotated[
    Path | None, typer.Option(help="Where the training's state is kept; <out>.checkpoint until it is done.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a model of that name.")]
Picture = Annotated[Path | None, typer.Option(help="Draw the loss over the epochs (.svg, .png or .pdf).")]


def fit(
    data: Data,
    output: Output,
    rules: Rules = None,
    label: Label = None,
    target: Target = None,
    schema_file: SchemaFile = None,
    write_schema: WriteSchema = None,
    ignore: Ignore = None,
    index: Index = None,
    immutable: Immutable = None,
    classifier: ToExplain = "paper",
    classes: Classes = None,
    threshold: Threshold = None,
    at_least: AtLeast = None,
    as_published: AsPublished = False,
    constraint: Constrained = None,
    no_generator: NoGenerator = False,
    rows: MostRows = None,
    epochs: Epochs = None,
    learning_rate: LearningRate = None,
    setting: Settings = None,
    graph: GraphFile = None,
    checkpoint: CheckpointFolder = None,
    overwrite: Overwrite = False,
    history: Picture = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Learn to explain a classifier's answers, and save what was learnt.

    Of a table of your own it shows first what each column was taken for, and how to correct that. A fit that was cut
    off goes on where it was when it is started again.

    Example: fcxplain fit --data adult --rules binary --out model

    Example: fcxplain fit --data loans.csv --label approved --target yes --rules my.rules --out model

    Example: fcxplain fit --data adult --rules binary --classifier boosting --no-generator --out model

    Example: fcxplain fit --data loans.csv --label approved --index customer --classifier my_code:model
    --classes no,yes --target yes --rules my.rules --out model
    """
    from ..datasets.source import Source
    from ..outcome import Outcome
    from ..saving.container import check_target
    from ..saving.explainer import KIND
    from .guide import next_step

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
        own = _own_classifier(classifier, classes)
        wanted = as_given(target)
        loaded = _loaded(source, own, wanted, ignore or [], immutable or []).under(rules)
        asked = replace(_asked(loaded, rules, wanted, classes, threshold, graph), at_least=at_least)
        _introduce(loaded, source, asked, write_schema)
        task, done = _fitted(fcx, loaded, source, own, asked, checkpoint or _beside(output))
        fcx.save(output, overwrite=overwrite, source=source.to_dict())
        _tidy(fcx, None if checkpoint else _beside(output), history)
        named = task.target.to_data() if isinstance(task.target, Outcome) else task.target
        done |= {"model": str(output), "label": loaded.label, "target": named, "classes": task.classes}
        _tell(done | {"classifier": classifier}, next_step(source, output, loaded.notes), as_json)


@dataclass(frozen=True)
class _Asked:
    """What is to hold: rules, what is wanted, the model's classes, from where on it answers the second, and a graph."""

    rules: tuple[Rule, ...]
    target: Any
    classes: tuple[Any, ...] | None
    threshold: float | None
    graph: CausalGraph | None
    at_least: float | None = None


def _asked(
    data: Dataset,
    rules: str | None,
    target: Any,
    classes: list[str] | None,
    threshold: float | None,
    graph: Path | None,
) -> _Asked:
    """What was asked for, read before any work begins, so that mistakes are told at once."""
    from ..causal import as_graph
    from ..datasets.source import rules_named
    from ..rules import parse_rules
    from ..schema import level_named

    known = None if graph is None else as_graph(graph, data.schema.names)
    names = [level_named(name, data.classes) or name for name in split(classes)]
    return _Asked(parse_rules(rules_named(rules, data), data.schema), target, tuple(names) or None, threshold, known)


def _check_options(constraint: str | None, as_published: bool, history: Path | None, write_schema: Path | None) -> None:
    """Refuse what does not go together, and names that nothing could be written to."""
    if constraint is not None and not as_published:
        fault = Fault(f"--constraint {constraint}", "is only for FCx --as-published", "Add that, or drop it.")
        raise DataError("", [fault])
    for path, endings, option in ((history, PICTURES, "--history"), (write_schema, (".toml",), "--write-schema")):
        if path is not None:
            check_output(path, endings, option)


def _refuse_training(given: dict[str, Any]) -> None:
    """Refuse options that are about a training where there is none."""
    problem, remedy = "is for training a generator, and --no-generator trains none", "Leave one of the two out."
    if faults := [Fault(name, problem, remedy) for name, value in given.items() if value]:
        raise DataError("", faults)


def _own_classifier(name: str, classes: list[str] | None) -> Any:
    """A classifier of one's own; None for one that is to be trained, whose classes are called as the label's are."""
    from ..classifier import KINDS
    from ..classifier.named import named_classifier

    if name not in KINDS:
        return named_classifier(name)
    if classes:
        problem = f"is for a model of your own; {name} is trained on the label, and calls its classes the same"
        raise DataError("", [Fault(f"--classes {','.join(classes)}", problem, "Leave it out.")])
    return None


def _loaded(source: Source, own: Any, target: Any, ignore: list[str], immutable: list[str]) -> Dataset:
    """The table in its parts."""
    from ..classifier.labels import checked_target
    from ..outcome import read_range

    # The classes of a model of one's own may be called otherwise than those of the label.
    wanted = target if own is None and isinstance(target, str) and "," not in target else None
    wanted = target if read_range(target) is not None else wanted
    with working(f"loading {source.data}") as work:
        loaded = source.load(target=wanted, ignore=ignore, immutable=immutable, on_progress=work.tell)
    if own is None:
        checked_target(loaded.target if target is None else target, loaded.classes)
    return loaded


def _set(fcx: FCx, epochs: int | None, learning_rate: float | None, settings: list[str]) -> None:
    """What was asked for on the command line, in the explainer."""
    from ..settings import read_settings

    # Who names the epochs means them: they are not made more for the sake of a small table.
    steps = None if epochs is None else 0
    given = {"schedule__epochs": epochs, "schedule__steps": steps, "schedule__learning_rate": learning_rate}
    given = {name: value for name, value in given.items() if value is not None}
    fcx.set_params(**given | read_settings(settings, fcx))


def _made(source: Source, constraint: str, as_published: bool) -> FCx:
    """FCx, or the paper's settings for the data; a table of one's own gets those of the paper's first data set."""
    from ..datasets import DEFAULT_DATASET
    from ..explainer import FCx

    if not as_published:
        return FCx(seed=source.seed)
    name = source.data if source.is_built_in else DEFAULT_DATASET
    return FCx.as_published(cast("Constraint", constraint), name, source.seed)


def _introduce(data: Dataset, source: Source, asked: _Asked, kept: Path | None) -> None:
    """Show what there is to learn from before anything is learnt; a schema that is to be kept is written."""
    from .guide import show_freedom, show_own_table

    if kept is not None:
        data.schema.to_toml(kept)
    if err.quiet:
        return
    if source.is_built_in:
        for told in data.notes:
            note(told)
    else:
        show_own_table(data, source, asked.target, asked.rules, kept)
    show_freedom(data, asked.rules, source)


def _task(data: Dataset, source: Source, model: Any, asked: _Asked) -> Task:
    """The problem, with a classifier that was trained or is one's own."""
    from ..task import Task

    with working(f"getting the classifier {source.classifier} ready"):
        how: dict[str, Any] = {"rules": asked.rules, "label": data.label, "graph": asked.graph}
        how |= {"target": data.target if asked.target is None else asked.target, "classes": asked.classes}
        how |= {"threshold": asked.threshold, "target_probability": asked.at_least}
        return Task(data.train, model, schema=data.schema, seed=source.seed, **how)


def _trained(data: Dataset, source: Source) -> Classifier:
    from ..classifier import train_classifier

    # Epochs are counted where there are any; they may be fewer in the end.
    with working(f"training the classifier {source.classifier}") as work:

        def move(event: Progress) -> None:
            work.move(event.done, event.total)

        return train_classifier(data, source.classifier, source.seed, on_progress=move)


def _marks(data: Dataset, source: Source, model: Classifier, is_trained: bool) -> dict[str, Any]:
    """How good the classifier is, told before the rest of the work; one's own may call its classes otherwise."""
    from ..classifier import score
    from ..task import PROBES
    from .guide import show_agreement, show_marks

    if not is_trained and not set(data.classes) & set(model.classes):
        return {}
    # A model of one's own may be expensive to query.
    marks = score(model, data.test if is_trained else data.test[:PROBES], data.label)
    show_marks(source.classifier, marks) if is_trained else show_agreement(source.classifier, data.label, marks)
    return {"accuracy": marks.accuracy, "majority": max(c.share for c in marks.classes), "tested_on": marks.rows}


def _fitted(
    fcx: FCx, data: Dataset, source: Source, own: Any, asked: _Asked, folder: Path
) -> tuple[Task, dict[str, Any]]:
    """Fit, with the progress on standard error; the task, and what there is to tell of it."""
    task = _task(data, source, _trained(data, source) if own is None else own, asked)
    marks, start = _marks(data, source, task.classifier, own is None), time.perf_counter()
    if not fcx.generator:
        with working("looking for causes"):
            fcx.fit(task)
        return task, {"generator": False, "seconds": round(time.perf_counter() - start, 3), **marks}
    try:
        with TrainingProgress(err) as progress:
            held = data.validation[list(task.schema.names)]
            fcx.fit(task, validation=held, callbacks=[progress], checkpoint=folder)
    except KeyboardInterrupt:
        if not folder.is_dir():
            raise
        told = f"what is done is kept in {folder}; the same command goes on from there"
        raise KeyboardInterrupt(told) from None
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


def _tidy(fcx: FCx, checkpoint: Path | None, history: Path | None) -> None:
    """Remove our own checkpoint, which is of no more use, and draw the history where that was asked for."""
    if checkpoint is not None:
        # What cannot be removed does no harm: the same fit would find it done, any other refuses it.
        shutil.rmtree(checkpoint, ignore_errors=True)
    if history is not None:
        from .. import plots

        plots.save(plots.loss_curves(fcx.history_), history)


def _beside(output: Path) -> Path:
    path = output.resolve()
    return path.with_name(f"{path.name}.checkpoint")


def _tell(done: dict[str, Any], then: str, as_json: bool) -> None:
    if as_json:
        return print_json(done)
    if err.quiet:
        return None
    told = "ready to search, without a generator"
    if done["generator"]:
        seen = f"{done['rows']:,} refused rows, {done['epochs']} epoch{'s' * (done['epochs'] > 1)}"
        best = f"the best was epoch {done['best_epoch']} (validation loss {done['validation_loss']:.4g})"
        told = f"trained on {seen}; {best}"
    out.print(f"{told}; {done['seconds']:,.1f} s", highlight=False, soft_wrap=True)
    out.print(f"saved in {escape(done['model'])}", highlight=False, soft_wrap=True)
    out.print(f"go on with: [bold]{escape(then)}[/]", highlight=False, soft_wrap=True)
    return None
