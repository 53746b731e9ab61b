"""Overrides: settings for single rows, expressed as rules.

A freeze or an allowed range is a rule like any other, so checks, certificates and proofs need no special cases.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, FormatError
from ..outcome import Outcome
from ..rules import Rule
from ..task import Task
from .reading import RowOverrides, read_lines, read_table

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
        own, faults = read_table(table, rows, task)
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
        rules = tuple(distinct[text] for text in sorted(distinct))
        place = {rule.text: i for i, rule in enumerate(rules)}
        return cls(
            rules,
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
        return [_line(row) for row in self]

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
        own, faults = read_lines(lines, task)
        if faults:
            raise FormatError("these overrides cannot be read", faults)
        return cls.of(own)


def _line(row: RowOverrides) -> str:
    content: dict[str, Any] = {}
    if row.rules:
        content["rules"] = [rule.text for rule in row.rules]
    if row.target is not None:
        content["target"] = row.target.to_data() if isinstance(row.target, Outcome) else row.target
    if row.difficulty:
        content["difficulty"] = dict(row.difficulty)
    # A class that JSON cannot hold, such as a date, is matched by its text.
    return json.dumps(content, ensure_ascii=False, allow_nan=False, default=str) if content else ""
