"""Where rows come from, for Python and the command line: the name of a data set, a file, or a saved model's source."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..errors import DataError, Fault, FcxWarning, RuleError, SchemaError, did_you_mean, some
from ..progress import OnProgress, no_progress
from ..schema import Schema
from ..schema.inference import guess_feature, without_ignored
from ..schema.toml import one_line
from ..schema.validation import EMPTY
from ..storage import is_address
from . import DATASETS, base, load_dataset
from .base import Dataset
from .delimited import Marks, named_in
from .tables import TextRows, columns_of, existing, is_parquet, load_table, read_marked, read_table

if TYPE_CHECKING:
    from ..task import Task


# Classifiers of `train_classifier` that cannot handle missing values.
WHOLE_ROWS = ("paper", "mlp", "logistic")


@dataclass(frozen=True)
class Source:
    """What a model was fitted on, saved with the model so that the same rows can be loaded again.

    `data` is the name of a data set or the absolute path of a file. `label` is the label column of your own table,
    `index` the column with row labels, `schema` the schema file. `rows` and `seed` determine the sample and the split.
    `sha256` shows whether the file has changed.
    """

    data: str
    label: str | None = None
    rows: int | None = None
    seed: int = 0
    classifier: str = "paper"
    schema: str | None = None
    sha256: str | None = None
    index: str | None = None

    @classmethod
    def of(cls, data: str, *, schema: Path | None = None, classifier: str = "paper", **chosen: Any) -> Source:
        """From user input; files are stored by their absolute paths."""
        where = located(data)
        model = _whole(classifier) if Path(classifier).suffix.lower() == ".onnx" else classifier
        sha256 = None if where in DATASETS else _sha256(where)
        return cls(where, classifier=model, schema=None if schema is None else _whole(schema), sha256=sha256, **chosen)

    @classmethod
    def remembered(cls, kept: object) -> Source | None:
        """The source of a saved model (`FCx.source_`); None if there is none that can be read."""
        if not isinstance(kept, Mapping):
            return None
        known = {f.name: kept[f.name] for f in fields(cls) if kept.get(f.name) is not None}
        texts = [known.get(name) for name in ("label", "classifier", "schema", "sha256", "index")]
        numbers = [known.get(name) for name in ("rows", "seed")]
        is_sound = all(isinstance(t, str | None) for t in texts)
        is_sound &= all(n is None or (isinstance(n, int) and n >= 0) for n in numbers)
        return cls(**known) if is_sound and isinstance(known.get("data"), str) else None

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
        immutable: Sequence[str] = (),
        on_progress: OnProgress = no_progress,
    ) -> Dataset:
        """The data in its parts; `schema` stands in for the schema file, and for `ignore` and `immutable`."""
        if self.is_built_in:
            own = [name for name, given in (("ignore", ignore), ("index", self.index)) if given]
            if own:
                raise DataError("", [Fault(name, "is for your own table", "Leave it out.") for name in own])
            loaded = load_dataset(self.data, seed=self.seed, rows=self.rows, on_progress=on_progress)
            loaded = replace(loaded, schema=loaded.schema.freeze(*immutable))
            return loaded if target is None else replace(loaded, target=target)
        if self.label is None:
            remedy = f"Name the label column, label='NAME', one of {some(read_table(self.data).columns, 20)}."
            raise DataError("", [Fault(self.data, "has no known label", remedy)])
        known = schema if schema is not None or self.schema is None else Path(self.schema)
        roles: dict[str, Any] = {"ignore": ignore, "immutable": tuple(immutable), "index": self.index}
        settings: dict[str, Any] = {"gaps": self.classifier not in WHOLE_ROWS, "seed": self.seed, "rows": self.rows}
        loaded = load_table(self.data, label=self.label, target=target, schema=known, **roles, **settings)
        return loaded if self.rows is None else _sampled(loaded, self.rows, self.seed)

    def load_again(self, schema: Schema | None = None) -> Dataset:
        """The data that a model was fitted on; an error if it is gone, a warning if it has changed."""
        if not self.is_built_in and _sha256(self.data) != self.sha256:
            if not Path(self.data).is_file():
                problem = f"was fitted on {self.data}, which no longer exists"
                raise DataError("", [Fault("the model", problem, "Restore it, or pass your own rows.")])
            changed = f"{self.data} has changed since the model was fitted; its test part may hold training rows"
            warnings.warn(changed, FcxWarning, stacklevel=2)
        return self.load(schema=schema)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, saved with a model: `fcx.save(folder, source=source.to_dict())`."""
        return asdict(self)


def located(data: str) -> str:
    """The name of a data set, or the absolute path of a file; anything else is refused."""
    path = Path(data)
    if data in DATASETS or is_address(data):
        return data
    if path.exists() or path.suffix or path.name != data:
        return _whole(path)
    listing = f"There are {', '.join(DATASETS)}; or give a CSV or parquet file."
    remedy = f"{did_you_mean(data, DATASETS)} {listing}".strip()
    raise DataError("", [Fault("data", f"no data set and no file {data!r}", remedy)])


def _whole(path: str | Path) -> str:
    """A path that is valid from any working directory."""
    return str(Path(path).expanduser().resolve())


def _sha256(path: str) -> str | None:
    """The checksum of a file; None if it cannot be read, which loading will report."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _sampled(data: Dataset, rows: int, seed: int) -> Dataset:
    """A sample of the three parts, each with its share."""
    if rows < 1:
        raise DataError(f"rows is {rows}; ask for at least 1, or leave it out for all")
    rng, share = np.random.default_rng(seed), min(1.0, rows / len(data))
    parts = {
        name: base.sample(part, data.label, max(1, round(len(part) * share)), rng)
        for name, part in (("train", data.train), ("validation", data.validation), ("test", data.test))
    }
    return replace(data, **parts)


def rules_named(name: str | None, data: Dataset) -> str | Path:
    """The text of a data set's rule set, or the path of a rule file."""
    if name is None:
        return ""
    if name in data.rules:
        return data.rules[name]
    if data.rules and not Path(name).exists():
        remedy = f"{did_you_mean(name, data.rules)} This data set has {', '.join(data.rules)}.".strip()
        raise RuleError("", [Fault(f"rules {name!r}", "is neither a file nor the name of a rule set", remedy)])
    return Path(name)


# Tables without a label or a schema


@dataclass(frozen=True)
class Guessed:
    """The schema of the columns that can be features, and why the others cannot."""

    schema: Schema
    left_out: tuple[Fault, ...] = ()

    def to_toml(self, likely: Iterable[str] = ()) -> str:
        """A schema file that also says which columns it leaves out and why, and which rules are `likely`."""
        left = _listed("Left out, since they cannot be features:", map(str, self.left_out))
        rules = _listed("Rules to consider; put those that you want into a rule file for --rules:", likely)
        return self.schema.to_toml() + left + rules


def _listed(head: str, things: Iterable[str]) -> str:
    """Comments of a file; empty where there is nothing to list."""
    lines = [f"# - {one_line(thing)}" for thing in things]
    return "\n".join(["", f"# {head}", *lines]) + "\n" if lines else ""


def guess_schema(table: pd.DataFrame, label: str | None = None, ignore: Sequence[str] = ()) -> Guessed:
    """A schema for a table, leaving out columns that cannot be features. An error only if none is left."""
    names, faults = [n for n in table.columns if n != label and n not in ignore], dict[str, Fault]()
    for name in names if table.columns.is_unique else ():
        try:
            guess_feature(name, table[name])
        except SchemaError as error:
            faults[name] = error.faults[0]
    # If nothing is left, the error says why.
    faults = {} if len(faults) == len(names) else faults
    return Guessed(Schema.infer(table.drop(columns=list(faults)), label=label, ignore=ignore), tuple(faults.values()))


def load_features(
    data: str,
    *,
    schema: Schema | str | Path | None = None,
    label: str | None = None,
    ignore: Sequence[str] = (),
    seed: int = 0,
) -> tuple[Schema, pd.DataFrame]:
    """The schema, given or inferred, and all complete rows of a data set or of a table, which needs no label."""
    where = located(data)
    if where in DATASETS:
        loaded = load_dataset(where, seed=seed)
        return loaded.schema, pd.concat([loaded.train, loaded.validation, loaded.test])
    given = Schema.from_toml(schema) if isinstance(schema, str | Path) else schema
    table = without_ignored(read_table(where, schema=given, seed=seed), tuple(ignore), (), label)
    if given is None:
        known = Schema.infer(table, label=label)
    else:
        known = replace(given, features=tuple(f for f in given if f.name not in ignore)).complete(table)
    rows, left_out = complete_rows(table, known)
    if left_out:
        warnings.warn(left_out, FcxWarning, stacklevel=2)
    return known, rows


def complete_rows(table: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, str]:
    """The rows without missing values, and a message about the others."""
    missing = schema.missing(table)
    left = missing.any(axis=1).to_numpy()
    if not left.any():
        return table, ""
    columns = ", ".join(f"{name} {count:,}" for name, count in missing.sum().items() if count)
    first = table.index[left][0]
    message = f"{int(left.sum()):,} of {len(table):,} rows have missing values ({columns}; first at index {first})"
    return _whole_numbers(table[~left], schema), f"{message} and are left out"


def _whole_numbers(table: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Integers again, which were floats because of missing values."""
    names = [f.name for f in schema if f.kind == "integer" and f.name in table and table[f.name].dtype == "float64"]
    whole = [n for n in names if (table[n] == table[n].round()).all() and table[n].abs().max() < 2**53]
    return table.astype(dict.fromkeys(whole, "int64"))


# Rows for an existing model


def read_rows(
    rows: str | Path,
    task: Task,
    source: Source | None = None,
    *,
    index: str | None = None,
    skip_missing: bool = False,
    strict: bool = True,
) -> pd.DataFrame:
    """The rows of a file, or the test part of a data set, as `task` reads them: its features and nothing else.

    Parameters
    ----------
    rows
        A CSV or parquet file, or a data set's name.
    task
        What the rows are for.
    source
        What the model was fitted on, if known: for that data set, only its test part is read.
    index
        The column with row labels; by default the one that `source` names, which the file must then have. Empty: row
        numbers.
    skip_missing
        Leave out rows with missing values, with a warning, instead of refusing them.
    strict
        Refuse rows that do not fit the task's schema, with every fault at once; else `explain` handles them.
    """
    marks: Marks
    if str(rows) in DATASETS:
        own = source if source is not None and source.data == rows else Source(str(rows))
        table, marks = replace(own, index=index or None).load().test, {}
    else:
        path = existing(Path(located(str(rows))))
        named = index_in(columns_of(path, task.schema.names), source, index)
        is_text = not is_parquet(path)
        read = TextRows(path, task.schema, named, strict=strict).read() if is_text else read_marked(path, index=named)
        table, marks = read.table, read.marks
    # Extra columns, such as a label or a note, are not a mistake.
    table = table[[name for name in table.columns if name in task.schema]]
    whole, left_out = complete_rows(table, task.schema)
    if left_out and skip_missing:
        warnings.warn(left_out, FcxWarning, stacklevel=2)
        table = whole
    if not strict:
        return table
    try:
        task.validate(table)
    except SchemaError as error:
        remedy = "Fill it in, or leave such rows out with skip_missing=True."
        faults = [named_in(replace(f, remedy=remedy), marks) if f.problem == EMPTY else f for f in error.faults]
        raise SchemaError(error.message, faults) from error
    return table


def index_in(columns: Iterable[str], source: Source | None, index: str | None) -> str | None:
    """The column with row labels: the requested one (empty: none), or the one that the model was fitted with.

    If the latter is missing, that is an error, since answers could not be matched by it.
    """
    own = None if source is None else source.index
    if index is not None or own is None or own in set(columns):
        return (own if index is None else index) or None
    problem = "labelled the rows when the model was fitted, and is not a column here"
    remedy = "Add it, name another with index='NAME', or use row numbers with index=''."
    raise DataError("", [Fault(f"index {own!r}", problem, remedy)])
