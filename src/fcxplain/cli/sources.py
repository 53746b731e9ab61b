"""Where a command's rows come from: a data set's name, a file, or what a saved model remembers."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..datasets import DATASETS, Dataset, load_dataset, read_table
from ..datasets import base as splitting
from ..datasets.delimited import Marks, named_in
from ..datasets.tables import Reading, read_marked
from ..errors import DataError, Fault, FcxWarning, RuleError, SchemaError, did_you_mean, some
from ..schema import Schema
from ..schema.validation import EMPTY
from ..task import Task
from .own_tables import as_options, complete_rows, load_own, located, whole_path


@dataclass(frozen=True)
class Source:
    """What a model is fitted on, as it is kept beside the model so that the same rows can be loaded again.

    `data` is a data set's name or the whole path of a file. `label` is the label of one's own table, `id` the column
    that its rows are called by, `schema` the file that its schema came from. `rows` and `seed` choose the sample and
    the split. `sha256` tells whether the file is still the same.
    """

    data: str
    label: str | None = None
    rows: int | None = None
    seed: int = 0
    classifier: str = "paper"
    schema: str | None = None
    sha256: str | None = None
    id: str | None = None

    @classmethod
    def of(cls, data: str, *, schema: Path | None = None, classifier: str = "paper", **chosen: Any) -> Source:
        """From what a person typed; files are kept by their whole paths."""
        where = located(data)
        model = whole_path(classifier) if is_onnx(classifier) else classifier
        sha256 = None if where in DATASETS else sha256_of(where)
        return cls(
            where, classifier=model, schema=None if schema is None else whole_path(schema), sha256=sha256, **chosen
        )

    @property
    def is_built_in(self) -> bool:
        """Whether this is one of the data sets that fcxplain knows."""
        return self.data in DATASETS

    def load(
        self,
        *,
        schema: Schema | None = None,
        target: Any = None,
        ignore: Sequence[str] = (),
        freeze: Sequence[str] = (),
    ) -> Dataset:
        """The data in its parts; `schema` stands in for the schema file, and for `ignore` and `freeze`."""
        if self.is_built_in:
            own = [name for name, given in (("--ignore", ignore), ("--id", self.id)) if given]
            if own:
                raise DataError("", [Fault(name, "is for a table of your own", "Leave it out.") for name in own])
            loaded = load_dataset(self.data, seed=self.seed, rows=self.rows)
            loaded = replace(loaded, schema=loaded.schema.freeze(*freeze))
            return loaded if target is None else replace(loaded, target=target)
        if self.label is None:
            columns = some(read_table(self.data).columns, 20)
            remedy = f"Name the column with the answer: --label NAME, one of {columns}."
            raise DataError("", [Fault(self.data, "has no known label", remedy)])
        known = schema if schema is not None or self.schema is None else Path(self.schema)
        how: dict[str, Any] = {"target": target, "seed": self.seed, "immutable": tuple(freeze), "index": self.id}
        loaded = load_own(self.data, label=self.label, schema=known, ignore=ignore, **how)
        return loaded if self.rows is None else _sampled(loaded, self.rows, self.seed)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it is saved beside a model."""
        return asdict(self)

    @classmethod
    def remembered(cls, kept: object) -> Source | None:
        """What a model was fitted on; None if it does not say, as when it was saved from Python."""
        if not isinstance(kept, Mapping):
            return None
        known = {f.name: kept[f.name] for f in fields(cls) if kept.get(f.name) is not None}
        texts = [known.get(name) for name in ("label", "classifier", "schema", "sha256", "id")]
        numbers = [known.get(name) for name in ("rows", "seed")]
        is_sound = all(isinstance(t, str | None) for t in texts)
        is_sound &= all(n is None or (isinstance(n, int) and n >= 0) for n in numbers)
        return cls(**known) if is_sound and isinstance(known.get("data"), str) else None


def is_onnx(name: str) -> bool:
    """Whether this is the name of an ONNX file."""
    return Path(name).suffix.lower() == ".onnx"


def sha256_of(path: str) -> str | None:
    """What tells a file from a changed one; None where there is no file to read, which loading it will say."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def rules_named(name: str | None, data: Dataset) -> str | Path:
    """The text of a data set's own rules, or the file that is meant."""
    if name is None:
        return ""
    if name in data.rules:
        return data.rules[name]
    if data.rules and not Path(name).exists():
        remedy = f"{did_you_mean(name, data.rules)} This data set has {', '.join(data.rules)}.".strip()
        raise RuleError("", [Fault(f"rules {name!r}", "is neither a file nor a name of rules", remedy)])
    return Path(name)


def _sampled(data: Dataset, rows: int, seed: int) -> Dataset:
    """So many rows of the three parts together, each with its share."""
    if rows < 1:
        raise DataError(f"rows is {rows}; ask for at least 1, or leave it out for all")
    rng, share = np.random.default_rng(seed), min(1.0, rows / len(data))
    parts = {
        name: splitting.sample(part, data.label, max(1, round(len(part) * share)), rng)
        for name, part in (("train", data.train), ("validation", data.validation), ("test", data.test))
    }
    return replace(data, **parts)


def rows_to_explain(
    rows: str, task: Task, source: Source | None, *, skip_missing: bool = False, called_by: str | None = None
) -> pd.DataFrame:
    """The rows of a file, or the test part of a data set; the one that the model has never seen, if it is its own.

    They are called by the column `called_by`, or by the one that the model remembers if it is there.
    """
    marks: Marks
    if rows in DATASETS:
        own = source if source is not None and source.data == rows else Source(rows)
        table, marks = replace(own, id=called_by).load().test, {}
    else:
        reading = _called(located(rows), task.schema, source, called_by)
        table, marks = reading.table, reading.marks
    # A label or a note beside the features is nobody's mistake.
    table = table[[name for name in table.columns if name in task.schema]]
    whole, told = complete_rows(table, task.schema)
    if told and skip_missing:
        warnings.warn(told, FcxWarning, stacklevel=2)
        table = whole
    try:
        task.validate(table)
    except SchemaError as error:
        remedy = "Fill it in, or leave such rows out with --skip-missing."
        faults = [named_in(replace(f, remedy=remedy), marks) if f.problem == EMPTY else f for f in error.faults]
        raise SchemaError(error.message, faults) from error
    return table


def _called(path: str, schema: Schema, source: Source | None, called_by: str | None) -> Reading:
    """The rows under their names; a file may have them as its index already."""
    reading = read_marked(path, schema=schema)
    name = names_rows(reading.table.columns, source, called_by)
    if name is None or reading.table.index.name == name:
        return reading
    try:
        # Names are read otherwise than numbers: they keep their leading zeros.
        return read_marked(path, schema=schema, index=name)
    except DataError as error:
        raise as_options(error) from error


def names_rows(columns: Iterable[str], source: Source | None, called_by: str | None) -> str | None:
    """The column that rows are called by: the one asked for, or the one that the model remembers if it is there."""
    own = None if source is None else source.id
    return own if called_by is None and own in set(columns) else called_by
