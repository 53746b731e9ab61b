"""`fcxplain demo`: the main job on embedded data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from .console import Seed, err, out, table_of

if TYPE_CHECKING:
    from ..demo import Demo
    from ..explanation import Certificate


def demo(
    output: Annotated[Path, typer.Option("--out", help="The folder that the model is saved in.")] = Path(
        "fcxplain-demo"
    ),
    seed: Seed = 0,
) -> None:
    """Do the main job on the embedded Adult data.

    Trains the paper's classifier and the paper's generator of counterfactuals, holds what it finds against the
    paper's figures, shows what three people could change, and saves the model.
    """
    from ..demo import run
    from .progress import TrainingProgress

    with TrainingProgress(err) as progress:
        found = run(output, seed, [progress])
    marks = found.score
    out.print(f"[bold]Adult[/] (UCI, 1994 census): {found.rows:,} people, of whom {marks.rows:,} are kept for testing.")
    out.print(
        f"The paper's classifier is right for [bold]{marks.accuracy:.1%}[/] of them. It refuses [bold]"
        f"{found.refused:,}[/]: it does not expect an income above 50,000."
    )
    _print_figures(found)
    for person in found.people:
        _print_person(person)
    out.print(f"\nThe model is saved in {escape(str(found.model))}. Go on with:", highlight=False)
    for command in ("evaluate", "graph", "explain"):
        rest = {"evaluate": "", "graph": " --out graph.svg", "explain": " adult --out answers.parquet"}[command]
        out.print(f"  fcxplain {command} {escape(str(found.model))}{rest}", highlight=False, soft_wrap=True)


def _print_figures(found: Demo) -> None:
    out.print("\nFCx as published, one draw for each of them, every answer checked on decoded values:")
    table = table_of("", "here", "paper")
    for one in found.figures:
        paper = "" if one.paper is None else f"{one.paper:.2f}"
        table.add_row(one.metric, f"{one.ours:.2f}", paper)
    out.print(table)
    out.print(
        "The paper counts validity on raw outputs (validity_soft) and trains longer; `fcxplain bench report` has the"
        " whole comparison.",
        style="dim",
    )


def _print_person(person: Certificate) -> None:
    out.print(f"\n[bold]Row {escape(str(person.row))}[/]: {person.status}, probability {person.probability:.2f}")
    table = table_of("  feature", "now", "would be")
    for change in person.changes:
        table.add_row(f"  {escape(change.feature)}", escape(str(change.now)), escape(str(change.then)))
    out.print(table)
    for rule in person.rules:
        mark = "[green]kept[/]  " if rule.kept else "[red]BROKEN[/]"
        out.print(f"  {mark} {escape(rule.words)}", highlight=False)
