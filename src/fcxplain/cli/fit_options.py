"""The options of `fcxplain fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import completion

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
