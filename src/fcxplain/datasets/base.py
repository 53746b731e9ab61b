"""Data sets: their description (`DatasetSpec`), the loaded data (`Dataset`), and the seeded split."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, Fault, SchemaError, did_you_mean
from ..schema import Level, Schema
from ..schema.feature import in_order, plain

# Validation and test each get this share of every class.
HELD_OUT = 0.1
# A label with more values than this is a number, not a class.
MAX_CLASSES = 50
# The fewest rows of a class for which validation and test get one each.
MIN_ROWS = 5


Parts = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]
"""Train, validation and test."""


def classes(label: pd.Series) -> tuple[Level, ...]:
    """The classes of a label, sorted where they can be."""
    values = [plain(v) for v in label.dropna().unique()]
    return in_order(values)


def sample(table: pd.DataFrame, label: str, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """A sample of `rows` rows, stratified by class."""
    if rows >= len(table):
        return table
    members = _members(table[label])
    shares = np.asarray([len(m) * rows / len(table) for m in members])
    counts = np.floor(shares).astype(int)
    # The rows left over by rounding down go to the classes that lost most.
    most = np.argsort(counts - shares, kind="stable")[: rows - int(counts.sum())]
    counts[most] += 1
    chosen = [rng.permutation(m)[:c] for m, c in zip(members, counts, strict=True)]
    return table.iloc[np.sort(np.concatenate(chosen))]


def split(table: pd.DataFrame, label: str, rng: np.random.Generator) -> Parts:
    """Train, validation and test: 80, 10 and 10 % of every class; tiny classes go to train."""
    places: list[list[NDArray[np.int64]]] = [[], [], []]
    for members in _members(table[label]):
        mixed, held = rng.permutation(members), int(len(members) * HELD_OUT + 0.5)
        for place, part in zip(places, (mixed[2 * held :], mixed[:held], mixed[held : 2 * held]), strict=True):
            place.append(part)
    train, validation, test = (table.iloc[np.sort(np.concatenate(place))].copy() for place in places)
    if not (len(train) and len(validation) and len(test)):
        raise too_few(len(table))
    return train, validation, test


def too_few(rows: int) -> DataError:
    """The error for a table that cannot be split."""
    count = "1 row is" if rows == 1 else f"{rows:,} rows are"
    return DataError(
        f"{count} too few to split into training, validation and test parts; "
        f"at least {MIN_ROWS} of one class are needed"
    )


def _members(label: pd.Series) -> list[NDArray[np.int64]]:
    """The positions of each class's rows."""
    values, found = label.to_numpy(), classes(label)
    if len(found) > MAX_CLASSES:
        return [np.arange(len(values))]
    return [np.flatnonzero(np.asarray(values == c, dtype=bool)) for c in found]


@dataclass(frozen=True)
class RawFile:
    """A published file: its name, checksum and size (all uncompressed), and where it comes from.

    `addresses` are tried one after the other; each may be the file itself or an archive that holds it. `by_hand` says
    where to get it manually. A `packaged` file is shipped with fcxplain.
    """

    name: str
    sha256: str
    size: int
    by_hand: str
    addresses: tuple[str, ...] = ()
    packaged: bool = False


@dataclass(frozen=True)
class Cleaned:
    """A raw file as a table (features and label, original row numbers), and notes on the cleaning."""

    table: pd.DataFrame
    notes: tuple[str, ...] = ()


def read_columns(raw: bytes, columns: Mapping[int, str], **how: Any) -> pd.DataFrame:
    """Some columns of a comma-separated file without a header, named by their positions."""
    where: dict[str, Any] = {"header": None, "names": list(columns.values()), "usecols": list(columns)}
    return pd.read_csv(io.BytesIO(raw), **where, skipinitialspace=True, keep_default_na=False, **how)


@dataclass(frozen=True)
class NotebookSettings:
    """How the authors' notebooks train on a data set: loss weights, margin, and differences from the paper."""

    validity: float
    feasibility: float
    margin: float
    density: float
    """Weight of the LOF term."""
    lof_k: int
    epochs: int
    learning_rate: float = 0.01
    latent: int = 10
    soft: float = 5.0
    sparsity: float = 1.0


@dataclass(frozen=True)
class PublishedSettings:
    """How the paper trained on a data set: its implementation settings and the best latent sizes.

    `notebook` has the settings of the authors' code where they differ.
    """

    learning_rate: float
    epochs: int
    lof_k: int
    latent: int
    notebook: NotebookSettings


@dataclass(frozen=True)
class DatasetSpec:
    """A data set for `load_dataset`.

    `read` turns the raw bytes and the name of a sample into a cleaned table. `samples` are the available
    samples, the default first. `published` has the paper's settings for the "unary" and the "binary" rules. `ranks` has
    feature ranks for rule sets that need others than the schema's.
    """

    name: str
    title: str
    citation: str
    licence: str
    file: RawFile
    schema: Schema
    label: str
    target: Level
    rules: Mapping[str, str]
    read: Callable[[bytes, str], Cleaned]
    published: Mapping[str, PublishedSettings]
    samples: tuple[str, ...] = ("all",)
    note: str = ""
    ranks: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table in three parts, with its schema, label, target and rules.

    Parameters
    ----------
    name : str
        The name of the data set.
    train, validation, test : DataFrame
        The features and the label, with the row numbers of the file.
    label : str
        The column with the true classes.
    schema : Schema
        The features.
    target : optional
        The target class.
    rules : mapping of str
        The text of each rule set by its name ("unary", "binary", or "own").
    notes : tuple of str
        What was dropped, sampled or converted, in sentences.
    ranks : mapping
        Ranks of ordinal features, for rule sets that need others than the schema's; see `under`.

    Raises
    ------
    SchemaError
        If the label is also a feature.

    Examples
    --------
    >>> from fcxplain import load_dataset
    >>> data = load_dataset("adult", rows=500)
    >>> data.train[data.features].shape
    (400, 8)
    """

    name: str
    train: pd.DataFrame = field(repr=False)
    validation: pd.DataFrame = field(repr=False)
    test: pd.DataFrame = field(repr=False)
    label: str
    schema: Schema = field(repr=False)
    target: Any = None
    rules: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    ranks: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.label in self.schema:
            remedy = "Take it out of the schema, or name another column as the label."
            raise SchemaError("", [Fault(f"label {self.label!r}", "is also a feature of the schema", remedy)])

    @property
    def features(self) -> list[str]:
        """The features' names, in the schema's order, so that `data.train[data.features]` has the features alone."""
        return list(self.schema.names)

    def under(self, rules: str | None) -> Dataset:
        """The same data with the schema that fits one of its rule sets.

        Parameters
        ----------
        rules : str or None
            The name of a rule set; unknown names change nothing.

        Returns
        -------
        Dataset
            With the ranks that these rules refer to.

        Examples
        --------
        >>> from fcxplain import load_dataset
        >>> data = load_dataset("adult", rows=500).under("actionable")
        >>> data.schema["education"].ranks
        (0, 1, 2, 3, 4, 5, 6, 7)
        """
        return replace(self, schema=with_ranks(self.schema, self.ranks.get(rules or "", {})))

    @property
    def classes(self) -> tuple[Level, ...]:
        """The label's classes, in order."""
        return classes(self.train[self.label])

    @property
    def class_counts(self) -> dict[Level, int]:
        """How many rows of all three parts have each class."""
        labels = pd.concat([part[self.label] for part in (self.train, self.validation, self.test)])
        return {name: int(count) for name, count in labels.value_counts(sort=False).sort_index().items()}

    def __len__(self) -> int:
        return len(self.train) + len(self.validation) + len(self.test)


def with_ranks(schema: Schema, ranks: Mapping[str, tuple[int, ...]]) -> Schema:
    """The schema with other ranks for some features."""
    for name, own in ranks.items():
        schema = schema.replace(name, ranks=own)
    return schema


def unknown(what: str, name: object, options: tuple[str, ...]) -> str:
    """The message for a name that is not among the options."""
    listing = f"There {'is' if len(options) == 1 else 'are'} {', '.join(options)}."
    return f"no {what} {name!r}. {did_you_mean(name, options)} {listing}".replace("  ", " ")


# The paper's constraints for tables of people with an age and an education.
AGE_AND_EDUCATION: Mapping[str, str] = {
    "unary": "# Nobody grows younger.\nage' >= age\n",
    "binary": (
        "# A degree takes time, and nobody grows younger without one either.\n"
        "education' > education => age' > age\n"
        "education' == education => age' >= age\n"
        "# A degree is not lost; the published evaluation counts this too.\n"
        "education' >= education\n"
    ),
}
