"""What is suggested: a rule with what speaks for it; and a candidate, the same before it is read and weighed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..rules import Rule

Kind = Literal["frozen", "never falls", "takes time", "moves with", "order", "levels", "range"]


@dataclass(frozen=True)
class Suggestion:
    """A rule for a person to accept or not.

    `support` counts the rows that it speaks of (its condition holds in them), and `broken` how many of these break it:
    0, but for `moves with`, where both count pairs of rows. What comes from a name alone has no support.
    `strength` tells how much it forbids that the data does not show: the share of made-up rows, each value drawn by
    itself from the data, that break it. For rules about change it is the share of pairs of rows.
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
        """Plain data that JSON can hold."""
        return {
            "rule": self.rule.text,
            "words": self.words,
            "kind": self.kind,
            "support": self.support,
            "broken": self.broken,
            "strength": round(self.strength, 6),
            "why": self.why,
        }


@dataclass(frozen=True)
class Candidate:
    """A rule as text about some features, and what speaks for it.

    `expected` is how many rows would break it if its features had nothing to do with each other, `share` the same as a
    share of all rows. `sharp` is near 0 where the data only thins out towards the bound, 1 where it ends there.
    """

    text: str
    kind: Kind
    features: frozenset[str]
    support: int
    expected: float
    share: float
    sharp: float = 1.0
