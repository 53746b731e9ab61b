"""Files that commands write: refused before the work begins if they cannot be, written whole when it is done."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DataError, Fault
from ..files import write_whole

if TYPE_CHECKING:
    import pandas as pd

    from ..causal import CausalGraph
    from ..explanation import Explanation
    from ..training_loop import History

PICTURES = (".svg", ".png", ".pdf")
ANSWERS = (".parquet", ".csv", ".json")
GRAPHS = (*PICTURES, ".csv", ".dot")


def check_output(path: Path, endings: Sequence[str], option: str = "--out") -> None:
    """Refuse a file that cannot be written, or whose ending says nothing."""
    place, folder = f"{option} {path}", path.resolve().parent
    faults = []
    if path.suffix.lower() not in endings:
        known = f"{', '.join(endings[:-1])} or {endings[-1]}"
        faults.append(Fault(place, "has an ending that says no format", f"Choose {known}."))
    if path.is_dir():
        faults.append(Fault(place, "is a folder", "Name a file."))
    if not folder.is_dir():
        faults.append(Fault(place, f"there is no folder {folder}", "Create it first."))
    elif not os.access(folder, os.W_OK | os.X_OK):
        faults.append(Fault(place, f"the folder {folder} may not be written to", "Choose another."))
    if faults:
        raise DataError("", faults)


def write_answers(answer: Explanation, path: Path, key: bytes | None = None) -> None:
    """Answers as parquet or JSON, with their certificates, or as a CSV table."""
    with _writing(path):
        match path.suffix.lower():
            case ".parquet":
                answer.to_parquet(path, key=key)
            case ".json":
                answer.to_json(path)
            case _:
                write_whole(path, _csv(answer.frame))


def _csv(table: pd.DataFrame) -> str:
    """A table as CSV that no spreadsheet takes for formulas; our own readers take the guards off again."""
    from pandas.api.types import is_numeric_dtype

    from ..datasets.delimited import guarded

    safe = table.apply(lambda column: column if is_numeric_dtype(column) else column.map(guarded))
    return str(safe.rename(columns=guarded).to_csv(index=False, lineterminator="\n"))


def write_graph(graph: CausalGraph, path: Path, title: str) -> None:
    """A causal graph as a picture, a CSV table or DOT."""
    if path.suffix.lower() == ".csv":
        graph.to_csv(path)
    elif path.suffix.lower() == ".dot":
        graph.to_dot(path)
    else:
        from .. import plots

        with _writing(path):
            plots.save(plots.causal_graph(graph, title=title), path)


def write_history(history: History, path: Path) -> None:
    """The loss and its terms over the epochs, as a picture."""
    from .. import plots

    with _writing(path):
        plots.save(plots.loss_curves(history), path)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
