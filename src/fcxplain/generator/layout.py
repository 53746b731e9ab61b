"""What a generator knows about a table: the columns of each feature, which features may change, and how far."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ..errors import DataError
from ..task import Task


@dataclass(frozen=True)
class Range:
    """The values that a number may take without rules, in encoded units: from `low` to `high` by `step`.

    Both ends lie on the grid of legal values.
    """

    low: float
    high: float
    step: float


@dataclass(frozen=True)
class Layout:
    """The encoded columns of each feature, and which features may change.

    `ranges` has a `Range` for each number and None for each category; a model without gates does not need it.
    """

    spans: tuple[tuple[int, int], ...]
    mutable: tuple[bool, ...]
    classes: int = 2
    ranges: tuple[Range | None, ...] = ()

    def __post_init__(self) -> None:
        if len(self.spans) != len(self.mutable):
            raise ValueError(f"{len(self.spans)} spans but {len(self.mutable)} flags for what may change")
        if any(stop != start for (_, stop), (start, _) in pairwise(self.spans)):
            raise ValueError(f"spans must follow each other without gap, not {self.spans}")
        if self.ranges and len(self.ranges) != len(self.spans):
            raise ValueError(f"{len(self.spans)} spans but {len(self.ranges)} ranges")

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return self.spans[-1][1]

    @property
    def mutable_columns(self) -> list[int]:
        """The encoded columns of features that may change."""
        return [c for span, may in zip(self.spans, self.mutable, strict=True) if may for c in range(*span)]

    @property
    def mutable_features(self) -> list[int]:
        """The indices of features that may change."""
        return [place for place, may in enumerate(self.mutable) if may]


def refuse_frozen(task: Task) -> None:
    """Raise an error for a task in which no feature may change."""
    if task.frozen.issuperset(task.schema.names):
        raise DataError("no feature may change: the schema or the rules freeze all of them")
