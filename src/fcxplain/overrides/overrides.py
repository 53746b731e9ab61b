"""Overrides: settings for single rows, expressed as rules, from a file, a table or lines of JSON.

A freeze or an allowed range is a rule like any other, so checks, certificates and proofs need no special cases. The
lines of a table belong to rows by their labels, its columns to features by their names. Every fault is collected.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from ..datasets.delimited import DelimitedFile
from ..datasets.tables import existing, reading_parquet
from ..errors import DataError, Fault, FormatError, RuleError, SchemaError, did_you_mean, some
from ..outcome import Outcome
from ..rules import Rule, read_rules
from ..schema import Schema
from ..schema.feature import plain
from ..schema.validation import not_a_table
from ..task import Task
from . import cells
from .cells import Unreadable, allowed

Group = tuple[NDArray[np.int64], tuple[Rule, ...], Any, Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class Overrides:
    """Settings for single rows, by position.

    Parameters
    ----------
    rules : tuple of Rule
        Every distinct rule of a row, bound to the task's schema, sorted by text.
    of_row : tuple of tuples of int
        For each row, the positions of its rules in `rules`, ascending.
    targets : tuple
        For each row, the desired outcome, or None for the task's.
    difficulty : tuple of mappings
        For each row, the relative cost of changing features; empty for the default.

    Examples
    --------
    >>> import pandas as pd
    >>> from fcxplain import Overrides, Task
    >>> rows = pd.DataFrame({"age": [30, 41], "hours": [20.5, 45.0]}, index=["Ann", "Bob"])
    >>> task = Task(rows, lambda table: table["hours"] / 80, target=1)
    >>> table = pd.DataFrame({"freeze": ["age"], "hours": ["<= 40"]}, index=["Ann"])
    >>> [rule.text for rule in Overrides.read(table, rows, task).rules]
    ["age' == age", "hours' <= 40"]
    """

    rules: tuple[Rule, ...]
    of_row: tuple[tuple[int, ...], ...]
    targets: tuple[Any, ...]
    difficulty: tuple[Mapping[str, float], ...]

    @classmethod
    def read(cls, table: pd.DataFrame, rows: pd.DataFrame, task: Task) -> Overrides:
        """Overrides from a table that is indexed by row labels.

        Parameters
        ----------
        table : DataFrame
            With the columns `freeze`, `target`, `rules`, `difficulty`, and names of features for the values allowed
            there; see `docs/overrides.md`.
        rows : DataFrame
            The rows to explain.
        task : Task
            The task with the features and classes.

        Returns
        -------
        Overrides

        Raises
        ------
        DataError
            If the table has faults; all are listed.
        """
        own, faults = _read_table(table, rows, task)
        if faults:
            raise DataError("these overrides cannot be used", faults)
        return cls.of(own)

    @classmethod
    def of(cls, own: Sequence[RowOverrides]) -> Overrides:
        """Overrides of rows, in order.

        Parameters
        ----------
        own : sequence of RowOverrides
            One per row.

        Returns
        -------
        Overrides
        """
        # Sorted, so that the order of a row's rules does not depend on other rows.
        distinct = {rule.text: rule for row in own for rule in row.rules}
        place = {text: i for i, text in enumerate(sorted(distinct))}
        return cls(
            tuple(distinct[text] for text in place),
            tuple(tuple(sorted({place[rule.text] for rule in row.rules})) for row in own),
            tuple(row.target for row in own),
            tuple(row.difficulty for row in own),
        )

    def __len__(self) -> int:
        return len(self.of_row)

    def __iter__(self) -> Iterator[RowOverrides]:
        for places, target, difficulty in zip(self.of_row, self.targets, self.difficulty, strict=True):
            yield RowOverrides(tuple(self.rules[i] for i in places), target, difficulty)

    def take(self, which: NDArray[np.int64]) -> Overrides:
        """Overrides of some rows; `rules` stays complete, so that arrays with one column per rule still fit.

        Parameters
        ----------
        which : array of int or bool
            The rows.

        Returns
        -------
        Overrides
        """
        places = np.arange(len(self))[which].tolist()
        return Overrides(
            self.rules,
            tuple(self.of_row[i] for i in places),
            tuple(self.targets[i] for i in places),
            tuple(self.difficulty[i] for i in places),
        )

    def groups(self) -> list[Group]:
        """Groups of rows with equal overrides, in the order of their first row.

        Returns
        -------
        list of tuples
            Positions, own rules, target, difficulty.
        """
        members: dict[Any, list[int]] = {}
        for i, (places, target, difficulty) in enumerate(zip(self.of_row, self.targets, self.difficulty, strict=True)):
            members.setdefault((places, target, tuple(sorted(difficulty.items()))), []).append(i)
        return [
            (np.array(rows, dtype=np.int64), tuple(self.rules[i] for i in places), target, dict(difficulty))
            for (places, target, difficulty), rows in members.items()
        ]

    def applies(self, place: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the rules apply to these rows.

        Parameters
        ----------
        place : array of int
            Positions of rows.

        Returns
        -------
        array of bool
            `n x rules`.
        """
        place = np.asarray(place, dtype=np.int64)
        found = np.zeros((len(place), len(self.rules)), dtype=bool)
        for line, row in enumerate(place.tolist()):
            found[line, list(self.of_row[row])] = True
        return found

    def to_json(self) -> list[str]:
        """One line of JSON per row.

        Returns
        -------
        list of str
            "" for a row without overrides.
        """
        return [row.to_json() for row in self]

    @classmethod
    def from_json(cls, lines: Sequence[str], task: Task) -> Overrides:
        """The inverse of `to_json`.

        Parameters
        ----------
        lines : sequence of str
            One per row.
        task : Task
            The task with the features and classes.

        Returns
        -------
        Overrides

        Raises
        ------
        FormatError
            If a line cannot be read.
        """
        reader = Reader(task)
        known = {line: reader.line(line) for line in dict.fromkeys(lines)}
        said = [known[line] for line in lines]
        faults = [fault for i, one in enumerate(said, start=1) for fault in one.faults_at(f"overrides of row {i}")]
        if faults:
            raise FormatError("these overrides cannot be read", faults)
        return cls.of([one.own for one in said])


ROW = "row"
FREEZE, TARGET, RULES, DIFFICULTY = SPECIAL = ("freeze", "target", "rules", "difficulty")
PREFIX = "allow_"


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
    table = readers.get(path.suffix.lower(), _delimited)(path)
    if ROW not in table.columns:
        remedy = did_you_mean(ROW, table.columns) or f"The file has {some(table.columns)}."
        raise DataError(str(path), [Fault(f"column {ROW!r}", "is missing; it holds the labels of the rows", remedy)])
    absent = np.flatnonzero(table[ROW].isna()).tolist()
    if absent:
        faults = [Fault(f"entry {place + 1}", f"has no {ROW!r}", "Name its row.") for place in absent]
        raise DataError(f"{path} has overrides without a row", faults)
    return table.set_index(ROW)


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
    # As objects, lists stay lists and integers stay integers.
    names = dict.fromkeys(name for row in content for name in row)
    columns = {name: pd.Series([row.get(name) for row in content], dtype=object) for name in names}
    return pd.DataFrame(columns)


def shown(label: Hashable) -> str:
    """A row's label as plain Python, for messages."""
    return repr(tuple(plain(part) for part in label) if isinstance(label, tuple) else plain(label))


def positions(table: pd.DataFrame, rows: pd.DataFrame, faults: list[Fault]) -> NDArray[np.int64]:
    """The position of each line's row, or -1."""
    # pandas' default index cannot match rows that have another.
    counted = isinstance(table.index, pd.RangeIndex) and table.index.equals(pd.RangeIndex(len(rows)))
    if counted and len(rows) > 0 and not table.index.equals(rows.index):
        problem = "is a plain row count, and the rows to explain have another index"
        remedy = "Set overrides.index = rows.index if both are in the same order; otherwise set it to their labels."
        faults.append(Fault("index of the overrides", problem, remedy))
        return np.full(len(table), -1, dtype=np.int64)
    exact, written = _places(rows.index, plain), _places(rows.index, as_written)
    found = [exact.get(plain(label)) or written.get(as_written(label)) or [] for label in table.index.tolist()]
    faults += _label_faults(table.index, found, rows)
    return np.array([place[0] if len(place) == 1 else -1 for place in found], dtype=np.int64)


def _places(index: pd.Index, key: Any) -> dict[Hashable, list[int]]:
    places: dict[Hashable, list[int]] = {}
    for place, label in enumerate(index.tolist()):
        places.setdefault(key(label), []).append(place)
    return places


def as_written(label: Hashable) -> str:
    """A label as text: 7 and 7.0 are equal, and a date has no time of day."""
    label = plain(label)
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    if isinstance(label, pd.Timestamp) and label.tz is None and label == label.normalize():
        return str(label.date())
    return str(label).strip()


def _label_faults(index: pd.Index, found: list[list[int]], rows: pd.DataFrame) -> list[Fault]:
    faults, seen = [], set()
    for label, places in zip(index.tolist(), found, strict=True):
        place = f"row {shown(label)}"
        if not places:
            remedy = did_you_mean(label, rows.index[:1000]) or f"Their labels are {some(rows.index, 3)}."
            faults.append(Fault(place, "is not one of the rows to explain", remedy))
        elif len(places) > 1:
            problem = f"is the label of {len(places)} of the rows to explain"
            faults.append(Fault(place, problem, "Give the rows unique labels, e.g. rows.reset_index(drop=True)."))
        elif places[0] in seen:
            faults.append(Fault(place, "appears in the overrides more than once", "Merge its entries into one line."))
        seen |= set(places[:1])
    return faults


def meanings(columns: pd.Index, schema: Schema, faults: list[Fault]) -> dict[int, str | None]:
    """By the position of each column: the feature whose values it limits, or None for a special column."""
    found: dict[int, str | None] = {}
    for place, column in enumerate(columns):
        meant, earlier = _meant(column, schema), list(columns[:place])
        if column not in SPECIAL and meant is None:
            known = [*SPECIAL, *schema.names, *(PREFIX + n for n in schema.names if n in SPECIAL)]
            remedy = did_you_mean(column, known) or f"Known columns are {some(known, 20)}."
            faults.append(Fault(f"column {column!r}", "is neither a feature nor an override", remedy))
        elif column in earlier or (meant is not None and meant in found.values()):
            problem = f"limits {meant!r} a second time" if meant else "appears in the table more than once"
            faults.append(Fault(f"column {column!r}", problem, "Drop one of the two."))
        else:
            found[place] = meant
    return found


def _meant(column: Any, schema: Schema) -> str | None:
    """The feature of a column: its own name, or the name after `allow_`."""
    if column in SPECIAL:
        return None
    rest = str(column).removeprefix(PREFIX) if str(column).startswith(PREFIX) else None
    if column in schema and not (rest in SPECIAL and rest in schema):
        return str(column)
    return rest if rest in schema else None


IN_FILES = (RULES, TARGET, DIFFICULTY)
# Cells of these types are the same if they are written the same.
_PLAIN = (str, int, float, bool, tuple, list, set, frozenset, dict, pd.Interval)


@dataclass(frozen=True)
class RowOverrides:
    """The overrides of one row: its rules, its target (None for the task's), and difficulties."""

    rules: tuple[Rule, ...] = ()
    target: Any = None
    difficulty: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> str:
        """A line of JSON; "" without overrides."""
        content: dict[str, Any] = {"rules": [rule.text for rule in self.rules]} if self.rules else {}
        if self.target is not None:
            content["target"] = self.target.to_data() if isinstance(self.target, Outcome) else self.target
        if self.difficulty:
            content["difficulty"] = dict(self.difficulty)
        # A class that JSON cannot hold, such as a date, is matched by its text.
        return json.dumps(content, ensure_ascii=False, allow_nan=False, default=str) if content else ""

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


def _read_table(table: pd.DataFrame, rows: pd.DataFrame, task: Task) -> tuple[list[RowOverrides], list[Fault]]:
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
        is_level = feature is not None and isinstance(value, str) and value in self.schema[feature].level_of_text
        if cells.is_empty(value) and not is_level:
            return NOTHING
        try:
            if feature is not None:
                return self._parsed(allowed(value, self.schema[feature], self.schema))
            if column == TARGET:
                return Said(RowOverrides(target=cells.target(value, self.classes)))
            if column == DIFFICULTY:
                return Said(RowOverrides(difficulty=cells.difficulty(value, self.schema)))
            return self._parsed(cells.frozen(value, self.schema) if column == FREEZE else cells.own_rules(value))
        except Unreadable as error:
            limits = f"To limit the feature {column!r}, name the column {PREFIX + column!r}."
            hint = "" if feature or column not in self.schema else limits
            return Said(NOTHING.own, tuple(Fault("", what, f"{do} {hint}".strip()) for what, do in error.problems))

    def _parsed(self, texts: tuple[str, ...]) -> Said:
        try:
            rules, faults = read_rules(texts, self.schema)
        except RuleError as error:
            return Said(NOTHING.own, error.faults or (Fault("", error.message),))
        return Said(RowOverrides(tuple(replace(rule, line=1) for rule in rules)), faults)
