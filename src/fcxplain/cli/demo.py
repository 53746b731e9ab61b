"""`fcxplain demo`: the whole workflow on embedded data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape

from ..errors import DataError, Fault
from .console import Json, Seed, need_extra, option, out, print_json, table_of
from .progress import Work
from .serving import open_page

if TYPE_CHECKING:
    from ..demo import Demo
    from ..explanation import Certificate


def demo(
    output: Annotated[Path, option("The folder for the model, the page and the answers.", "--out")] = Path(
        "fcxplain-demo"
    ),
    rows: Annotated[int | None, option("The maximum number of rows to use; fewer are quicker.", least=100)] = None,
    seed: Seed = 0,
    as_json: Json = False,
    serve: Annotated[bool, option("Serve the interactive page afterwards.", "--serve")] = False,
    port: Annotated[int, option("With --serve, the port; 0 picks a free one.")] = 8000,
) -> None:
    """Run the whole workflow on the embedded Adult data.

    Example: fcxplain demo --out fcxplain-demo

    Trains a classifier, explains people that it refuses under realistic rules, shows what some of them could change and
    why others have no answer, and writes the model, a page and a file of all answers.
    """
    from ..demo import DATA, run

    # Before minutes of work.
    if output.exists() and not output.is_dir():
        raise DataError("", [Fault(f"--out {output}", "is a file", "Name a folder.")])
    if serve:
        need_extra()
    with Work("training a classifier") as work:
        found = run(output, seed, work.tell, rows=rows)
    print_json(_data(found)) if as_json else _print(found)
    if serve:
        from ..service.app import ServeSettings

        open_page(ServeSettings(str(found.model), DATA, port=port, store=output / "answers.db"))


def _data(found: Demo) -> dict[str, Any]:
    return {
        "rows": found.rows,
        "accuracy": found.score.accuracy,
        "refused": found.refused,
        "rules": list(found.rules),
        "counts": found.counts,
        "people": [person.to_dict() for person in found.people],
        "why_not": [why.to_dict() for why in found.why_not],
        "files": {"model": str(found.model), "page": str(found.page), "answers": str(found.answers)},
    }


def _print(found: Demo) -> None:
    marks, counts = found.score, found.counts
    out.print(f"[bold]Adult[/] (UCI, 1994 census): {found.rows:,} people, {marks.rows:,} of them held out for testing.")
    out.print(
        f"A classifier is right about [bold]{marks.accuracy:.1%}[/] of these. For [bold]{found.refused:,}[/] of them "
        f"it does not predict an income {escape(found.wanted)}."
    )
    out.print(f"\nWhat could they change within five years? Some of the {len(found.rules)} rules:")
    for words in found.rules[1:5]:
        out.print(f"  - {escape(words)}")
    asked = sum(counts.values())
    parts = [f"{counts[status]:,} {says}" for status, says in COUNTED.items() if status in counts]
    out.print(f"\nOf the first {asked:,}, {', '.join(parts)}.")
    for person in found.people:
        _print_person(person)
    for why in found.why_not:
        out.print(f"\n[bold]Person {escape(str(why.row))}[/]: {why.status}")
        out.print(f"  {escape(why.words)}")
    _print_files(found)


COUNTED = {
    "verified": "have an answer that was checked with the classifier itself",
    "impossible": "have none, which is proved",
    "not_found": "have none that was found",
}


def _print_person(person: Certificate) -> None:
    from ..explanation.wording import change_cells

    scores = f"{person.status}, probability {person.score_now:.2f} now, {person.score:.2f} then"
    out.print(f"\n[bold]Person {escape(str(person.row))}[/]: {scores}")
    table = table_of("  feature", "now", "would be")
    for cells in (change_cells(change, person.schema) for change in person.changes):
        table.add_row(f"  {escape(cells[0])}", *map(escape, cells[1:]))
    out.print(table)
    out.print(f"  all {len(person.rules)} rules are kept" if person.feasible else "  breaks a rule")


def _print_files(found: Demo) -> None:
    out.print(f"\nA page to read: {escape(str(found.page))}")
    out.print(f"All answers, with certificates: {escape(str(found.answers))}")
    out.print(f"The model: {escape(str(found.model))}. Next, try:")
    model, answers = escape(str(found.model)), escape(str(found.answers))
    for command in (
        f"verify {model} adult {answers}",
        f"explain {model} adult --prefer sparse -k 3 --html report.html --letters letters",
        f"evaluate {model}",
        f"graph {model} --out graph.svg",
    ):
        out.print(f"  fcxplain {command}")
