"""What a data set is: how it is described (`DatasetSpec`), and what loading it gives (`Dataset`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from ..errors import Fault, SchemaError, did_you_mean
from ..schema import Level, Schema
from . import splitting


@dataclass(frozen=True)
class RawFile:
    """A published file: its name, checksum and size (all uncompressed), and where it comes from.

    `addresses` are tried in turn; each may be the file itself or an archive that holds it. `by_hand` tells a
    person where to get it. A `packaged` file travels with fcxplain.
    """

    name: str
    sha256: str
    size: int
    by_hand: str
    addresses: tuple[str, ...] = ()
    packaged: bool = False


@dataclass(frozen=True)
class Cleaned:
    """A raw file as a table (features and label, original row numbers), and what was done to it."""

    table: pd.DataFrame
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PublishedSettings:
    """How the paper trained on a data set: its table of implementation settings, and the latent sizes it found best."""

    learning_rate: float
    epochs: int
    lof_k: int
    latent: int


@dataclass(frozen=True)
class DatasetSpec:
    """A data set that `load_dataset` knows.

    `read` turns the raw bytes and the name of a sample into a cleaned table. `samples` are the samples it
    offers, the default first. `published` has the paper's settings for the "unary" and the "binary" rules.
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


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table in three parts, with all that is known of it.

    `train`, `validation` and `test` hold the features and the label, and keep the row numbers of the file.
    `rules` maps a name ("unary", "binary", or "own") to the rules' text. `notes` says in sentences what was
    dropped, sampled or converted on the way.
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

    def __post_init__(self) -> None:
        if self.label in self.schema:
            remedy = "Take it out of the schema, or name another column as the label."
            raise SchemaError("", [Fault(f"label {self.label!r}", "is also a feature of the schema", remedy)])

    @property
    def features(self) -> tuple[str, ...]:
        """The features' names, in the schema's order."""
        return self.schema.names

    @property
    def classes(self) -> tuple[Level, ...]:
        """The label's classes, in order."""
        return splitting.classes(self.train[self.label])

    def __len__(self) -> int:
        return len(self.train) + len(self.validation) + len(self.test)


def unknown(what: str, name: object, options: tuple[str, ...]) -> str:
    """The message for a name that is not among the options."""
    hint = did_you_mean(name, options)
    listing = f"There {'is' if len(options) == 1 else 'are'} {', '.join(options)}."
    return f"no {what} {name!r}. {hint} {listing}".replace("  ", " ")


# The paper's constraints for every table of people with an age and an education.
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
