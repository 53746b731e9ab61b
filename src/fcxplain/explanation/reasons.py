"""Why a row has no counterfactual, as data: what stands in the way, and the cheapest way out if that gave way.

`search.whynot` finds these out; explanations carry them, and files keep them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from .certificate import Change

Kind = Literal["rule", "freeze", "bound"]
Side = Literal["low", "high"]


@dataclass(frozen=True)
class Obstacle:
    """A rule, a feature that the schema or a rule (`f' == f`) holds fixed, or a bound of a feature's domain.

    `name` is the rule's text or the feature's name. Where a single limit is meant (a bound, or a rule such as
    `hours' <= 60`), `feature`, `side` and `limit` say which. What is fixed is no matter of advice: `can_give_way`
    is False.
    """

    kind: Kind
    name: str
    words: str
    feature: str = ""
    side: Side | None = None
    limit: float | None = None

    @property
    def can_give_way(self) -> bool:
        """Whether it makes sense to think of it as loosened."""
        return self.kind != "freeze"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return vars(self) | {"can_give_way": self.can_give_way}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(**_fields(cls, data))


@dataclass(frozen=True)
class Relaxation:
    """What a row could do if some obstacles were gone, verified in everything else; the cheapest that was found."""

    gone: tuple[Obstacle, ...]
    counterfactual: dict[str, Any]
    changes: tuple[Change, ...]
    cost: float
    probability: float

    @property
    def is_advice(self) -> bool:
        """Whether nothing that cannot be changed would have to be otherwise."""
        return all(o.can_give_way for o in self.gone)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "gone": [o.to_dict() for o in self.gone],
            "is_advice": self.is_advice,
            "counterfactual": self.counterfactual,
            "changes": [c.to_dict() for c in self.changes],
            "cost": self.cost,
            "probability": self.probability,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        lists = {
            "gone": tuple(map(Obstacle.from_dict, data["gone"])),
            "counterfactual": dict(data["counterfactual"]),
            "changes": tuple(Change(**_fields(Change, c)) for c in data["changes"]),
        }
        return cls(**_fields(cls, data) | lists)


@dataclass(frozen=True)
class WhyNot:
    """Why one row has no answer.

    `status` is "impossible" where that is proved, "timed_out" where it was not looked into since the row's budget was
    spent, else "not_found". `blockers` are the smallest sets of obstacles whose removal helps, at most five: any
    one of the sets would do, and nothing less than all of it. Rules come before bounds, then the cheapest. `relaxation`
    is the way for the first. Fixed features are in neither unless that was asked for; one that needs none is preferred.
    """

    row: Any
    status: str
    blockers: tuple[tuple[Obstacle, ...], ...]
    relaxation: Relaxation | None
    words: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it stands in JSON."""
        return {
            "row": list(self.row) if isinstance(self.row, tuple) else self.row,
            "status": self.status,
            "blockers": [[o.to_dict() for o in together] for together in self.blockers],
            "relaxation": None if self.relaxation is None else self.relaxation.to_dict(),
            "words": self.words,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        row, relaxation = data["row"], data["relaxation"]
        read = {
            "row": tuple(row) if isinstance(row, list) else row,
            "blockers": tuple(tuple(map(Obstacle.from_dict, together)) for together in data["blockers"]),
            "relaxation": None if relaxation is None else Relaxation.from_dict(relaxation),
        }
        return cls(**_fields(cls, data) | read)


def _fields(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """What a dataclass takes; `to_dict` says more, for readers who have only that."""
    return {field.name: data[field.name] for field in fields(cls) if field.name in data}
