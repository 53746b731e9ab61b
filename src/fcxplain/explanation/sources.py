"""What saved answers are read from: the file and the task, refused with a remedy where they cannot be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from ..errors import DataError, Fault, FormatError, some
from ..task import Task
from .parquet import column_named

AS_PARQUET = "Explain with --out answers.parquet, in Python answer.to_parquet(path)."


class Explainer(Protocol):
    """Whoever was fitted to a task."""

    task_: Task


def task_of(given: Task | Explainer) -> Task:
    """The task itself, or the one that an explainer was fitted to."""
    task = getattr(given, "task_", given)
    if not isinstance(task, Task):
        problem = f"is a {type(given).__name__}, neither a Task nor an explainer that is fitted"
        raise DataError("", [Fault("task", problem, "Give the task, or FCx.load(folder).")])
    return task


def check_file(path: Path) -> None:
    """Refuse a file that is not there, or is of another kind by its name."""
    if not path.is_file():
        raise FormatError(f"there is no file {path}")
    if path.suffix.lower() in (".csv", ".json"):
        raise FormatError("", [Fault(str(path), "answers are read and verified from .parquet only", AS_PARQUET)])


def wordless(path: Path, names: Sequence[str], task: Task) -> FormatError:
    """The error about a parquet file without fcxplain's word on what it is."""
    if {column_named(name, task) for name in ("status", "certificate")} <= set(names):
        problem = "was saved again by another program, so what fcxplain wrote beside the table is gone, its digest too"
        return FormatError("", [Fault(str(path), problem, "Keep the file that explain wrote, and give that one.")])
    return FormatError(f"{path} does not hold answers written by fcxplain. {AS_PARQUET}")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file's content is a `FormatError` that names it."""
    try:
        yield
    except (OSError, pa.ArrowException, LookupError, ValueError, TypeError, AttributeError) as error:
        problem = f"{path} does not hold answers written by fcxplain ({type(error).__name__}: {some([str(error)])})"
        raise FormatError(f"{problem}. Explain again.") from error
