"""Your own table: a delimited text or parquet file, as a `Dataset` or as plain rows.

Levels and bounds come from the whole cleaned table, since they are the domain; every statistic (minimum,
maximum, MAD) is the encoder's and comes from the training part.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from ..errors import DataError, Fault, FcxWarning, also, did_you_mean, reading_error, some
from ..outcome import read_range
from ..schema import Feature, Level, Schema, level_named
from ..schema.column import is_numeric
from ..schema.inference import called_by, without_identifiers, without_ignored
from ..schema.schema import named
from ..storage import Place, is_address, is_several, table_files
from . import base, numerals
from .base import Dataset
from .delimited import MISSING, DelimitedFile, Marks, marks_in, without_missing
from .numerals import Notation, NumberColumn

# Rows at a time while the notation of numbers is detected.
BLOCK_ROWS = 100_000
# Default size of a sample from a folder of files.
SAMPLE = 500_000
ALLOWED = numerals.notations(None, None)

Rules = str | Path | Iterable[str]


@dataclass(frozen=True)
class Reading:
    """A table as read, notes on guesses and conversions, and texts that were read as missing."""

    table: pd.DataFrame
    notes: tuple[str, ...] = ()
    marks: Marks = field(default_factory=dict)


def read_table(
    path: str | Path,
    *,
    schema: Schema | str | Path | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    index: str | None = None,
    rows: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Read the rows of a file, such as rows to explain; no row is dropped.

    Reads delimited text (.csv, .tsv, .csv.gz) and parquet. Separator, encoding and the notation of numbers are detected
    unless given. With a `schema` (or the path of one), categories are read as its levels, so that a code such as '1' is
    the same as in training. `index` names the column with row labels, such as an identifier, which answers, pages,
    files and overrides then use. From a folder or glob of parquet files, or from files at an fsspec address, a sample
    of `rows` rows is drawn by `seed`; see `load_table`.
    """
    own, where = _schema(schema), _path(path)
    reading = _read(where, own, separator, numerals.notations(decimal, thousands), index, sample=(rows, seed))
    return _labelled(reading.table, index, own, where)


def read_marked(path: str | Path, index: str | None = None) -> Reading:
    """Like `read_table`, with notes and the texts that were read as missing."""
    where = _path(path)
    reading = _read(where, None, None, ALLOWED, index)
    return replace(reading, table=_labelled(reading.table, index, None, where))


def _labelled(table: pd.DataFrame, index: str | None, schema: Schema | None, where: str | Path) -> pd.DataFrame:
    # A parquet file may have it as its index already.
    is_called = index is not None and table.index.name == index
    return table if is_called else called_by(table, index, schema, str(where))


def load_table(
    path: str | Path,
    *,
    label: str,
    target: Any = None,
    schema: Schema | str | Path | None = None,
    rules: Rules | Mapping[str, Rules] | None = None,
    seed: int = 0,
    immutable: Sequence[str] = (),
    ignore: Sequence[str] = (),
    index: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    gaps: bool = False,
    rows: int | None = None,
) -> Dataset:
    """Load your own table as a `Dataset`: read, cleaned and split 80/10/10, stratified on the label.

    Rows with missing values are dropped unless `gaps` is set; a warning and `notes` count them. Levels and
    bounds come from the whole cleaned table: they are the domain, not statistics. Minimum, maximum and MAD are learned
    by the encoder, from the training part only.

    Parameters
    ----------
    path : str or Path
        A CSV or parquet file; or a folder or glob of parquet files, or an fsspec address, from which a sample is read,
        so that the table need not fit in memory.
    label : str
        The column with the true classes.
    target : optional
        The target class, if there is one.
    schema : Schema, str or Path, optional
        The features, or the path of a TOML file; inferred by default.
    rules : str, Path, lines or mapping, optional
        Text, lines or the `Path` of a rule file, stored under the name "own", or a mapping from names to these.
    seed : int, default=0
        Seed of the split.
    immutable : sequence of str
        Features that may not change.
    ignore : sequence of str
        Columns that are not features. Identifiers, text columns in which every row differs, are left out with a
        warning.
    index : str, optional
        The column with row labels, such as an identifier.
    separator, decimal, thousands : str, optional
        The format of the file, where it cannot be detected; see `read_table`.
    gaps : bool, default=False
        Keep rows with missing values, for a model that accepts them.
    rows : int, optional
        The size of the sample from a folder, glob or address, 500,000 by default, drawn uniformly without replacement
        by the seed. The distribution of rows over files does not matter.

    Returns
    -------
    Dataset
        Train, validation and test parts.

    Raises
    ------
    DataError
        If the file cannot be read; also a `FileNotFoundError` if there is none.
    SchemaError
        If the table does not fit the schema.

    Examples
    --------
    >>> from fcxplain import load_table
    >>> data = load_table("loans.csv", label="approved", target="yes", index="application", immutable=["gender"])
    ... # doctest: +SKIP
    >>> data.train[data.features]  # doctest: +SKIP
    """
    path, own = _path(path), _schema(schema)
    notation = numerals.notations(decimal, thousands)
    reading = _read(path, own, separator, notation, index, named(ignore), (rows, seed))
    table, sure = called_by(reading.table, index, own, str(path)), named(immutable)
    table = without_ignored(table, named(ignore), sure if own is None else own.names, label, str(path))
    table, left_out = without_identifiers(table, label, sure) if own is None else (table, ())
    numbers = read_range(target) is not None
    table, notes, dropped = _cleaned(path, replace(reading, table=table), label, own, gaps=gaps, numbers=numbers)
    numbers &= is_numeric(table[label])
    if dropped:
        warnings.warn(" ".join(dropped), FcxWarning, stacklevel=2)
    wanted = target if target is None or numbers else _class(target, label, base.classes(table[label]))
    if own is None:
        known = Schema.infer(table, label=label, immutable=sure)
    else:
        known = own.freeze(*sure).complete(table)
        whole = table.dropna() if gaps else table
        known.validate(whole[[n for n in known.names if n in table.columns]])
    parts, name = base.split(table, label, np.random.default_rng(seed)), Place.of(path).name
    same = [n for n in known.names if table[n].nunique() == 1]
    constant = [f"Constant, and so not useful: {some(same)}."] if same else []
    notes = [*reading.notes, *left_out, *notes, *dropped, *constant]
    return Dataset(name.split(".")[0] or name, *parts, label, known, wanted, _rules(rules), tuple(notes))


def _path(path: str | Path) -> str | Path:
    """The path of a file, or an address; a table in memory is refused with a remedy."""
    if isinstance(path, pd.DataFrame):
        remedy = "A table in memory needs no file: Task(table, model, label=..., target=...) takes it as it is."
        raise DataError("", [Fault("path", "is a DataFrame, not the path of a file", remedy)])
    return path if is_address(path) else Path(path)


def existing(path: Path) -> Path:
    """The path of an existing file."""
    path = path.expanduser()
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file in it")
    if not path.is_file():
        near = did_you_mean(path.name, [p.name for p in path.parent.glob("*")] if path.parent.is_dir() else ())
        raise also(DataError, FileNotFoundError)(f"there is no file {path}. {near}".rstrip())
    return path


def columns_of(path: Path, expected: Collection[str] = ()) -> list[str]:
    """The names of a file's columns, some of which may be `expected`, without its rows."""
    path = existing(path)
    if not is_parquet(path):
        return DelimitedFile(path, expected=expected).header
    with reading_parquet(path):
        return list(pa.parquet.ParquetFile(path).schema_arrow.names)


def _read(
    path: str | Path,
    schema: Schema | None,
    separator: str | None,
    allowed: tuple[Notation, ...],
    index: str | None = None,
    unused: tuple[str, ...] = (),
    sample: tuple[int | None, int] = (None, 0),
) -> Reading:
    """The file, or a sample of several; `unused` columns stay text."""
    if is_several(path):
        return _sampled(path, *sample)
    path = existing(Path(path))
    if is_parquet(path):
        return Reading(_parquet(path))
    expected = () if schema is None else schema.names
    file = DelimitedFile(path, separator, expected=expected)
    written, notes = file.read()
    levels = {f.name: _as_levels(written[f.name], f) for f in _categories(schema, written.columns)}
    text = _present(written.drop(columns=list(levels)))
    apart = [n for n in text.columns if n == index or n in unused]
    columns = {n: NumberColumn.of(text[n], allowed) for n in text.columns if n not in apart}
    evidence = {n: column.evidence for n, column in columns.items()}
    # A number of the schema is not a code, even with leading zeros.
    evidence |= {n: replace(evidence[n], padded=False) for n in _amounts(schema, evidence)}
    chosen = numerals.decided(evidence, file.separator, allowed)
    plain = {n: pd.Series(columns[n].numbers(notation), text.index) for n, notation in chosen.items()}
    plain |= {n: _as_names(text[n]) for n in apart if n == index}
    rest = {n: _as_booleans(text[n]) for n in text.columns if n not in plain}
    table = pd.DataFrame({**levels, **rest, **plain})[list(written.columns)]
    return Reading(table, (*notes, *numerals.notes(evidence, chosen)), marks_in(written, table))


class TextRows:
    """The rows of a delimited file that a schema describes: its features and the `index`; other columns are ignored.

    The notation of numbers is detected from all rows and columns first, so that chunks are read like the whole file.
    Unless `strict`, text that is not a number stays as it is.
    """

    def __init__(self, path: Path, schema: Schema, index: str | None = None, *, strict: bool = True) -> None:
        self.schema, self.index, self.strict = schema, index, strict
        self.file = DelimitedFile(path, expected=schema.names, largest=None)
        # A missing index is refused before any row is read.
        called_by(pd.DataFrame(columns=list(dict.fromkeys(self.file.header))), index, schema, str(path))
        self.features = [n for n in self.file.header if n in schema]
        self.levels = _categories(schema, self.features)
        self.days = {f.name for f in schema if f.kind == "date"}

    @cached_property
    def _found(self) -> tuple[dict[str, numerals.Evidence], dict[str, Notation], bool, int]:
        """Evidence by column, the notation of each number, whether the index holds numbers, and the number of rows."""
        found, labels, rows = dict[str, numerals.Evidence](), set[Any](), 0
        others = [n for n in self.file.header if self.file.header.count(n) == 1 and n not in self.schema]
        for text in self.file.chunks(BLOCK_ROWS, {*self.features, *others}):
            rows += len(text)
            for name in text.columns:
                new = NumberColumn.of(_present(text[name]), ALLOWED).evidence
                found[name] = found[name] + new if name in found else new
            labels |= {_as_names(_present(text[self.index])).dtype} if self.index in text else set()
        chosen = numerals.decided(found, self.file.separator, ALLOWED, _amounts(self.schema, found))
        return found, chosen, len(labels) == 1 and pd.api.types.is_numeric_dtype(*labels), rows

    @property
    def total(self) -> int:
        """How many rows there are."""
        return self._found[3]

    def read(self) -> Reading:
        """All rows, and which texts were read as missing."""
        for text, table in self._chunks(None):
            if len(table):
                return Reading(table, marks=marks_in(text, table))
        raise DataError(f"{self.file.path} has a header but no rows")

    def chunks(self, size: int) -> Iterator[pd.DataFrame]:
        """The rows in chunks of a given size; the last may be smaller."""
        return (table for _, table in self._chunks(size))

    def _chunks(self, size: int | None) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
        evidence, chosen, *_ = self._found
        for written in self.file.chunks(size, {*self.features, str(self.index)}):
            text = self._labelled(written)
            columns = {n: NumberColumn.of(_present(text[n]), ALLOWED, percent=evidence[n].percent) for n in chosen}
            faults = [f for n in chosen for f in _unreadable(text[n], columns[n], chosen[n])]
            if faults and self.strict:
                raise DataError(f"{self.file.path} has numbers that cannot be read", faults)
            values = {n: _as_numbers(text[n], columns[n], chosen[n], evidence[n].percent) for n in chosen}
            values |= {f.name: _as_levels(text[f.name], f) for f in self.levels}
            values |= {n: _present(text[n]) for n in self.features if n in self.days}
            yield text, pd.DataFrame({n: values.get(n, text[n]) for n in self.features}, index=text.index)

    def labels(self, size: int) -> Iterator[pd.Index]:
        """The labels of the rows in chunks, without reading the features."""
        for text in self.file.chunks(size, {str(self.index)}):
            yield self._labelled(text).index

    def _labelled(self, text: pd.DataFrame) -> pd.DataFrame:
        if self.index in text:
            names = _present(text[self.index])
            text = text.assign(**{str(self.index): _as_names(names) if self._found[2] else names})
        return called_by(text, self.index, self.schema, str(self.file.path))


def _present(text: Any) -> Any:
    """A column or a table of text, with marks of missing values as NaN."""
    return text.mask(text.isin(MISSING))


def _as_numbers(text: pd.Series, column: NumberColumn, notation: Notation, percent: bool) -> pd.Series:
    """Text as numbers; other text stays as it is."""
    if notation in column.evidence.fitting:
        return pd.Series(column.numbers(notation), text.index)
    odd = column.strangers(notation)
    rest = NumberColumn.of(_present(text).mask(odd), ALLOWED, percent=percent)
    return pd.Series(rest.numbers(notation), text.index).astype(object).where(~odd, text)


def _unreadable(text: pd.Series, column: NumberColumn, notation: Notation) -> list[Fault]:
    """The fault of a column of numbers with other text in it."""
    odd = np.zeros(1, bool) if notation in column.evidence.fitting else column.strangers(notation)
    if not odd.any():
        return []
    remedy, first = "Write numbers as 1234.5, or convert the file to parquet.", int(odd.argmax())
    return [Fault(f"column {text.name!r}", f"is {some([text.iloc[first]])}", remedy, int(odd.sum()), text.index[first])]


def _as_names(text: pd.Series) -> pd.Series:
    """Row labels: numbers only if they are written as such, since a label such as 000123 is text."""
    column = NumberColumn.of(text, (numerals.ENGLISH,))
    if not column.evidence.fitting or column.evidence.are_codes or column.percent:
        return text
    numbers = pd.Series(column.numbers(numerals.ENGLISH), text.index, name=text.name)
    return text if (numbers.astype(str) != text).any() else numbers


def is_parquet(path: Path) -> bool:
    """Whether this is a parquet file, by its first bytes or its name."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}") from error
    return start == b"PAR1" or path.suffix.lower() in (".parquet", ".pq")


@contextmanager
def reading_parquet(path: Path | str) -> Iterator[None]:
    """Name the file in errors."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as parquet: {error}") from error


def _parquet(path: Path) -> pd.DataFrame:
    with reading_parquet(path):
        table = pa.parquet.ParquetFile(path).read()
    _check_columns(table, path)
    return table.to_pandas()


def _sampled(source: str | Path, rows: int | None, seed: int) -> Reading:
    """A uniform sample of rows from parquet files, drawn by the seed and labelled by their numbers."""
    places = table_files(source)
    if text := [place.name for place in places if not place.name.lower().endswith((".parquet", ".pq"))]:
        problem = f"is a folder or glob with files that are not parquet ({some(text)})"
        raise DataError("", [Fault(str(source), problem, "Convert them, or name one file.")])
    with reading_parquet(str(source)):
        counts = [pa.parquet.read_metadata(p.path, filesystem=p.system).num_rows for p in places]
    total = sum(counts)
    if rows is not None and rows < 1:
        raise DataError(f"rows is {rows}; ask for at least 1, or leave it out")
    # Python's generator needs memory for the sample only, not for all rows.
    chosen = np.sort(random.Random(seed).sample(range(total), min(rows or SAMPLE, total)))
    taken, before = list[pa.Table](), 0
    with reading_parquet(str(source)):
        for place, count in zip(places, counts, strict=True):
            here = chosen[(chosen >= before) & (chosen < before + count)] - before
            taken += _taken(place, here) if len(here) else []
            before += count
    if not taken:
        raise DataError(f"{source} has no rows")
    table = pa.concat_tables(taken, promote_options="permissive").unify_dictionaries()
    _check_columns(table, source)
    frame = table.drop_columns([n for n in table.column_names if n.startswith("__index_level_")]).to_pandas()
    note = f"A sample of {len(chosen):,} of {total:,} rows, drawn by seed {seed}."
    return Reading(frame.set_axis(chosen, axis=0), () if len(chosen) == total else (note,))


def _taken(place: Place, rows: NDArray[np.int64]) -> Iterator[pa.Table]:
    """These rows of a file, without loading all of it."""
    with pa.parquet.ParquetFile(place.path, filesystem=place.system) as file:
        done = 0
        for group in range(file.metadata.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if ((rows >= done) & (rows < done + count)).any():
                at = done
                for batch in file.iter_batches(batch_size=BLOCK_ROWS, row_groups=[group]):
                    here = rows[(rows >= at) & (rows < at + len(batch))] - at
                    yield pa.Table.from_batches([batch]).take(pa.array(here)).replace_schema_metadata(None)
                    at += len(batch)
            done += count


def _check_columns(table: pa.Table, path: str | Path) -> None:
    faults = [
        Fault(f"column {field.name!r}", f"holds {field.type}, not single values", "Drop or flatten it.")
        for field in table.schema
        if pa.types.is_nested(field.type)
    ]
    names = table.column_names
    faults += [
        Fault(f"column {name!r}", "occurs in the table more than once", "Rename one.")
        for name in sorted({n for n in names if names.count(n) > 1})
    ]
    if faults:
        raise DataError(f"{path} has columns that cannot be used", faults)
    if not table.num_rows:
        raise DataError(f"{path} has no rows")


def _categories(schema: Schema | None, names: Collection[str]) -> list[Feature]:
    return [f for f in schema or () if f.is_category and f.levels and f.name in names]


def _amounts(schema: Schema | None, names: Collection[str]) -> dict[str, Feature]:
    """The features that are numbers, without dates, by name."""
    known = {f.name: f for f in schema or () if f.is_number and f.kind != "date"}
    return {name: known[name] for name in names if name in known}


def _as_levels(column: pd.Series, feature: Feature) -> pd.Series:
    """The text as the schema's levels; other text stays, unless it marks a missing value."""
    known: dict[str, Any] = dict.fromkeys(MISSING)
    for level in feature.levels:
        if isinstance(level, int | float) and not isinstance(level, bool):
            known |= {repr(float(level)): level}
        known[str(level)] = level
    texts = column.unique()
    found = [known[text] if text in known else level_named(text, feature.levels) for text in texts]
    values = [text if level is None and text not in known else level for text, level in zip(texts, found, strict=True)]
    lookup = pd.Series(values, index=texts, dtype=object)
    return pd.Series(lookup.loc[column].to_numpy(), index=column.index).infer_objects()


def _as_booleans(column: pd.Series) -> pd.Series:
    """A text column of true and false as booleans; any other as it is."""
    present = column.dropna()
    if not len(present) or not present.str.lower().isin(["true", "false"]).all():
        return column
    truth = column.map({t: t.lower() == "true" for t in present.unique()})
    return truth.astype(bool) if len(present) == len(column) else truth.astype(object)


def _schema(schema: Schema | str | Path | None) -> Schema | None:
    return schema if schema is None or isinstance(schema, Schema) else Schema.from_toml(schema)


def _cleaned(
    path: str | Path, reading: Reading, label: str, schema: Schema | None, *, gaps: bool, numbers: bool
) -> tuple[pd.DataFrame, list[str], list[str]]:
    """Rows with a label and without missing values, notes on columns, and notes on dropped rows."""
    table = reading.table
    if label not in table.columns:
        remedy = did_you_mean(label, table.columns) or f"The file has {some(table.columns)}."
        raise DataError(str(path), [Fault(f"label {label!r}", "is not a column", remedy)])
    spare = [c for c in table.columns if schema is not None and c not in schema and c != label]
    notes = [f"Left out columns that are not in the schema: {some(spare)}."] if spare else []
    table, dropped = without_missing(path, table.drop(columns=spare), label, reading.marks, gaps=gaps)
    if not numbers or not is_numeric(table[label]):
        _check_classes(label, table[label])
    return table, notes, dropped


def _check_classes(label: str, column: pd.Series) -> None:
    found = base.classes(column)
    if len(column) < base.MIN_ROWS:
        raise base.too_few(len(column))
    if len(found) == 1:
        problem = f"has one class only, {found[0]!r}, in {len(column):,} rows"
        raise DataError("", [Fault(f"label {label!r}", problem, "Two are needed.")])
    if len(found) > base.MAX_CLASSES:
        problem = f"has {len(found):,} different values, e.g. {some(found, 3)}"
        remedy = "A label holds classes; convert a number first, e.g. to above or below a limit."
        remedy += " For your own regressor, give a range as the target: '>= 700'."
        raise DataError("", [Fault(f"label {label!r}", problem, remedy)])


def _class(target: Any, label: str, found: tuple[Level, ...]) -> Any:
    """The class that is meant; text matches a class that is written the same."""
    meant = level_named(target, found)
    if meant is None:
        remedy = f"{did_you_mean(target, found)} The classes are {some(found)}.".lstrip()
        raise DataError("", [Fault("target", f"{target!r} is not a class of {label!r}", remedy)])
    return meant


def _rules(rules: Rules | Mapping[str, Rules] | None) -> dict[str, str]:
    named_ones = rules if isinstance(rules, Mapping) else {} if rules is None else {"own": rules}
    return {str(name): _rule_text(value) for name, value in named_ones.items()}


def _rule_text(rules: Rules) -> str:
    if isinstance(rules, str):
        return rules
    if not isinstance(rules, Path):
        return "\n".join(rules)
    try:
        return rules.expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise reading_error(DataError, error)(f"cannot read the rule file {rules}: {error}") from error
