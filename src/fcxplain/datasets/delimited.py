"""Delimited text files: encoding, separator, header, ragged lines, marks of missing values."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
# Lines and characters that are read to detect the separator.
SAMPLE_LINES, HEAD = 50, 2**20
# A compressed table may not unpack to more than this.
MAX_BYTES = 2**32
# The longest line allowed, and how much is read at a time to split it into fields.
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
# What a spreadsheet takes for a formula, except for numbers. Quotes before it count, so that the added quote can
# always be removed again.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[-+](\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


class DelimitedFile:
    """A delimited text file, plain or gzipped, with a header line.

    Its format (`encoding`, `separator`, `header`) is detected once, from the whole file and in constant memory; then it
    is read as a whole or in chunks, always as text. `expected` are names of columns that it should have: if they appear
    under one separator only, that one is used. `largest` is the maximum size in bytes.
    """

    def __init__(
        self,
        path: Path,
        separator: str | None = None,
        *,
        expected: Collection[str] = (),
        largest: int | None = MAX_BYTES,
    ) -> None:
        self.path = path
        self.encoding, self._head, self._ends_in_quote = _scanned(path, largest)
        if not self._head.text.strip():
            raise DataError(f"{path} is empty")
        marker = re.match(r"sep=(.)\r?\n", self._head.text)
        self._skipped = 0 if marker is None else 1
        if marker is not None:
            self._head = replace(self._head, text=self._head.text[marker.end() :])
            separator = separator or marker.group(1)
        self.separator = _given(separator) if separator is not None else _detected(path, self._head, expected)
        records = self._head.records(self.separator)
        if not records:
            raise DataError(f"{path} has no header line that can be read")
        self.header = [unguarded(name.strip()) for name in records[0]]
        # Lines that end in a separator, under a header that does not.
        width = len(self.header)
        self._is_open = len(records) > 1 and all(len(r) == width + 1 and not r[-1].strip() for r in records[1:])
        if self._is_open:
            self.header.append("")

    @property
    def notes(self) -> list[str]:
        """Notes on the detected format."""
        found = [f"Read as {self.encoding}."] if self.encoding != "utf-8" else []
        name = SEPARATORS.get(self.separator, repr(self.separator))
        return found if self.separator == "," else [*found, f"Fields are separated by {name}s."]

    def read(self) -> tuple[pd.DataFrame, list[str]]:
        """All rows, and notes; unnamed columns without content are dropped, other faults of the header are errors."""
        (table,) = self._tables(None, range(len(self.header)))
        if not len(table):
            raise DataError(f"{self.path} has a header but no rows")
        unnamed = [place for place, name in enumerate(self.header) if not name]
        idle = [place for place in unnamed if _is_idle(table[place])]
        dropped = "Dropped column {}, which has no name and only row numbers or nothing."
        notes = [*self.notes, *(dropped.format(place + 1) for place in idle)]
        odd = [place for place in unnamed if place not in idle]
        faults = [Fault(f"column {place + 1}", "has no name", "Name it in the header.") for place in odd]
        self._check_header([name for name in self.header if name], faults)
        if len(unnamed) == len(self.header):
            raise DataError(f"{self.path} has no named columns")
        written = {name: table[place] for place, name in enumerate(self.header) if name}
        plain = {name: unguarded_column(column) for name, column in written.items()}
        changed = [n for n, column in plain.items() if column is not written[n] and not column.equals(written[n])]
        if changed:
            notes.append(f"The single quote that guards formulas is removed in {some(changed)}.")
        return pd.DataFrame(plain), notes

    def chunks(self, size: int | None, columns: Collection[str]) -> Iterator[pd.DataFrame]:
        """Some columns, a number of rows at a time or all at once; other columns are not read."""
        places = [place for place, name in enumerate(self.header) if name in columns]
        names = [self.header[place] for place in places]
        self._check_header(names)
        done = 0
        # Without any column, the rows still have to be counted.
        for table in self._tables(size, places or [0]):
            numbers = pd.RangeIndex(done, done + len(table))
            columns_here = {name: unguarded_column(table[place]) for name, place in zip(names, places, strict=True)}
            yield pd.DataFrame(columns_here).set_axis(numbers, axis=0) if names else pd.DataFrame(index=numbers)
            done += len(table)

    def _check_header(self, names: Sequence[str], faults: Sequence[Fault] = ()) -> None:
        again = sorted({name for name in names if names.count(name) > 1})
        twice = [Fault(f"column {n!r}", "occurs in the header more than once", "Rename one.") for n in again]
        if faults or twice:
            raise DataError(f"{self.path} has a header that cannot be used", [*faults, *twice])

    def _tables(self, size: int | None, places: Sequence[int]) -> Iterator[pd.DataFrame]:
        """The rows below the header, without blanks around values; one table if no size is given."""
        # If a quote is still open at the end, its value may be in any column.
        wanted = range(len(self.header)) if self._ends_in_quote else places
        for table in in_chunks(self._batches(wanted), size):
            yield pd.DataFrame({p: pc.utf8_trim_whitespace(table[str(p)]).to_pandas() for p in places})

    def _batches(self, places: Sequence[int]) -> Iterator[pa.Table]:
        ragged: list[pa.csv.InvalidRow] = []

        def skip(row: pa.csv.InvalidRow) -> str:
            ragged.append(row)
            return "skip"

        last, names = None, [str(place) for place in range(len(self.header))]
        kept = [str(place) for place in places]
        try:
            with Unpacked(self.path) as source:
                reader = pa.csv.open_csv(
                    io.BufferedReader(source, BLOCK),
                    # Row numbers are known only when rows are read in sequence.
                    pa.csv.ReadOptions(
                        column_names=names,
                        use_threads=False,
                        block_size=MAX_LINE,
                        skip_rows=self._skipped,
                        encoding=self.encoding,
                    ),
                    pa.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True, invalid_row_handler=skip),
                    pa.csv.ConvertOptions(
                        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, include_columns=kept
                    ),
                )
                for number, batch in enumerate(reader):
                    last = batch if batch.num_rows else last
                    # The first record is the header, unless it is shorter than the others.
                    table = pa.Table.from_batches([batch])
                    yield table.slice(1) if number == 0 and not self._is_open else table
        except pa.ArrowInvalid as error:
            raise DataError(f"{self.path} cannot be read as a table: {error}") from error
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{self.path} cannot be read: {error}") from error
        self._check(ragged[1:] if self._is_open else ragged, last)

    def _check(self, ragged: Sequence[pa.csv.InvalidRow], last: pa.RecordBatch | None) -> None:
        width = len(self.header)
        faults = [
            Fault(f"row {row.number - 1 - self._skipped}", f"has {row.actual_columns} fields, the header has {width}")
            for row in ragged[:MAX_FAULTS]
        ]
        if more := len(ragged) - len(faults):
            faults.append(Fault("other rows", f"{more:,} more have the wrong number of fields"))
        if faults:
            raise DataError(f"{self.path} has rows that do not fit its header", faults)
        if self._ends_in_quote and last is not None and any("\n" in str(column[-1]) for column in last.columns):
            raise DataError(f"{self.path}: the last row opens a quoted value that is never closed")


def in_chunks(tables: Iterable[pa.Table], size: int | None) -> Iterator[pa.Table]:
    """The same rows in chunks of a given size (the last may be smaller), or all at once."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        while size is not None and sum(t.num_rows for t in held) >= size:
            whole = pa.concat_tables(held)
            yield whole.slice(0, size)
            held = [whole.slice(size)]
    if held and (size is None or any(t.num_rows for t in held)):
        yield pa.concat_tables(held)


@dataclass(frozen=True)
class _Head:
    """The first characters of a file, and whether there are more."""

    text: str
    is_cut: bool

    def records(self, mark: str) -> list[list[str]]:
        """The first records that are not empty, quotes respected."""
        found: list[list[str]] = []
        try:
            for record in csv.reader(io.StringIO(self.text), delimiter=mark):
                if record:
                    found.append(record)
                if len(found) == SAMPLE_LINES:
                    return found
        except csv.Error:
            return found
        # The last record may be cut off.
        return found[:-1] if self.is_cut and len(found) > 1 else found


def _scanned(path: Path, largest: int | None) -> tuple[str, _Head, bool]:
    """The encoding in which all of a file can be read, its beginning, and whether its quotes are odd in number."""
    with _opened(path) as source:
        start = source.peek(4096)[:4096]
    if start[:4] == b"PK\x03\x04":
        raise DataError(f"{path} is a zip archive or a workbook; unpack it, or save the sheet as CSV")
    for encoding in _encodings(start):
        try:
            head, quotes = _decoded(path, encoding, largest)
        except UnicodeDecodeError:
            continue
        if _CONTROL.search(head.text[:65_536]):
            break
        return ("utf-8" if encoding == "utf-8-sig" else encoding), head, quotes % 2 == 1
    raise DataError(f"{path} is not a text file; give a CSV, TSV or parquet file")


def _decoded(path: Path, encoding: str, largest: int | None) -> tuple[_Head, int]:
    """The beginning of the text, and how many quotes there are in all of it."""
    decoder = codecs.getincrementaldecoder(encoding)()
    head, size, quotes, is_cut = "", 0, 0, False
    with _opened(path) as source:
        while block := source.read(BLOCK):
            size += len(block)
            if largest is not None and size > largest:
                raise DataError(f"{path} is larger than {largest:,} bytes; convert it to parquet")
            text = decoder.decode(block)
            quotes += text.count('"')
            is_cut = is_cut or len(head) + len(text) > HEAD
            head += text[: HEAD - len(head)]
        decoder.decode(b"", final=True)
    return _Head(head.lstrip("\ufeff"), is_cut), quotes


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader[Unpacked]]:
    """The bytes of a file, unpacked; errors name the file."""
    try:
        with io.BufferedReader(Unpacked(path), BLOCK) as source:
            yield source
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is a damaged gzip file: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error}") from error


class Unpacked(io.RawIOBase):
    """The bytes of a file, plain or gzipped. An endless line is refused before it fills the memory."""

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


def guarded(value: Any) -> Any:
    """A CSV cell: text that a spreadsheet would take for a formula gets a leading single quote."""
    is_formula = isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value


def unguarded(text: str) -> str:
    """The inverse of `guarded`, for a cell that was read."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def unguarded_column(column: pd.Series) -> pd.Series:
    """The same for a column of text; the column itself if no cell starts with a quote."""
    return column.map(unguarded, na_action="ignore") if column.str.startswith("'", na=False).any() else column


def _encodings(start: bytes) -> tuple[str, ...]:
    for mark, encoding in _BOMS:
        if start.startswith(mark):
            return (encoding,)
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


def _detected(path: Path, head: _Head, expected: Collection[str]) -> str:
    """The separator that yields the expected columns, or splits the first lines into the same number of fields."""
    records = {mark: head.records(mark) or [[]] for mark in SEPARATORS}
    shown = {mark: sum(unguarded(name.strip()) in expected for name in found[0]) for mark, found in records.items()}
    most = [mark for mark in shown if shown[mark] == max(shown.values()) > 0]
    if len(most) == 1:
        return most[0]
    shapes = {mark: [len(record) for record in found] for mark, found in records.items()}
    several = [mark for mark, widths in shapes.items() if widths[0] > 1]
    candidates = [mark for mark in several if len(set(shapes[mark])) == 1] or several
    if not candidates:
        return "\t" if ".tsv" in path.suffixes else ","
    widest = max(shapes[mark][0] for mark in candidates)
    best = [mark for mark in candidates if shapes[mark][0] == widest]
    if len(best) > 1:
        names = " or ".join(SEPARATORS[mark] for mark in best)
        raise DataError(f"{path}: fields may be separated by {names}; specify one, e.g. separator={best[0]!r}")
    return best[0]


def _is_idle(column: pd.Series) -> bool:
    """Whether a column is empty, or counts the rows as pandas does when it writes an index."""
    if (column == "").all():
        return True
    numbers = pd.to_numeric(column, errors="coerce")
    return bool(numbers.notna().all() and (numbers.diff().dropna() == 1).all())


MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "<NA>")
IN_SCHEMA = "if it is a level, add it to `levels` in the schema"
IN_FILE = "if it is a class, use another spelling in the file"

Marks = Mapping[str, tuple[str, ...]]
"""Texts, such as 'n/a', that were read as missing, by column."""


def marks_in(text: pd.DataFrame, table: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Texts that were read as missing, by column; in a number they cannot be levels."""
    columns = [n for n in table.columns if not pd.api.types.is_numeric_dtype(table[n])]
    found = {name: text[name][table[name].isna()].unique().tolist() for name in columns}
    return {name: kept for name, texts in found.items() if (kept := tuple(t for t in texts if t in MISSING[1:]))}


def in_words(marks: Marks, label: str | None = None) -> list[str]:
    """For each column, the texts read as missing, and what to do if that was a mistake."""
    return [
        f"{some(texts)} in {name!r} {'is' if len(texts) == 1 else 'are'} read as missing; "
        f"{IN_FILE if name == label else IN_SCHEMA}."
        for name, texts in marks.items()
    ]


TAKE_GAPS = "Models that accept gaps can keep them: boosting, or your own pipeline with an imputer."


def without_missing(
    path: str | Path, table: pd.DataFrame, label: str, marks: Marks, *, gaps: bool = False
) -> tuple[pd.DataFrame, list[str]]:
    """The rows without missing values (with `gaps`, without a missing label), and notes on the others."""
    absent = table.isna()
    empty = [c for c in table.columns if absent[c].all()]
    if empty:
        faults = [Fault(f"column {c!r}", "has no values at all", f"Leave it out: ignore=[{c!r}].") for c in empty]
        raise DataError(str(path), faults)
    notes, counts = [], absent.drop(columns=label).loc[~absent[label]].sum()
    if absent[label].any():
        notes.append(f"Dropped {int(absent[label].sum()):,} of {len(table):,} rows without {label!r}.")
    kept = table[~(absent[label] if gaps else absent.any(axis=1))]
    dropped = len(table) - len(kept) - int(absent[label].sum())
    if dropped:
        columns = ", ".join(f"{c} {int(n):,}" for c, n in counts[counts > 0].items())
        notes.append(f"Dropped {dropped:,} of {len(table):,} rows with missing values ({columns}). {TAKE_GAPS}")
    notes += in_words({name: texts for name, texts in marks.items() if name in table.columns}, label)
    if not len(kept):
        raise DataError(f"{path}: every row has a missing value. {' '.join(notes)}")
    kept = kept.copy()
    for name in table.columns[absent.any()]:
        kept[name] = _retyped(kept[name])
    return kept, notes


def _retyped(column: pd.Series) -> pd.Series:
    """Whole numbers and booleans in their own dtype again, now that nothing is missing."""
    if column.dtype == np.float64 and np.isfinite(column).all() and (column == column.round()).all():
        return column.astype("int64") if column.abs().max() < 2**53 else column
    return column.infer_objects() if column.dtype == object else column


def was_a_warning(note: str) -> bool:
    """Whether a note of `load_table` is about dropped rows or identifiers, and so was already a warning."""
    return note.startswith(("Dropped ", "Left out '")) or " read as missing; " in note


def named_in(fault: Fault, marks: Marks) -> Fault:
    """A fault about a missing value, with the text in the cell if it is not empty."""
    texts = next((texts for name, texts in marks.items() if fault.place == f"column {name!r}"), ())
    if fault.problem != EMPTY or not texts:
        return fault
    said = f"{fault.remedy} {IN_SCHEMA[0].upper()}{IN_SCHEMA[1:]} that the model is fitted with."
    return replace(fault, problem=f"holds {some(texts)}, which is read as missing", remedy=said)
