"""Overrides: what holds for single rows only, as rules of their own.

A freeze and an allowed range are rules like any other, so that checks, certificates and proofs need not know them.
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
    """What holds for single rows, by their position.

    Parameters
    ----------
    rules : tuple of Rule
        Every distinct own rule, bound to the task's schema, in the order of their texts.
    of_row : tuple of tuples of int
        For each row, the places of its rules in `rules`, rising.
    targets : tuple
        For each row the class wanted, or None for the task's own.
    difficulty : tuple of mappings
        For each row what changing a feature costs; empty is as usual.
    """

    rules: tuple[Rule, ...]
    of_row: tuple[tuple[int, ...], ...]
    targets: tuple[Any, ...]
    difficulty: tuple[Mapping[str, float], ...]

    @classmethod
    def read(cls, table: pd.DataFrame, rows: pd.DataFrame, task: Task) -> Overrides:
        """Overrides from a table with the labels of some of the rows as its index.

        Parameters
        ----------
        table : DataFrame
            With the columns `freeze`, `target`, `rules`, `difficulty`, and the names of features for what is
            allowed there; see `docs/overrides.md`.
        rows : DataFrame
            The rows to explain.
        task : Task
            Whose features and classes are meant.

        Returns
        -------
        Overrides

        Raises
        ------
        DataError
            That lists everything that is wrong with the table.
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
            One a row.

        Returns
        -------
        Overrides
        """
        # Sorted, so that the order of a row's rules does not depend on the rows beside it.
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
        """Some of the rows; `rules` stays whole, so that what is laid out by it still fits.

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
        """Rows that share everything, in the order of their first.

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
        """Which of the own rules are about these rows.

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
        """A line of JSON for each row.

        Returns
        -------
        list of str
            "" where nothing is its own.
        """
        return [_line(row) for row in self]

    @classmethod
    def from_json(cls, lines: Sequence[str], task: Task) -> Overrides:
        """The inverse of `to_json`.

        Parameters
        ----------
        lines : sequence of str
            One a row.
        task : Task
            Whose features and classes are meant.

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
    # A class that JSON does not know, such as a date, is found again by the way it is written.
    return json.dumps(content, ensure_ascii=False, allow_nan=False, default=str) if content else ""
