"""`fcxplain fit`: from a table, rules and a classifier to a saved model."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import typer
from rich.markup import escape

from ..errors import DataError, Fault, did_you_mean
from ..files import only_run
from . import console as completion
from .console import Data, Ignore, Json, Label, RowId, SchemaFile, Seed, err, note, out, print_json, split
from .progress import working

if TYPE_CHECKING:
    from ..causal import CausalGraph
    from ..classifier import Classifier
    from ..datasets import Dataset
    from ..explainer import FCx
    from ..generator.presets import Constraint
    from ..rules import Rule
    from ..task import Task
    from .sources import Source

Output = Annotated[Path, typer.Option("--out", help="The folder to save the model in.")]
Rules = Annotated[
    str | None,
    typer.Option(
        help="A rule file, or the name of the data set's own rules (unary, binary).", autocompletion=completion.rules
    ),
]
Target = Annotated[
    str | None,
    typer.Option(help="The class wanted; the other of two by default, and to be given with three classes or more."),
]
WriteSchema = Annotated[
    Path | None, typer.Option("--write-schema", help="Write the schema that was guessed (.toml), to correct it.")
]
Freeze = Annotated[
    list[str] | None, typer.Option("--freeze", help="A feature that nobody can change. May be repeated.")
]
ToExplain = Annotated[
    str,
    typer.Option(
        "--classifier",
        help="What to explain: paper, mlp, logistic, boosting (trained now), model.onnx, module:attribute.",
        autocompletion=completion.classifiers,
    ),
]
Classes = Annotated[
    list[str] | None,
    typer.Option(
        "--classes",
        help="What your own model's classes are called, in its order: no,yes for a model that answers 0 and 1.",
    ),
]
AsPublished = Annotated[
    bool, typer.Option("--as-published", help="FCx as the paper has it: one draw per row, no search, no promise.")
]
Constrained = Annotated[
    str | None,
    typer.Option(
        "--constraint",
        help="With --as-published: the settings for unary or binary rules; by --rules if not given.",
        autocompletion=completion.rules,
    ),
]
MostRows = Annotated[int | None, typer.Option(min=1, help="At most so many rows of the data.")]
Epochs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="How often every row is seen at most: 20 times by default, more often if there are few rows. "
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


WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: "none"}


def read_settings(pairs: Iterable[str], fcx: FCx) -> dict[str, Any]:
    """Values by name, each of the type that the explainer's setting has; every mistake is told at once."""
    kinds, found, faults = _kinds(fcx), dict[str, Any](), list[Fault]()
    for pair in pairs:
        name, equals, text = (part.strip() for part in pair.partition("="))
        place = f"--set {pair}"
        if not equals:
            faults.append(Fault(place, "has no =", "Write name=value, e.g. architecture__latent=5."))
        elif name not in kinds:
            faults.append(Fault(place, f"no setting {name!r}", _nearest(name, kinds)))
        elif not _fits(_read(text), kinds[name]):
            faults.append(Fault(place, f"{text!r} is not {_worded(kinds[name])}"))
        else:
            found[name] = _settled(_read(text), kinds[name])
    if faults:
        raise DataError("these settings cannot be used", faults)
    return found


def _kinds(fcx: FCx) -> dict[str, Any]:
    """The type of each setting that one text can name: those of the explainer, and those of its parts."""
    top, found = get_type_hints(type(fcx).__init__), dict[str, Any]()
    for name, value in fcx.get_params(deep=False).items():
        parts = get_type_hints(type(value)) if is_dataclass(value) else None
        found |= {name: top[name]} if parts is None else {f"{name}__{part}": kind for part, kind in parts.items()}
    return found


def _nearest(name: str, kinds: Mapping[str, Any]) -> str:
    """The name meant, whether its part was misspelt or left out."""
    from ..saving.explainer import RENAMED

    name = RENAMED.get(name, name)
    meant = [k for k in kinds if k == name or k.rpartition("__")[2] == name or k.startswith(f"{name}__")]
    return f"There is {', '.join(meant)}." if meant else did_you_mean(name, kinds)


def _read(text: str) -> Any:
    """The text as JSON has it, or else as itself."""
    try:
        return json.loads({"None": "null", "none": "null", "True": "true", "False": "false"}.get(text, text))
    except ValueError:
        return text


def _fits(value: Any, kind: Any) -> bool:
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in options
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in options)
    if origin is tuple:
        return isinstance(value, list) and all(_fits(item, options[0]) for item in value)
    # A bool is no number here, so the type must be the very one.
    return type(value) is kind or (kind is float and type(value) is int)


def _settled(value: Any, kind: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return float(value) if kind is float else value


def _worded(kind: Any) -> str:
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(map(str, options))}"
    if origin in (Union, UnionType):
        return " or ".join(_worded(option) for option in options)
    return "a list such as [20, 16]" if origin is tuple else WORDS.get(kind, str(kind))


def fit(
    data: Data,
    output: Output,
    rules: Rules = None,
    label: Label = None,
    target: Target = None,
    schema_file: SchemaFile = None,
    write_schema: WriteSchema = None,
    ignore: Ignore = None,
    row_id: RowId = None,
    freeze: Freeze = None,
    classifier: ToExplain = "paper",
    classes: Classes = None,
    as_published: AsPublished = False,
    constraint: Constrained = None,
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

    Example: fcxplain fit --data loans.csv --label approved --id customer --classifier my_code:model --classes no,yes
    --target yes --rules my.rules --out model
    """
    from ..classifier.labels import checked_target
    from .guide import next_step
    from .saved import own_unless_trained
    from .sources import Source

    _check_folder(output, overwrite)
    with only_run(output):
        _check_options(constraint, as_published, history, write_schema)
        source = Source.of(
            data, label=label, rows=rows, seed=seed, classifier=classifier, schema=schema_file, id=row_id
        )
        fcx = _made(source, constraint or (rules if rules in ("unary", "binary") else "unary"), as_published)
        _set(fcx, epochs, learning_rate, setting or [])
        own = own_unless_trained(classifier)
        _check_classes(classes, own, classifier)
        # The classes of a model of one's own may be called otherwise than those of the label.
        loaded = _loaded(source, target if own is None else None, ignore, freeze, write_schema)
        if own is None:
            checked_target(loaded.target, loaded.classes)
        asked = _asked(loaded, rules, target, classes, graph)
        _introduce(loaded, source, asked, write_schema)
        model = _trained(loaded, source) if own is None else own
        task = _task(loaded, source, model, asked)
        marks = _marks(loaded, source, task.classifier, own is None)
        done = _fitted(fcx, task, loaded, checkpoint, output)
        _keep(fcx, source, output, overwrite, checkpoint, history)
        done |= {"model": str(output), "label": loaded.label, "target": task.target, "classes": task.classes}
        _tell(done | {"classifier": classifier} | marks, next_step(source, output, loaded.notes), as_json)


@dataclass(frozen=True)
class _Asked:
    """What is to hold: the rules, the class wanted, what the model's classes are called, and the causes."""

    rules: tuple[Rule, ...]
    target: Any
    classes: tuple[Any, ...] | None
    graph: CausalGraph | None


def _asked(
    data: Dataset, rules: str | None, target: str | None, classes: list[str] | None, graph: Path | None
) -> _Asked:
    """What was asked for, read before any work begins, so that mistakes are told at once."""
    from ..causal import as_graph
    from ..rules import parse_rules
    from ..schema import level_named
    from .sources import rules_named

    known = None if graph is None else as_graph(graph, data.schema.names)
    names = [level_named(name, data.classes) or name for name in split(classes)]
    return _Asked(parse_rules(rules_named(rules, data), data.schema), target, tuple(names) or None, known)


def _check_classes(classes: list[str] | None, own: Any, classifier: str) -> None:
    if classes and own is None:
        problem = f"is for a model of your own; {classifier} is trained on the label, and calls its classes the same"
        raise DataError("", [Fault(f"--classes {','.join(classes)}", problem, "Leave it out.")])


def _check_options(constraint: str | None, as_published: bool, history: Path | None, write_schema: Path | None) -> None:
    """Refuse what does not go together, and names that nothing could be written to."""
    from .outputs import PICTURES, check_output

    if constraint is not None and not as_published:
        fault = Fault(f"--constraint {constraint}", "is only for FCx --as-published", "Add that, or drop it.")
        raise DataError("", [fault])
    for path, endings, option in ((history, PICTURES, "--history"), (write_schema, (".toml",), "--write-schema")):
        if path is not None:
            check_output(path, endings, option)


def _loaded(
    source: Source, target: str | None, ignore: list[str] | None, freeze: list[str] | None, write_schema: Path | None
) -> Dataset:
    """The table, with its schema written where that was asked for."""
    with working(f"loading {source.data}"):
        loaded = source.load(target=target, ignore=ignore or [], freeze=freeze or [])
    if write_schema is not None:
        loaded.schema.to_toml(write_schema)
    return loaded


def _keep(
    fcx: FCx, source: Source, output: Path, overwrite: bool, checkpoint: Path | None, history: Path | None
) -> None:
    """Save the model, and draw its history where that was asked for; our own checkpoint is of no more use."""
    from .outputs import write_history

    fcx.save(output, overwrite=overwrite, source=source.to_dict())
    if checkpoint is None:
        # What cannot be removed does no harm: the same fit would find it done, any other refuses it.
        shutil.rmtree(_beside(output), ignore_errors=True)
    if history is not None:
        write_history(fcx.history_, history)


def _set(fcx: FCx, epochs: int | None, learning_rate: float | None, settings: list[str]) -> None:
    """What was asked for on the command line, in the explainer."""

    # Who names the epochs means them: they are not made more for the sake of a small table.
    steps = None if epochs is None else 0
    given = {"schedule__epochs": epochs, "schedule__steps": steps, "schedule__learning_rate": learning_rate}
    given = {name: value for name, value in given.items() if value is not None}
    fcx.set_params(**given | read_settings(settings, fcx))


def _check_folder(output: Path, overwrite: bool) -> None:
    """Refuse now a folder that the model could not be saved in after hours of work."""
    from ..saving.container import check_target, is_there
    from ..saving.explainer import KIND

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


def _introduce(data: Dataset, source: Source, asked: _Asked, kept: Path | None) -> None:
    """Show what there is to learn from before anything is learnt, if it is a table that we do not know."""
    from .guide import show_freedom, show_own_table

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
    from ..classifier import KINDS
    from ..task import Task

    with working(f"getting the classifier {source.classifier} ready"):
        how: dict[str, Any] = {"rules": asked.rules, "label": data.label, "graph": asked.graph}
        # A class of the label is known as such; a model of one's own may call its classes otherwise.
        wanted = data.target if source.classifier in KINDS or asked.target is None else asked.target
        how |= {"target": wanted, "classes": asked.classes}
        return Task(data.train, model, schema=data.schema, seed=source.seed, **how)


def _trained(data: Dataset, source: Source) -> Classifier:
    from ..classifier import train_classifier

    # Epochs are counted where there are any; they may be fewer in the end.
    with working(f"training the classifier {source.classifier}") as work:
        return train_classifier(data, source.classifier, source.seed, on_epoch=work.move)


def _marks(data: Dataset, source: Source, model: Classifier, is_trained: bool) -> dict[str, Any]:
    """How good the classifier is, told before the rest of the work; one's own may call its classes otherwise."""
    from ..classifier import score
    from ..task import PROBES
    from .guide import show_agreement, show_marks

    if not is_trained and not set(data.classes) & set(model.classes):
        return {}
    # A model of one's own may be dear to ask.
    marks = score(model, data.test if is_trained else data.test[:PROBES], data.label)
    show_marks(source.classifier, marks) if is_trained else show_agreement(source.classifier, data.label, marks)
    return {"accuracy": marks.accuracy, "majority": max(c.share for c in marks.classes), "tested_on": marks.rows}


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


def _tell(done: dict[str, Any], then: str, as_json: bool) -> None:
    if as_json:
        return print_json(done)
    if err.quiet:
        return None
    seen = f"{done['rows']:,} refused rows, {done['epochs']} epoch{'s' * (done['epochs'] > 1)}"
    best = f"the best was epoch {done['best_epoch']} (validation loss {done['validation_loss']:.4g})"
    out.print(f"trained on {seen}; {best}; {done['seconds']:,.1f} s", highlight=False, soft_wrap=True)
    out.print(f"saved in {escape(done['model'])}", highlight=False, soft_wrap=True)
    out.print(f"go on with: [bold]{escape(then)}[/]", highlight=False, soft_wrap=True)
    return None
