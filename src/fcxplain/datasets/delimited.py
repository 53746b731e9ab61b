"""Delimited text as found in the wild: encoding, separator, header, ragged lines, what stands for a missing value."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ..errors import DataError, Fault, some
from ..schema.validation import EMPTY

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
# Lines looked at to tell the separator.
SAMPLE_LINES = 50
# A compressed table may not unpack to more than this.
MAX_BYTES = 2**32
# No line of any file may be longer than this, which is as much as is read at a time when it is cut into fields.
MAX_LINE = 2**24
BLOCK = 2**20
# Ragged rows named in an error.
MAX_FAULTS = 5

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x19\x1c-\x1f]")
# What a spreadsheet takes for a formula, but for numbers. Quotes before it count, so that the one more that guards it
# can be taken off again whatever stood there.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[-+](\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True)
class Delimited:
    """A table of text (blanks around values taken off, nothing missing yet), and how it was read."""

    table: pd.DataFrame
    separator: str
    notes: tuple[str, ...]


def read_delimited(path: Path, separator: str | None = None) -> Delimited:
    """Read a delimited text file, plain or gzipped, with a header line."""
    text, encoding = _decoded(path, _content(path))
    if not text.strip():
        raise DataError(f"{path} is empty")
    notes = [f"Read as {encoding}."] if encoding != "utf-8" else []
    told = re.match(r"sep=(.)\r?\n", text)
    if told:
        text, separator = text[told.end() :], separator or told.group(1)
    mark = _given(separator) if separator is not None else _detected(path, text)
    if mark != ",":
        notes.append(f"Fields are separated by {SEPARATORS.get(mark, repr(mark))}s.")
    table, dropped = _named(path, _records(path, text, mark), mark)
    return Delimited(table, mark, (*notes, *dropped))


class Unpacked(io.RawIOBase):
    """The bytes of a file, plain or gzipped. A line without end is refused before it fills the memory."""

    def __init__(self, path: Path) -> None:
        self._path, self._file, self._length = path, path.open("rb"), 0
        is_packed = self._file.read(2) == b"\x1f\x8b"
        self._file.seek(0)
        self._source = gzip.GzipFile(fileobj=self._file) if is_packed else self._file

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes, at most a block of them."""
        data = self._source.read(min(len(buffer), BLOCK))
        rest = len(data) - 1 - max(data.rfind(b"\n"), data.rfind(b"\r"))
        self._length = rest if rest < len(data) else self._length + rest
        if self._length > MAX_LINE:
            raise DataError(f"{self._path} has a line of more than {MAX_LINE:,} bytes; is it a table?")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file, too."""
        self._file.close()
        super().close()


def _content(path: Path) -> bytes:
    content = io.BytesIO()
    try:
        with Unpacked(path) as source:
            while (block := source.read(BLOCK)) and content.tell() <= MAX_BYTES:
                if not content.tell() and block[:4] == b"PK\x03\x04":
                    raise DataError(f"{path} is a zip archive or a workbook; unpack it, or save the sheet as CSV")
                content.write(block)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is a damaged gzip file: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}") from error
    if content.tell() > MAX_BYTES:
        raise DataError(f"{path} is larger than {MAX_BYTES:,} bytes; convert it to parquet")
    return content.getvalue()


def guarded(value: Any) -> Any:
    """A value for a cell of CSV: text that a spreadsheet would take for a formula gets a single quote before it."""
    is_formula = isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value


def unguarded(text: str) -> str:
    """The inverse of `guarded`, for a cell that was read."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def unguarded_column(column: pd.Series) -> pd.Series:
    """The same for a column of text; itself where no cell begins with a quote."""
    return column.map(unguarded, na_action="ignore") if column.str.startswith("'", na=False).any() else column


def _decoded(path: Path, content: bytes) -> tuple[str, str]:
    """The text and the name of its encoding."""
    for encoding in _encodings(content):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if _CONTROL.search(text[:65_536]):
            break
        return text.lstrip("\ufeff"), "utf-8" if encoding == "utf-8-sig" else encoding
    raise DataError(f"{path} is not a text file; give a CSV, TSV or parquet file")


def _encodings(content: bytes) -> tuple[str, ...]:
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return (encoding,)
    start = content[:4096]
    # Western text in UTF-16 without a mark has a zero in every other byte.
    if len(start) > 3 and start[1::2].count(0) > len(start) / 3:
        return ("utf-16-le",)
    if len(start) > 3 and start[0::2].count(0) > len(start) / 3:
        return ("utf-16-be",)
    return ("utf-8", "cp1252")


def _given(separator: str) -> str:
    mark = {"\\t": "\t", "tab": "\t"}.get(separator, separator)
    if len(mark) != 1 or mark in '"\r\n':
        raise DataError(f"separator {separator!r} is not a single character such as ',' or ';'")
    return mark


def _detected(path: Path, text: str) -> str:
    """The separator that cuts the header and the first lines into the same number of fields."""
    shapes = {mark: _widths(text, mark) for mark in SEPARATORS}
    several = {mark: widths for mark, widths in shapes.items() if widths[0] > 1}
    even = {mark: widths for mark, widths in several.items() if len(set(widths)) == 1}
    candidates = even or several
    if not candidates:
        return "\t" if ".tsv" in path.suffixes else ","
    most = max(widths[0] for widths in candidates.values())
    best = [mark for mark, widths in candidates.items() if widths[0] == most]
    if len(best) > 1:
        names = " or ".join(SEPARATORS[mark] for mark in best)
        raise DataError(f"{path}: fields may be separated by {names}; say which, e.g. separator={best[0]!r}")
    return best[0]


def _widths(text: str, mark: str) -> list[int]:
    """Number of fields in each of the first lines, quotes respected."""
    lines = io.StringIO(text[: 2**20])
    widths = []
    try:
        for record in csv.reader(lines, delimiter=mark):
            if record:
                widths.append(len(record))
            if len(widths) == SAMPLE_LINES:
                return widths
    except csv.Error:
        return widths or [0]
    # The last line looked at may be cut off.
    return (widths[:-1] if len(text) > 2**20 and len(widths) > 1 else widths) or [0]


def _records(path: Path, text: str, mark: str) -> pa.Table:
    """All records with the header as the first, every field as text."""
    width = _widths(text, mark)[0]
    if not width:
        raise DataError(f"{path} has no header line that can be read")
    names = [str(i) for i in range(width)]
    ragged: list[pa.csv.InvalidRow] = []

    def skip(row: pa.csv.InvalidRow) -> str:
        ragged.append(row)
        return "skip"

    try:
        table = pa.csv.read_csv(
            pa.BufferReader(text.encode("utf-8")),
            # Rows are numbered only when they are read one after the other.
            pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=2**24),
            pa.csv.ParseOptions(delimiter=mark, newlines_in_values=True, invalid_row_handler=skip),
            pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from error
    _check_rows(path, text, table, ragged, width)
    return table


def _check_rows(path: Path, text: str, table: pa.Table, ragged: list[pa.csv.InvalidRow], width: int) -> None:
    if ragged:
        faults = [
            Fault(f"row {row.number - 1}", f"has {row.actual_columns} fields, the header has {width}")
            for row in ragged[:MAX_FAULTS]
        ]
        more = len(ragged) - len(faults)
        if more:
            faults.append(Fault("other rows", f"{more:,} more have the wrong number of fields"))
        raise DataError(f"{path} has rows that do not fit its header", faults)
    last = [str(column[-1]) for column in table.columns] if table.num_rows else []
    if text.count('"') % 2 and any("\n" in value for value in last):
        raise DataError(f"{path}: the last row begins a quoted value that never ends")


def _named(path: Path, records: pa.Table, mark: str) -> tuple[pd.DataFrame, list[str]]:
    """The records below the header, under its names; unnamed columns without content are dropped."""
    header = [unguarded(str(column[0]).strip()) for column in records.columns]
    written = [pc.utf8_trim_whitespace(column.slice(1)).to_pandas() for column in records.columns]
    columns = [unguarded_column(column) for column in written]
    if records.num_rows < 2:
        raise DataError(f"{path} has a header but no rows")
    kept, notes, faults = {}, [], []
    changed = [name for name, a, b in zip(header, written, columns, strict=True) if a is not b and (a != b).any()]
    if changed:
        notes.append(f"The single quote before what would be a formula is taken off in {some(changed)}.")
    for place, (name, column) in enumerate(zip(header, columns, strict=True), start=1):
        if name == "" and _is_idle(column):
            notes.append(f"Dropped column {place}, which has no name and only row numbers or nothing.")
        elif name == "":
            faults.append(Fault(f"column {place}", "has no name", "Name it in the header."))
        elif name in kept:
            faults.append(Fault(f"column {name!r}", "stands in the header more than once", "Rename one."))
        else:
            kept[name] = column
    if faults:
        raise DataError(f"{path} has a header that cannot be used", faults)
    if not kept:
        raise DataError(f"{path} has no named columns")
    return pd.DataFrame(kept), notes


def _is_idle(column: pd.Series) -> bool:
    """Whether a column is empty, or counts the rows as pandas does when it writes an index."""
    if (column == "").all():
        return True
    numbers = pd.to_numeric(column, errors="coerce")
    return bool(numbers.notna().all() and (numbers.diff().dropna() == 1).all())


MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "<NA>")
IN_SCHEMA = "if it is a level, write it into `levels` of the schema"
IN_FILE = "if it is a class, write it otherwise in the file"

Marks = Mapping[str, tuple[str, ...]]
"""By column: the texts in it, such as 'n/a', that were read as missing."""


def marks_in(text: pd.DataFrame, table: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """The marks of a table's columns as they are written and as they were read; in a number they are no level."""
    columns = [n for n in table.columns if not pd.api.types.is_numeric_dtype(table[n])]
    found = {name: text[name][table[name].isna()].unique().tolist() for name in columns}
    return {name: kept for name, texts in found.items() if (kept := tuple(t for t in texts if t in MISSING[1:]))}


def in_words(marks: Marks, label: str | None = None) -> list[str]:
    """For each column: which text was read as missing, and what to do if that was a mistake."""
    return [
        f"{some(texts)} in {name!r} {'is' if len(texts) == 1 else 'are'} read as missing; "
        f"{IN_FILE if name == label else IN_SCHEMA}."
        for name, texts in marks.items()
    ]


def without_missing(path: Path, table: pd.DataFrame, label: str, marks: Marks) -> tuple[pd.DataFrame, list[str]]:
    """The rows in which nothing is missing, and notes on the others."""
    absent = table.isna()
    empty = [c for c in table.columns if absent[c].all()]
    if empty:
        faults = [Fault(f"column {c!r}", "has no values at all", f"Leave it out: ignore=[{c!r}].") for c in empty]
        raise DataError(str(path), faults)
    notes, counts = [], absent.drop(columns=label).loc[~absent[label]].sum()
    if absent[label].any():
        notes.append(f"Dropped {int(absent[label].sum()):,} of {len(table):,} rows without {label!r}.")
    kept = table[~absent.any(axis=1)]
    dropped = len(table) - len(kept) - int(absent[label].sum())
    if dropped:
        columns = ", ".join(f"{c} {int(n):,}" for c, n in counts[counts > 0].items())
        notes.append(f"Dropped {dropped:,} of {len(table):,} rows with missing values ({columns}).")
    notes += in_words({name: texts for name, texts in marks.items() if name in table.columns}, label)
    if not len(kept):
        raise DataError(f"{path}: every row has a missing value. {' '.join(notes)}")
    kept = kept.copy()
    for name in table.columns[absent.any()]:
        kept[name] = _retyped(kept[name])
    return kept, notes


def _retyped(column: pd.Series) -> pd.Series:
    """Whole numbers and booleans as such again, now that nothing is missing."""
    if column.dtype == np.float64 and np.isfinite(column).all() and (column == column.round()).all():
        return column.astype("int64") if column.abs().max() < 2**53 else column
    return column.infer_objects() if column.dtype == object else column


def tells_of_missing(note: str) -> bool:
    """Whether a note of `load_table` tells of rows that were dropped, and so was a warning before."""
    return note.startswith("Dropped ") or " read as missing; " in note


def named_in(fault: Fault, marks: Marks) -> Fault:
    """A fault about an empty cell with the text that stands there, if it is not empty."""
    texts = next((texts for name, texts in marks.items() if fault.place == f"column {name!r}"), ())
    if fault.problem != EMPTY or not texts:
        return fault
    said = f"{fault.remedy} {IN_SCHEMA[0].upper()}{IN_SCHEMA[1:]} that the model is fitted with."
    return replace(fault, problem=f"holds {some(texts)}, which is read as missing", remedy=said)
