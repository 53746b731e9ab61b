"""`fcxplain datasets` and `fcxplain schema`: the built-in data sets, and the schema of a table."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from .console import Ignore, Index, Json, err, note, out, print_json, table_of
from .progress import working


def datasets(
    write: Annotated[
        str | None,
        typer.Option(help="Write this data set as files to experiment with: NAME.csv, NAME.toml, NAME.rules."),
    ] = None,
    output: Annotated[Path, typer.Option("--out", help="The folder to write to.")] = Path(),
    as_json: Json = False,
) -> None:
    """List the built-in data sets with their files and licences, or write one of them to files.

    Example: fcxplain datasets

    Example: fcxplain datasets --write loans
    """
    from ..datasets import DATASETS, write_dataset
    from ..datasets.download import whereabouts

    if write is not None:
        paths = [str(path) for path in write_dataset(write, output)]
        return print_json(paths) if as_json else out.print("written:", escape(", ".join(paths)), highlight=False)
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
        status = str(where) if where else f"not on this machine yet. {how}"
        out.print(f"[bold]{escape(str(file))}[/]: {escape(status)}", highlight=False, soft_wrap=True)
    return None


def schema(
    table: Annotated[str, typer.Argument(help="A CSV or parquet file.")],
    label: Annotated[str | None, typer.Option(help="The column with the true outcome; it is not a feature.")] = None,
    ignore: Ignore = None,
    index: Index = None,
    output: Annotated[Path | None, typer.Option("--out", help="Write the schema as TOML, for editing.")] = None,
    as_json: Json = False,
) -> None:
    """Infer the schema of a table, explain each guess, and write it to a file for editing.

    Example: fcxplain schema loans.csv --label approved --out schema.toml

    Columns that cannot be features, such as identifiers, are listed and left out. Rules that names and levels suggest
    (immutable features, orders of levels, levels that should not be reached) are shown as lines to copy; none is
    applied. The file explains its own options in comments, and other commands read it with --schema.
    """
    from ..datasets.delimited import in_words
    from ..datasets.source import guess_schema
    from ..datasets.tables import read_marked
    from ..files import check_output, write_whole
    from ..suggestions import suggest
    from .guide import show_guesses, show_likely

    if output is not None:
        check_output(output, (".toml",), "--out")
    with working(f"reading {table}"):
        reading = read_marked(table, index=index)
        found = guess_schema(reading.table, label, ignore or [])
        likely = suggest(reading.table, found.schema, label=label, by_name=True)
    if output is not None:
        write_whole(output, found.to_toml(map(str, likely)))
    if as_json:
        guesses = [asdict(g) for g in found.schema.guesses]
        left = [asdict(fault) for fault in found.left_out]
        rules = [s.to_dict() for s in likely]
        return print_json({**found.schema.to_dict(), "guesses": guesses, "left_out": left, "suggestions": rules})
    show_guesses(found.schema)
    show_likely(likely, out)
    for fault in found.left_out:
        out.print("[yellow]left out:[/]", escape(str(fault)), highlight=False, soft_wrap=True)
    for line in in_words({n: texts for n, texts in reading.marks.items() if n in found.schema or n == label}, label):
        note(line)
    if label is None:
        note("no --label was given, so the column with the true outcome is among the features")
    if output is not None:
        line = f"written to {output}: edit it there and pass it with --schema"
        err.print(escape(line), highlight=False, soft_wrap=True)
    return None
