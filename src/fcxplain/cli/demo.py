"""`fcxplain demo`: the main job on embedded data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from .console import Json, Seed, err, out, print_json, table_of
from .serving import need_extra, open_page

if TYPE_CHECKING:
    from ..demo import Demo
    from ..explanation import Certificate


def demo(
    output: Annotated[Path, typer.Option("--out", help="The folder for the model, the page and the answers.")] = Path(
        "fcxplain-demo"
    ),
    rows: Annotated[int | None, typer.Option(min=100, help="At most so many rows of the data; quicker.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
    serve: Annotated[bool, typer.Option("--serve", help="Open the page that answers when it is done.")] = False,
    port: Annotated[int, typer.Option(help="With --serve, the port; 0 takes a free one.")] = 8000,
) -> None:
    """Do the main job on the embedded Adult data.

    Trains the paper's classifier and FCx, gives everybody who is refused an answer that was checked, shows what three
    people could change and why one person cannot, and writes the model, a page and a file of all answers.

    Example: fcxplain demo --out fcxplain-demo
    """
    if serve:
        need_extra()
        from ..service.app import ServeSettings
    from ..demo import DATA, run
    from .training import TrainingProgress

    _check_folder(output)
    with TrainingProgress(err, then="explaining everybody who is refused") as progress:
        found = run(output, seed, [progress], progress.tell, rows=rows)
    print_json(_data(found)) if as_json else _print(found)
    if serve:
        open_page(ServeSettings(str(found.model), DATA, port=port, store=output / "answers.db"))


def _check_folder(output: Path) -> None:
    """Refuse now what could not be written after minutes of work."""
    from ..errors import DataError, Fault

    if output.exists() and not output.is_dir():
        raise DataError("", [Fault(f"--out {output}", "is a file", "Name a folder.")])


def _data(found: Demo) -> dict[str, Any]:
    return {
        "rows": found.rows,
        "accuracy": found.score.accuracy,
        "refused": found.refused,
        "rules": list(found.rules),
        "figures": {one.metric: {"here": one.ours, "paper": one.paper} for one in found.figures},
        "people": [person.to_dict() for person in found.people],
        "why_not": None if found.why_not is None else found.why_not.to_dict(),
        "files": {"model": str(found.model), "page": str(found.page), "answers": str(found.answers)},
    }


def _print(found: Demo) -> None:
    marks = found.score
    out.print(f"[bold]Adult[/] (UCI, 1994 census): {found.rows:,} people, of whom {marks.rows:,} are kept for testing.")
    out.print(
        f"The paper's classifier is right for [bold]{marks.accuracy:.1%}[/] of them. It refuses [bold]"
        f"{found.refused:,}[/]: it does not expect an income above 50,000."
    )
    _print_figures(found)
    for person in found.people:
        _print_person(person)
    _print_why_not(found)
    _print_files(found)


def _print_figures(found: Demo) -> None:
    out.print("\nAn answer for each of them, every one checked on decoded values with the classifier itself:")
    table = table_of("", "here", "paper")
    for one in found.figures:
        paper = "" if one.paper is None else f"{one.paper:.2f}"
        table.add_row(one.metric, f"{one.ours:.2f}", paper)
    out.print(table)
    out.print("The paper counts validity on raw outputs, before they are decoded.", style="dim")


def _print_person(person: Certificate) -> None:
    told = f"{person.status}, probability {person.score_now:.2f} now, {person.score:.2f} then"
    out.print(f"\n[bold]Row {escape(str(person.row))}[/]: {told}")
    table = table_of("  feature", "now", "would be")
    for change in person.changes:
        table.add_row(f"  {escape(change.feature)}", escape(str(change.now)), escape(str(change.then)))
    out.print(table)
    for rule in person.rules:
        mark = "[green]kept[/]  " if rule.kept else "[red]BROKEN[/]"
        out.print(f"  {mark} {escape(rule.words)}", highlight=False)


def _print_why_not(found: Demo) -> None:
    if found.why_not is None:
        return
    head = f"\n[bold]Row {escape(str(found.why_not.row))}[/], if {escape(found.wishes)}: {found.why_not.status}"
    out.print(head, highlight=False)
    out.print(f"  {escape(found.why_not.words)}", highlight=False)


def _print_files(found: Demo) -> None:
    out.print(f"\nA page to read: {escape(str(found.page))}", highlight=False, soft_wrap=True)
    out.print(f"All answers, with certificates: {escape(str(found.answers))}", highlight=False, soft_wrap=True)
    out.print(f"The model: {escape(str(found.model))}. Go on with:", highlight=False, soft_wrap=True)
    model, answers = escape(str(found.model)), escape(str(found.answers))
    for command in (
        f"verify {model} adult {answers}",
        f"explain {model} adult --prefer sparse -k 3 --html report.html",
        f"evaluate {model}",
        f"graph {model} --out graph.svg",
    ):
        out.print(f"  fcxplain {command}", highlight=False, soft_wrap=True)
