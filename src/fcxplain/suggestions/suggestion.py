"""Suggestions: rules in the rule language with their evidence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..rules import Rule
from ..rules.notation import level as quoted
from ..rules.notation import name as written_name
from ..rules.notation import number
from ..schema import Schema
from .evidence import Bools, ValueColumn

Kind = Literal["frozen", "never falls", "never becomes", "takes time", "moves with", "order", "levels", "range"]


@dataclass(frozen=True)
class Suggestion:
    """A rule for a person to accept or reject.

    Parameters
    ----------
    rule : Rule
        The rule.
    words : str
        The rule in plain words.
    kind : str
        The kind of evidence.
    support : int
        The number of rows that it applies to. Suggestions from names have none.
    broken : int
        How many of these break it: 0, except for `moves with`, where both count pairs of rows.
    strength : float
        How much it forbids: the share of synthetic rows, with each value drawn independently from the data, that break
        it. For rules about change, the share of pairs of rows.
    why : str
        The reason, in words.

    Examples
    --------
    >>> from fcxplain import load_dataset, suggest
    >>> data = load_dataset("loans")
    >>> found = suggest(data.train[data.features], data.schema, by_name=True)[0]
    >>> found.rule.text, found.kind
    ("age' >= age", 'never falls')
    """

    rule: Rule
    words: str
    kind: Kind
    support: int
    broken: int
    strength: float
    why: str

    def __str__(self) -> str:
        return f"{self.rule.text}  # {self.words}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data that JSON can hold.

        Returns
        -------
        dict
        """
        return vars(self) | {"rule": self.rule.text, "strength": round(self.strength, 6)}


@dataclass(frozen=True)
class Candidate:
    """A rule as text about some features, with its evidence.

    `expected` is the number of rows that would break it if its features were independent, `share` the same as a share
    of all rows. `sharp` is near 0 if the data thins out towards the bound, 1 if it ends there.
    """

    text: str
    kind: Kind
    features: frozenset[str]
    support: int = 0
    expected: float = 0.0
    share: float = 0.0
    sharp: float = 1.0


# People do not review sets with more levels than this.
MOST_LISTED = 6
_BARE = re.compile(r"[^\W\d]\w*|\d+(\.\d+)?")
_WORDS = frozenset({"and", "or", "not", "in", "abs"})


class Writer:
    """Writes conditions on the features of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def name(self, name: str, *, primed: bool = True) -> str:
        """A feature's name, primed for the counterfactual value."""
        return written_name(name, self.schema) + "'" * primed

    def rise(self, name: str) -> str:
        """The condition that a feature rises."""
        return f"{self.name(name)} > {self.name(name, primed=False)}"

    def chosen(self, column: ValueColumn, chosen: Bools) -> str | None:
        """The condition that the value is in one of the chosen parts; None if it would be too long."""
        if column.is_ordered:
            return self._between_parts(column, chosen)
        inside, outside = np.flatnonzero(chosen), np.flatnonzero(~chosen)
        # Listing the levels inside is plainer than those outside, unless there are more of them.
        negated = len(outside) < len(inside)
        return self._listed(column, list(outside if negated else inside), negated=negated)

    def between(self, column: ValueColumn, low: float | None, high: float | None) -> str | None:
        """The condition that a number or rank lies between two values, both included; either may be None."""
        name, ends = self.name(column.feature.name), column.in_order[[0, -1]]
        if low == high or (low is None and high == ends[0]) or (high is None and low == ends[1]):
            return self._exactly(column, low if low is not None else high)
        below, above = self._value(column, low), self._value(column, high)
        if below and above:
            return f"{below} <= {name} <= {above}"
        return f"{name} >= {below}" if below else f"{name} <= {above}" if above else None

    def beyond(self, column: ValueColumn, low: float | None, high: float | None) -> str | None:
        """The opposite of `between`, if one comparison can express it."""
        name, value = self.name(column.feature.name), self._value(column, low if low is not None else high)
        if (low is None) != (high is None) and value:
            return f"{name} {'<' if low is not None else '>'} {value}"
        same = self._exactly(column, low) if low == high else None
        return same.replace("' in {", "' not in {").replace("' == ", "' != ") if same else None

    def _between_parts(self, column: ValueColumn, chosen: Bools) -> str | None:
        places = np.flatnonzero(chosen)
        if not len(places) or places[-1] - places[0] + 1 != len(places):
            return None
        first, last = places[0], places[-1]
        (low, high), name = column.parts.T.tolist(), self.name(column.feature.name)
        if first == last and low[first] == high[first]:
            return self._exactly(column, low[first])
        if first == last and low[first] < high[first]:
            value = self._value(column, high[first - 1] if first else low[1])
            return f"{name} {'>' if first else '<'} {value}"
        return self.between(column, low[first] if first else None, high[last] if last < len(low) - 1 else None)

    def _exactly(self, column: ValueColumn, value: float | None) -> str | None:
        if value is None:
            return None
        if column.feature.is_number:
            return f"{self.name(column.feature.name)} == {_written(column, value)}"
        return self._listed(column, [i for i, r in enumerate(column.feature.ranks) if r == value], negated=False)

    def _value(self, column: ValueColumn, value: float | None) -> str | None:
        if value is None:
            return None
        if column.feature.is_number:
            return _written(column, value)
        return self.level(str(column.feature.levels[column.feature.ranks.index(int(value))]))

    def _listed(self, column: ValueColumn, codes: list[int], *, negated: bool) -> str | None:
        levels = [self.level(str(column.feature.levels[code])) for code in codes]
        if not levels or len(levels) > MOST_LISTED or None in levels:
            return None
        name = self.name(column.feature.name)
        if len(levels) == 1:
            return f"{name} {'!=' if negated else '=='} {levels[0]}"
        return f"{name} {'not in' if negated else 'in'} {{{', '.join(map(str, levels))}}}"

    def level(self, text: str) -> str | None:
        """A level, quoted unless it is a plain word; None if the language cannot write it."""
        plain = _BARE.fullmatch(text) and text not in _WORDS and text not in self.schema
        return text if plain else quoted(text)


def _written(column: ValueColumn, value: float) -> str:
    return column.feature.text(value) if column.feature.kind == "date" else number(value)
