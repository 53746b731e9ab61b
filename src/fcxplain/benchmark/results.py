"""Results of jobs: one JSON line each in `<folder>/<data>.jsonl`, with the versions and the code that gave it."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import FormatError
from .plan import RESULTS, Job, kind_of

ROOT = Path(__file__).resolve().parents[1]
# Code that draws, prints or plans does not affect figures.
SILENT = ("cli", "plots", "service", "demo.py", "__main__.py", "benchmark")
MEASURING = ("benchmark/measuring.py", "benchmark/plan.py")
LIBRARIES = ("torch", "numpy", "pandas", "scikit-learn")


def environment() -> dict[str, Any]:
    """The software and the machine of a result."""
    import torch

    # The vector instructions that torch chose determine the order of sums, and so their rounding.
    instructions = str(torch.backends.cpu.get_cpu_capability())
    found: dict[str, Any] = {"python": platform.python_version(), "fcxplain": __version__}
    found |= {name: version(name) for name in LIBRARIES}
    found |= {"cpus": os.cpu_count(), "machine": platform.machine(), "instructions": instructions}
    return found | {"code": code_digest(), "commit": commit()}


@cache
def commit() -> str:
    """The commit of the sources, with a + if they have changed since; empty outside of a repository."""
    head, changes = _git("rev-parse", "--short=12", "HEAD"), _git("status", "--porcelain", "--", ".")
    return head + "+" * bool(head and changes)


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return "" if done.returncode else done.stdout.strip()


@cache
def code_digest() -> str:
    """Twelve digits that depend on the code behind the figures, but not on its comments, docstrings or layout."""
    digest = hashlib.sha256()
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name in MEASURING or name.split("/")[0] not in SILENT:
            digest.update(f"{name}\n{meaning(path.read_text(encoding='utf-8'))}\n".encode())
    return digest.hexdigest()[:12]


def meaning(source: str) -> str:
    """The syntax tree of the code without docstrings, as text."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            # A string expression is a docstring, or a comment below a field.
            node.body = [  # type: ignore[attr-defined]
                part
                for part in body
                if not (isinstance(part, ast.Expr) and isinstance(getattr(part.value, "value", None), str))
            ]
    return ast.dump(tree)


@dataclass(frozen=True)
class Failure:
    """Why a job has no figures: the class of the error, its message, and the place in the code that raised it."""

    type: str
    message: str
    place: str

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" + (f" ({self.place})" if self.place else "")


@dataclass(frozen=True)
class Sizes:
    """Rows of the data set and its parts, and the number of test rows that the black box refuses."""

    rows: int
    train: int
    test: int
    refused: int


@dataclass(frozen=True)
class BlackBox:
    """Accuracy of the classifier on the test part, in percent."""

    accuracy: float
    balanced_accuracy: float


@dataclass(frozen=True)
class FitFigures:
    """Effort of the training; a method that does not train in epochs has no figures per epoch."""

    cpu_seconds: float
    seconds_per_epoch: float | None = None
    """CPU seconds, the mean over epochs; training and validation only."""
    epochs: int | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Explaining:
    """The number of rows explained, and the CPU seconds."""

    rows: int
    cpu_seconds: float


@dataclass(frozen=True)
class Result:
    """One line. Either `failure` is why there are no figures, or `absent` has a reason for each missing figure."""

    key: str
    work: str
    job: Job
    environment: dict[str, Any]
    parameters: dict[str, Any] = field(default_factory=dict)
    failure: Failure | None = None
    figures: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    """The number of rows by status."""
    sizes: Sizes | None = None
    black_box: BlackBox | None = None
    fitting: FitFigures | None = None
    explaining: Explaining | None = None
    history: tuple[dict[str, Any], ...] = ()
    copied_from: str = ""
    """The key of the job that did the work, if a study reuses an earlier measurement."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"format": RESULTS} | asdict(self) | {"job": self.job.to_dict()}

    def to_line(self) -> str:
        """The line, without the line break."""
        return json.dumps(_finite(self.to_dict()), ensure_ascii=False, allow_nan=False, default=kind_of)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """A result from plain data."""
        if data.get("format") != RESULTS:
            found = data.get("format", "none")
            remedy = "figures of two formats cannot be compared, so measure into another folder"
            raise FormatError(f"this result has format {found}, and this version of fcxplain has {RESULTS}: {remedy}")
        known = {f.name for f in fields(cls)}
        absent = [name for name in ("key", "work", "job", "environment") if name not in data]
        if absent:
            raise FormatError(f"this result has no {absent[0]!r}")
        values: dict[str, Any] = {name: value for name, value in data.items() if name in known}
        for name, kind in PARTS.items():
            values[name] = None if values.get(name) is None else kind(**values[name])
        values["notes"], values["history"] = tuple(values.get("notes", ())), tuple(values.get("history", ()))
        return cls(**values | {"job": Job.from_dict(data["job"])})


PARTS: dict[str, Any] = {
    "failure": Failure,
    "sizes": Sizes,
    "black_box": BlackBox,
    "fitting": FitFigures,
    "explaining": Explaining,
}


def read_results(folder: str | Path, data: Iterable[str] | None = None) -> list[Result]:
    """All results in a folder (of some data sets), file by file in order of name; only the latest line of each key."""
    folder = Path(folder)
    paths = sorted(folder.glob("*.jsonl")) if data is None else [file_of(folder, name) for name in sorted(set(data))]
    latest: dict[str, Result] = {}
    for path in paths:
        for result in _read(path):
            latest.pop(result.key, None)
            latest[result.key] = result
    return list(latest.values())


def append(folder: str | Path, result: Result) -> None:
    """Append a result to its data set's file, and flush it to the disk."""
    path = file_of(Path(folder), result.job.data)
    path.parent.mkdir(parents=True, exist_ok=True)
    start = _mended(path)
    with path.open("ab") as file:
        file.write(start + result.to_line().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def file_of(folder: Path, data: str) -> Path:
    """The path of a data set's results."""
    return folder / f"{data}.jsonl"


def _read(path: Path) -> list[Result]:
    lines, tail = _lines(path)
    # A last line without a line break may be complete, if the file was edited by hand.
    lines += [tail] if _is_whole(tail) else []
    return [_parsed(line, path, number) for number, line in enumerate(lines, start=1)]


def _lines(path: Path) -> tuple[list[bytes], bytes]:
    """The lines that end in a line break, and the rest."""
    *lines, tail = path.read_bytes().split(b"\n") if path.exists() else [b""]
    return lines, tail


def _parsed(line: bytes, path: Path, number: int) -> Result:
    try:
        return Result.from_dict(json.loads(line))
    except (ValueError, TypeError, AttributeError, FormatError) as error:
        remedy = "Delete the line, and the job is due again."
        raise FormatError(f"{path}, line {number}: {error}. {remedy}") from error


def _is_whole(tail: bytes) -> bool:
    try:
        return isinstance(json.loads(tail), dict)
    except ValueError:
        return False


def _mended(path: Path) -> bytes:
    """Cut off an incomplete last line; return the line break to write first if the last line only lacks that."""
    lines, tail = _lines(path)
    if not tail:
        return b""
    if _is_whole(tail):
        return b"\n"
    with path.open("r+b") as file:
        file.truncate(sum(len(line) + 1 for line in lines))
    return b""


def _finite(value: Any) -> Any:
    """Replace numbers that are not finite, which JSON cannot express."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
