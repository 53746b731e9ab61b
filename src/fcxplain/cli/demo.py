"""`fcxplain demo`: the main job on embedded data."""

from __future__ import annotations

from rich.markup import escape

from .console import Seed, err, out, table_of


def demo(seed: Seed = 0) -> None:
    """Do the main job on the embedded Adult data.

    Trains the paper's classifier, and shows whom it refuses and what the rules say.
    """
    with err.status("loading Adult and training the paper's classifier"):
        from ..demo import run

        found = run(seed)
    marks = found.score
    out.print(f"[bold]Adult[/] (UCI, 1994 census): {found.rows:,} people, of whom {marks.rows:,} are kept for testing.")
    out.print(
        f"The paper's classifier is right for [bold]{marks.accuracy:.1%}[/] of them "
        f"(balanced accuracy {marks.balanced_accuracy:.1%}).\n"
    )
    out.print(
        f"It refuses [bold]{found.refused:,}[/] of the {marks.rows:,}: it does not expect an income above 50,000."
    )
    table = table_of("education", "people", "refused")
    for level, row in found.groups.iterrows():
        table.add_row(escape(str(level)), f"{int(row['people']):,}", f"{row['refused']:.0%}")
    out.print(table)
    out.print("\nWhat a counterfactual for them may not break:")
    table = table_of("rule", "in words", "refused who break it as they are")
    for (text, words), broken in zip(found.rules, found.broken, strict=True):
        table.add_row(escape(text), escape(words), f"{broken.rows_broken:,}")
    out.print(table)
