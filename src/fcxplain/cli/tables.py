"""`fcxplain datasets` and `fcxplain schema`: what there is, and what a table looks like."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from .console import Json, err, out, print_json, table_of


def datasets(as_json: Json = False) -> None:
    """List the built-in data sets: what they are, where they lie, their licence.

    Example: fcxplain datasets
    """
    from ..datasets import DATASETS
    from ..datasets.files import whereabouts

    found = [
        {
            "name": spec.name,
            "title": spec.title,
            "features": len(spec.schema),
            "label": spec.label,
            "target": spec.target,
            "licence": spec.licence,
            "file": spec.file.name,
            "where": whereabouts(spec.file),
            "get_it": spec.file.by_hand,
        }
        for spec in DATASETS.values()
    ]
    if as_json:
        return print_json(found)
    table = table_of("name", "what", "features", "label", "licence")
    for d in found:
        table.add_row(*(escape(str(d[k])) for k in ("name", "title", "features", "label", "licence")))
    out.print(table)
    for file, where, how in dict.fromkeys((d["file"], d["where"], d["get_it"]) for d in found):
        told = str(where) if where else f"not here yet. {how}"
        out.print(f"[bold]{escape(str(file))}[/]: {escape(told)}", highlight=False, soft_wrap=True)
    return None


def schema(
    table: Annotated[str, typer.Argument(help="A CSV or parquet file.")],
    label: Annotated[str | None, typer.Option(help="The column with the answer; it is no feature.")] = None,
    output: Annotated[Path | None, typer.Option("--out", help="Write the schema as TOML, for editing.")] = None,
    as_json: Json = False,
) -> None:
    """Guess a table's schema and say why; write it to a file that you can correct.

    Example: fcxplain schema loans.csv --label approved --out schema.toml
    """
    from ..datasets import read_table
    from ..schema import Schema

    guessed = Schema.infer(read_table(table), label=label)
    if as_json:
        print_json({**guessed.to_dict(), "guesses": [asdict(g) for g in guessed.guesses]})
    else:
        shown = table_of("feature", "guessed", "because", "look at")
        for g in guessed.guesses:
            shown.add_row(*(escape(v) for v in (g.feature, g.guess, g.why, g.advice)))
        out.print(shown)
    if output is not None:
        guessed.to_toml(output)
        err.print(f"written to {escape(str(output))}: correct it there and pass it with --schema", highlight=False)
