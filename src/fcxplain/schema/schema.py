"""Schema: the features of a table, in order. It says what each column means."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import Fault, FcxWarning, SchemaError, also, did_you_mean, some
from ..text import Glance, counted, grid
from . import column, inference, toml, validation
from .feature import Feature
from .inference import Guess, bounds

HEAD = ("feature", "kind", "values", "unit", "may change")
FEW = 6
"""Levels of a category that are listed."""


def glance(schema: Schema) -> Glance:
    """A table with one line per feature."""
    guessed = f"{counted(len(schema.guesses), 'feature')} guessed from a table; report() says why"
    columns = [i for i, title in enumerate(HEAD) if title != "unit" or any(f.unit for f in schema)]
    cells = [(f.name, f.kind, values(f), f.unit, "yes" if f.mutable else "no") for f in schema]
    table = grid([HEAD[i] for i in columns], [tuple(row[i] for i in columns) for row in cells], "feature")
    return Glance(f"Schema: {schema.summary}", (guessed,) if schema.guesses else (), grids=(table,))


def line(feature: Feature) -> str:
    """A feature in one line."""
    unit = f" {feature.unit}" if feature.unit else ""
    legal = f"{bounds(feature)}{unit} by {feature.step}" if feature.is_number else _levels(feature)
    fixed = "" if feature.mutable else ", immutable"
    return f"{feature.name}: {feature.kind}, {legal}{_guessed(feature)}{fixed}{_gaps(feature)}"


def values(feature: Feature) -> str:
    """The legal values of a feature, as text."""
    if not feature.is_complete:
        return "not known yet"
    legal = _levels(feature)
    if feature.is_number:
        step = f"{feature.step:,.12g}"
        days = "day" if feature.step == 1 else f"{step} days"
        by = days if feature.kind == "date" else step
        legal = f"{feature.text(feature.low)} to {feature.text(feature.high)} by {by}"
    return f"{legal}{_guessed(feature)}{_gaps(feature)}"


def _guessed(feature: Feature) -> str:
    """Which part of a domain is guessed."""
    sides = [name for name in feature.guessed if name != "levels"]
    what = "levels" if "levels" in feature.guessed else "bounds" if len(sides) == 2 else "".join(sides)
    return f" ({what} guessed)" if what else ""


def _gaps(feature: Feature) -> str:
    """How missing values are handled, where specified."""
    return f", missing: {feature.missing.replace('_', ' ')}" if feature.missing else ""


def _levels(feature: Feature) -> str:
    return f"{len(feature.levels)} levels: {some(feature.levels, FEW)}"


Natural = Mapping[str, NDArray[Any]]
"""Columns by name: numbers in their own units as float64, categories as level codes."""


@dataclass(frozen=True)
class Schema:
    """The features of a table, in order.

    Make one by hand, with `Schema.infer(table)`, or with `Schema.from_toml(path)`. `schema["age"]` is a feature,
    `"age" in schema` says whether there is one, and iterating gives all of them.

    Parameters
    ----------
    features : tuple of Feature
        The columns.
    guesses : tuple of Guess
        What inference guessed and why; ignored by equality.
    classes : mapping of str
        Readable names of the model's classes. Pages, letters and texts use them; tables and files use the classes
        themselves.

    Raises
    ------
    SchemaError
        If there is no feature, or two have the same name.

    Examples
    --------
    >>> from fcxplain import Feature, Schema
    >>> age, job = Feature("age", "integer", low=17, high=90), Feature("job", "categorical", levels=("cook", "clerk"))
    >>> schema = Schema((age, job))
    >>> schema.freeze("age").immutable
    ('age',)
    """

    features: tuple[Feature, ...]
    guesses: tuple[Guess, ...] = field(default=(), compare=False, repr=False)
    classes: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        faults = toml.class_faults(self.classes)
        if faults:
            raise SchemaError("schema", faults)
        object.__setattr__(self, "classes", {str(name): label for name, label in self.classes.items()})
        odd = [type(f).__name__ for f in self.features if not isinstance(f, Feature)]
        if odd:
            raise SchemaError(f"a schema consists of Feature objects, not of {some(odd, 3)}")
        names = self.names
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise SchemaError("schema", [Fault(f"feature {n!r}", "is named twice") for n in twice])
        if not names:
            raise SchemaError("a schema needs at least one feature")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The features' names, in order."""
        return tuple(f.name for f in self.features)

    @property
    def mutable(self) -> tuple[str, ...]:
        """Names of the features that may change."""
        return tuple(f.name for f in self.features if f.mutable)

    @property
    def immutable(self) -> tuple[str, ...]:
        """Names of the features that may not change."""
        return tuple(f.name for f in self.features if not f.mutable)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the integer and continuous features."""
        return tuple(f.name for f in self.features if f.is_number)

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of the categorical and ordinal features."""
        return tuple(f.name for f in self.features if f.is_category)

    @cached_property
    def _by_name(self) -> dict[str, Feature]:
        return {f.name: f for f in self.features}

    def __getitem__(self, name: str) -> Feature:
        if name not in self._by_name:
            raise also(SchemaError, KeyError)(f"no feature {name!r}. {did_you_mean(name, self.names)}".rstrip())
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.features)

    def __len__(self) -> int:
        return len(self.features)

    def __str__(self) -> str:
        return "\n".join(map(line, self.features))

    def __repr__(self) -> str:
        return glance(self).text()

    def _repr_html_(self) -> str:
        return glance(self).html()

    @property
    def summary(self) -> str:
        """The number of features by kind, e.g. "5 features (2 numbers, 3 categories; 4 may change)"."""
        numbers, categories = len(self.numbers), len(self.categories)
        kinds = f"{counted(numbers, 'number')}, {categories:,} categor{'y' if categories == 1 else 'ies'}"
        return f"{counted(len(self), 'feature')} ({kinds}; {len(self.mutable):,} may change)"

    @classmethod
    def infer(
        cls,
        table: pd.DataFrame,
        *,
        label: str | None = None,
        immutable: Iterable[str] = (),
        ignore: Iterable[str] = (),
    ) -> Schema:
        """Guess a schema from a table; `schema.report()` says what was guessed and why.

        A text column in which every row differs, such as an identifier, is left out with a warning; any other column
        that cannot be a feature is an error.

        Parameters
        ----------
        table : DataFrame
            The rows.
        label : str, optional
            The column with the true classes; it is not a feature.
        immutable : iterable of str
            Features that may not change.
        ignore : iterable of str
            Columns that are not features.

        Returns
        -------
        Schema
            The features, with what was guessed.

        Raises
        ------
        SchemaError
            If a column cannot be a feature, or a name is not a column.
        """
        return cls(*inference.infer(table, label=label, immutable=named(immutable), ignore=named(ignore)))

    @classmethod
    def from_toml(cls, source: str | Path) -> Schema:
        """Read a schema from TOML.

        Parameters
        ----------
        source : str or Path
            The path of a file, or TOML text (a string with a line break).

        Returns
        -------
        Schema

        Raises
        ------
        SchemaError
            If it cannot be read or is not valid; also a `FileNotFoundError` if there is no file.
        """
        features, classes = toml.read(source)
        return cls(features, classes=classes)

    def to_toml(self, path: str | Path | None = None) -> str:
        """The schema as TOML text; guesses become comments.

        Parameters
        ----------
        path : str or Path, optional
            The file to write, as a whole or not at all.

        Returns
        -------
        str
        """
        return toml.write(self.features, self.guesses, self.classes, path)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """The inverse of `to_dict`.

        Parameters
        ----------
        data : mapping
            Plain data.

        Returns
        -------
        Schema
        """
        features, classes = toml.content_from(data)
        return cls(features, classes=classes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as in the TOML file.

        Returns
        -------
        dict
        """
        features = {"features": {f.name: toml.fields_of(f) for f in self.features}}
        return features | ({"classes": dict(self.classes)} if self.classes else {})

    def class_title(self, name: Any) -> str:
        """The readable name of a class.

        Parameters
        ----------
        name : str, int, float or bool
            A class, or several joined by "or".

        Returns
        -------
        str
            Its label, or the class itself as text.
        """
        whole = self.classes.get(str(name))
        return whole or " or ".join(self.classes.get(part, part) for part in str(name).split(" or "))

    def report(self) -> str:
        """What inference guessed, with the reason and how to correct it.

        Returns
        -------
        str
        """
        if not self.guesses:
            return "Nothing was guessed."
        width = max(len(g.feature) for g in self.guesses)
        return "\n".join(f"{g.feature:<{width}}  {g}" for g in self.guesses)

    def replace(self, name: str, **changes: Any) -> Schema:
        """A copy in which one feature's fields are changed.

        Parameters
        ----------
        name : str
            The feature.
        **changes
            New values by the fields' names, e.g. `high=80`.

        Returns
        -------
        Schema
        """
        changed = self[name].replace(**changes)
        return replace(self, features=tuple(changed if f.name == name else f for f in self.features))

    def freeze(self, *names: str) -> Schema:
        """A copy in which these features may not change.

        Parameters
        ----------
        *names : str
            Features.

        Returns
        -------
        Schema

        Raises
        ------
        SchemaError
            If there is no such feature.
        """
        unknown = [n for n in names if n not in self]
        if unknown:
            faults = [Fault(f"feature {n!r}", "is not in the schema", did_you_mean(n, self.names)) for n in unknown]
            raise SchemaError("freeze", faults)
        return replace(self, features=tuple(f.replace(mutable=False) if f.name in names else f for f in self.features))

    def complete(self, table: pd.DataFrame) -> Schema:
        """A copy in which bounds, steps and levels that were left open are taken from a table.

        Parameters
        ----------
        table : DataFrame
            The rows.

        Returns
        -------
        Schema
        """
        if all(f.is_complete for f in self.features):
            return self
        validation.raise_on_faults(validation.column_faults(self.features, table))
        return replace(self, features=inference.complete(self.features, table))

    def validate(self, table: pd.DataFrame) -> None:
        """Refuse a table that does not fit, and warn about unknown columns.

        Parameters
        ----------
        table : DataFrame
            The rows.

        Raises
        ------
        SchemaError
            With every fault of the table.
        """
        self.checked(table)
        extra = [c for c in table.columns if c not in self]
        if extra:
            warnings.warn(f"columns not in the schema are ignored: {some(extra)}", FcxWarning, stacklevel=2)

    def checked(self, table: pd.DataFrame) -> dict[str, NDArray[Any]]:
        """The result of `natural` after the check of `validate`, in a single pass.

        Parameters
        ----------
        table : DataFrame
            The rows.

        Returns
        -------
        dict of arrays
            Natural columns by name.
        """
        natural, faults = validation.read(self.features, table)
        validation.raise_on_faults(faults)
        return natural

    def columns_of(self, table: pd.DataFrame) -> pd.DataFrame:
        """The features of a table in the schema's order.

        Parameters
        ----------
        table : DataFrame
            The rows.

        Returns
        -------
        DataFrame

        Raises
        ------
        SchemaError
            If a feature is not there.
        """
        validation.raise_on_faults(validation.column_faults(self.features, table))
        return table if table.columns.tolist() == list(self.names) else table[list(self.names)]

    def missing(self, table: pd.DataFrame) -> pd.DataFrame:
        """Which cells of the schema's columns are missing.

        Parameters
        ----------
        table : DataFrame
            The rows.

        Returns
        -------
        DataFrame of bool
        """
        return table[[n for n in self.names if n in table.columns]].isna()

    def natural(self, table: pd.DataFrame, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """Columns as arrays: numbers in their own units, categories as level codes.

        Parameters
        ----------
        table : DataFrame
            Rows that fit.
        names : sequence of str, optional
            Some features only.

        Returns
        -------
        dict of arrays
        """
        return {n: column.natural(self[n], table[n]) for n in (names if names is not None else self.names)}

    def table(
        self, natural: Natural, index: pd.Index | None = None, dtypes: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """The inverse of `natural`: a table with the schema's columns.

        Parameters
        ----------
        natural : mapping of arrays
            Natural columns.
        index : Index, optional
            Labels of the rows.
        dtypes : mapping, optional
            Dtypes by name, kept where they fit.

        Returns
        -------
        DataFrame
        """
        kept = {} if dtypes is None else dict(dtypes)
        index = pd.RangeIndex(len(natural[self.names[0]])) if index is None else index
        columns = {f.name: column.column_of(f, natural[f.name], index, kept.get(f.name)) for f in self.features}
        return pd.DataFrame(columns, index=index, copy=False)

    def units(self, table: pd.DataFrame) -> dict[str, float]:
        """The unit of cost for each number: its median absolute deviation in the table.

        A MAD of 0 falls back to the standard deviation, and that to the step.

        Parameters
        ----------
        table : DataFrame
            The rows.

        Returns
        -------
        dict of float
        """
        return {n: _unit(self[n], column.natural(self[n], table[n])) for n in self.numbers}


def named(names: Iterable[str]) -> tuple[str, ...]:
    """Names of columns; a single name may be given as text."""
    return (names,) if isinstance(names, str) else tuple(names)


def _unit(feature: Feature, values: NDArray[np.float64]) -> float:
    values = values[np.isfinite(values)]
    if not len(values):
        return float(feature.step or 1)
    mad = float(np.median(np.abs(values - np.median(values))))
    return mad or float(np.std(values)) or float(feature.step or 1)
