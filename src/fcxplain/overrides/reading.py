"""Read overrides from a file, a table or lines of JSON, cell by cell, and collect every fault."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from ..datasets.delimited import DelimitedFile
from ..datasets.tables import existing, reading_parquet
from ..errors import DataError, Fault, RuleError, SchemaError, did_you_mean, some
from ..rules import Rule, read_rules
from ..schema.validation import not_a_table
from ..task import Task
from . import cells
from .cells import Unreadable, allowed
from .labels import DIFFICULTY, FREEZE, RULES, TARGET, ambiguity, meanings, positions, shown

ROW = "row"


def read_overrides(path: str | Path) -> pd.DataFrame:
    """Read a file of overrides as a table indexed by its column `row`, for `FCx.explain(overrides=...)`.

    Parameters
    ----------
    path : str or Path
        CSV (empty cells are missing), parquet, or JSON: a list of objects with an entry `row`, or an object of
        objects by the rows' labels.

    Returns
    -------
    DataFrame
        One line for each row with overrides.

    Raises
    ------
    DataError
        If it cannot be read or has no column `row`; also a `FileNotFoundError` if there is no file.

    Examples
    --------
    >>> from fcxplain import read_overrides
    >>> table = read_overrides("overrides.csv")  # doctest: +SKIP
    >>> fcx.explain(rows, overrides=table)  # doctest: +SKIP
    """
    path = existing(Path(path))
    readers = {".json": _json, ".parquet": _parquet, ".pq": _parquet}
    return _indexed(path, readers.get(path.suffix.lower(), _delimited)(path))


def _delimited(path: Path) -> pd.DataFrame:
    text = DelimitedFile(path, expected=(ROW,)).read()[0].astype(object)
    return text.where(text != "", None)


def _parquet(path: Path) -> pd.DataFrame:
    with reading_parquet(path):
        table = pa.parquet.ParquetFile(path).read().to_pandas(maps_as_pydicts="strict")
    return table.reset_index() if table.index.name == ROW else table


def _json(path: Path) -> pd.DataFrame:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}") from error
    if isinstance(content, dict):
        content = [{ROW: label, **row} if isinstance(row, dict) else row for label, row in content.items()]
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise DataError(f"{path} is neither a list of objects nor an object of objects by the rows' labels")
    return _objects(content)


def _objects(records: list[dict[str, Any]]) -> pd.DataFrame:
    """Records as a table of plain objects, in which lists stay lists and integers stay integers."""
    names = dict.fromkeys(name for record in records for name in record)
    columns = {name: [record.get(name) for record in records] for name in names}
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def _indexed(path: Path, table: pd.DataFrame) -> pd.DataFrame:
    if ROW not in table.columns:
        remedy = did_you_mean(ROW, table.columns) or f"The file has {some(table.columns)}."
        raise DataError(str(path), [Fault(f"column {ROW!r}", "is missing; it holds the labels of the rows", remedy)])
    absent = table[ROW].isna()
    if absent.any():
        lines = [
            Fault(f"entry {place + 1}", f"has no {ROW!r}", "Name its row.") for place in absent.to_numpy().nonzero()[0]
        ]
        raise DataError(f"{path} has overrides without a row", lines)
    return table.set_index(ROW)


IN_FILES = (RULES, TARGET, DIFFICULTY)
# Cells of these types are the same if they are written the same.
_PLAIN = (str, int, float, bool, tuple, list, set, frozenset, dict, pd.Interval)


@dataclass(frozen=True)
class RowOverrides:
    """The overrides of one row: its rules, its target (None for the task's), and difficulties."""

    rules: tuple[Rule, ...] = ()
    target: Any = None
    difficulty: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: RowOverrides) -> RowOverrides:
        target = self.target if other.target is None else other.target
        return RowOverrides(self.rules + other.rules, target, other.difficulty or self.difficulty)


@dataclass(frozen=True)
class Said:
    """The overrides in a cell or a line, and its faults (with places inside the cell)."""

    own: RowOverrides
    faults: tuple[Fault, ...] = ()

    def faults_at(self, where: str) -> list[Fault]:
        """The faults, with the cell's place in front of theirs."""
        return [replace(f, place=f"{where}, {f.place}" if f.place else where) for f in self.faults]


NOTHING = Said(RowOverrides())


def as_table(given: pd.DataFrame | Mapping[Any, Mapping[str, Any]]) -> pd.DataFrame:
    """Overrides as a table, from a table or a mapping by label."""
    if isinstance(given, pd.DataFrame):
        return given
    if isinstance(given, Mapping) and all(isinstance(one, Mapping) for one in given.values()):
        columns = dict.fromkeys(str(name) for one in given.values() for name in one)
        cells = {name: [one.get(name) for one in given.values()] for name in columns}
        return pd.DataFrame(cells, index=pd.Index(list(given)), dtype=object)
    remedy = "Give a DataFrame with the rows' labels as its index, or a mapping {label: {column: value}}."
    problem = f"is a {type(given).__name__}, which does not assign settings to rows"
    raise DataError("", [Fault("overrides", problem, remedy)])


def read_table(table: pd.DataFrame, rows: pd.DataFrame, task: Task) -> tuple[list[RowOverrides], list[Fault]]:
    """The overrides of each row, and all faults of the table."""
    table = as_table(table)
    if not isinstance(rows, pd.DataFrame):
        raise SchemaError("the rows to explain", [not_a_table(rows)])
    reader, faults = Reader(task), list[Fault]()
    places = positions(table, rows, faults).tolist()
    # One extra place: a line without a row is read too (place -1), so that its faults are reported at once.
    own = [NOTHING.own] * (len(rows) + 1)
    labels = table.index.tolist()
    for number, feature in meanings(table.columns, task.schema, faults).items():
        column, wrong = str(table.columns[number]), dict[Fault, list[Any]]()
        for label, place, value in zip(labels, places, table.iloc[:, number].tolist(), strict=True):
            said = reader.cell(column, feature, value)
            if said is not NOTHING:
                own[place] += said.own
                for fault in said.faults:
                    wrong.setdefault(fault, []).append(label)
        faults += [_in_rows(fault, column, concerned) for fault, concerned in wrong.items()]
    return own[:-1], faults


def _in_rows(fault: Fault, column: str, concerned: list[Any]) -> Fault:
    """A fault in a column: with the label of its row, or once for several rows with their number."""
    place = f"column {column!r}" + (f", {fault.place}" if fault.place else "")
    if len(concerned) == 1:
        return replace(fault, place=f"row {shown(concerned[0])}, {place}")
    return replace(fault, place=place, rows=len(concerned), first=concerned[0])


def read_lines(lines: Sequence[str], task: Task) -> tuple[list[RowOverrides], list[Fault]]:
    """The overrides of each row from lines of JSON, and all faults."""
    reader = Reader(task)
    known = {line: reader.line(line) for line in dict.fromkeys(lines)}
    said = [known[line] for line in lines]
    faults = [fault for i, one in enumerate(said, start=1) for fault in one.faults_at(f"overrides of row {i}")]
    return [one.own for one in said], faults


class Reader:
    """Reads cells and lines for one task."""

    def __init__(self, task: Task) -> None:
        self.schema, self.classes = task.schema, task.classes
        # Many cells are equal, and parsing takes time.
        self._known: dict[tuple[str, type, str], Said] = {}

    def cell(self, column: str, feature: str | None, value: Any) -> Said:
        """The overrides in a cell: limits of a feature or, without one, a special column."""
        if type(value) not in _PLAIN:
            return self._cell(column, feature, value)
        key = (column, type(value), repr(value))
        if key not in self._known:
            self._known[key] = self._cell(column, feature, value)
        return self._known[key]

    def line(self, line: str) -> Said:
        """The overrides in a line of JSON."""
        try:
            content = json.loads(line) if line else {}
        except (ValueError, TypeError, RecursionError) as error:
            return Said(NOTHING.own, (Fault("", f"is not JSON ({error})"),))
        if not isinstance(content, dict):
            return Said(NOTHING.own, (Fault("", f"is not a JSON object but {some([content])}"),))
        own, faults = NOTHING.own, list[Fault]()
        for entry, value in content.items():
            if entry in IN_FILES:
                said = self.cell(entry, None, value)
                own, faults = own + said.own, faults + said.faults_at(f"entry {entry!r}")
            else:
                faults.append(Fault(f"entry {entry!r}", "is not known", did_you_mean(entry, IN_FILES)))
        return Said(own, tuple(faults))

    def _cell(self, column: str, feature: str | None, value: Any) -> Said:
        try:
            if feature is not None:
                return self._values(feature, value)
            return NOTHING if cells.is_empty(value) else self._special(column, value)
        except Unreadable as error:
            hint = "" if feature else ambiguity(column, self.schema)
            return Said(NOTHING.own, tuple(Fault("", what, f"{do} {hint}".strip()) for what, do in error.problems))

    def _values(self, name: str, value: Any) -> Said:
        feature = self.schema[name]
        is_level = isinstance(value, str) and value in feature.level_of_text
        says_nothing = cells.is_empty(value) and not is_level
        return NOTHING if says_nothing else self._parsed(allowed(value, feature, self.schema))

    def _special(self, column: str, value: Any) -> Said:
        if column == TARGET:
            return Said(RowOverrides(target=cells.target(value, self.classes)))
        if column == DIFFICULTY:
            return Said(RowOverrides(difficulty=cells.difficulty(value, self.schema)))
        return self._parsed(cells.frozen(value, self.schema) if column == FREEZE else cells.own_rules(value))

    def _parsed(self, texts: tuple[str, ...]) -> Said:
        try:
            rules, faults = read_rules(texts, self.schema)
        except RuleError as error:
            return Said(NOTHING.own, error.faults or (Fault("", error.message),))
        return Said(RowOverrides(tuple(replace(rule, line=1) for rule in rules)), faults)
