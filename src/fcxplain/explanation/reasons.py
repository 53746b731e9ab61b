"""Why a row has no counterfactual, as data: what stands in the way, and the cheapest way out if that gave way.

`search.why_not` finds these out; explanations carry them, and so do files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Literal, Self

from ..schema import Schema
from .certificate import Change
from .wording import move_line


class Status(StrEnum):
    """How a row fared; equal to its text, so that `status == "verified"` works."""

    VERIFIED = "verified"
    """It has an answer, and everything checked holds."""
    BEST_EFFORT = "best_effort"
    """It has an answer of which something does not hold; the certificate says what."""
    NOT_FOUND = "not_found"
    """Nothing that passes was found, which does not prove that there is nothing."""
    IMPOSSIBLE = "impossible"
    """Proved: no legal row that keeps the rules gets the class wanted."""
    TIMED_OUT = "timed_out"
    """Nothing that passes was found before the row's budget was spent."""
    ALREADY = "already"
    """The row has the class wanted as it is."""
    UNREADABLE = "unreadable"
    """The row does not fit the schema, or the model refuses it as it is; `why_not` says all that is wrong with it."""


STATUSES = tuple(map(str, Status))
ANSWERED = (str(Status.VERIFIED), str(Status.BEST_EFFORT))

Kind = Literal["rule", "freeze", "bound"]
Side = Literal["low", "high"]


@dataclass(frozen=True)
class Obstacle:
    """A rule, a feature that the schema or a rule (`f' == f`) holds fixed, or a bound of a feature's domain.

    `name` is the rule's text or the feature's name. Where a single limit is meant (a bound, or a rule such as
    `hours' <= 60`), `feature`, `side` and `limit` say which. What is fixed is no matter of advice: `can_give_way`
    is False. `takes` says in words what it would take: what the features it speaks of would have to become.
    """

    kind: Kind
    name: str
    words: str
    feature: str = ""
    side: Side | None = None
    limit: float | None = None
    takes: str = field(default="", compare=False)

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
    """What a row could do if some obstacles were gone, verified in everything else; the cheapest that was found.

    Attributes
    ----------
    gone : tuple of Obstacle
        What would have to give way.
    counterfactual : dict
        The values of all features.
    changes : tuple of Change
        The features that differ.
    cost, probability : float
        As in a certificate.
    """

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

    Attributes
    ----------
    row : label
        The row's label.
    status : str
        "impossible" where that is proved, "timed_out" where it was not looked into since the row's budget was spent,
        "unreadable" where the row itself is at fault, else "not_found".
    blockers : tuple of tuples of Obstacle
        The smallest sets of obstacles whose removal helps, at most five: any one of the sets would do, and nothing
        less than all of it. Rules come before bounds, then the cheapest.
    relaxation : Relaxation or None
        The way for the first set. Fixed features are in neither unless that was asked for; one that needs none is
        preferred.
    words : str
        The same as a sentence.
    """

    row: Any
    status: str
    blockers: tuple[tuple[Obstacle, ...], ...]
    relaxation: Relaxation | None
    words: str

    @classmethod
    def unreadable(cls, row: Any, *reasons: str) -> Self:
        """Of a row that is itself at fault.

        Parameters
        ----------
        row : label
            The row's label.
        *reasons : str
            Everything that is wrong with it.

        Returns
        -------
        WhyNot
        """
        return cls(row, str(Status.UNREADABLE), (), None, " ".join(reasons))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it stands in JSON.

        Returns
        -------
        dict
            What JSON can hold.
        """
        return {
            "row": list(self.row) if isinstance(self.row, tuple) else self.row,
            "status": self.status,
            "blockers": [[o.to_dict() for o in together] for together in self.blockers],
            "relaxation": None if self.relaxation is None else self.relaxation.to_dict(),
            "words": self.words,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Parameters
        ----------
        data : mapping
            Plain data.

        Returns
        -------
        WhyNot
        """
        row, relaxation = data["row"], data["relaxation"]
        read = {
            "row": tuple(row) if isinstance(row, list) else row,
            "blockers": tuple(tuple(map(Obstacle.from_dict, together)) for together in data["blockers"]),
            "relaxation": None if relaxation is None else Relaxation.from_dict(relaxation),
        }
        return cls(**_fields(cls, data) | read)


def _fields(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """What a dataclass takes; `to_dict` says more, for readers who have only that."""
    return {f.name: data[f.name] for f in fields(cls) if f.name in data}


Sets = tuple[tuple[Obstacle, ...], ...]
# What as many obstacles together are called.
TOGETHER = {1: "these", 2: "these pairs"}


@dataclass(frozen=True)
class Blocked:
    """Things in the way. `either` says that any one of them would do if it gave way; else all would have to."""

    title: str
    things: tuple[str, ...]
    either: bool = False
    unless: str = ""
    """What the way hangs on that was found; empty without any."""
    remark: str = ""
    """Why that is no advice, where it is none."""

    def sentences(self, way: str) -> str:
        """All of it in a line; `way` is what would change."""
        several = [f"({number}) {thing}" for number, thing in enumerate(self.things, start=1)]
        things = f"{self.title} {'; '.join(several if len(several) > 1 else self.things)}."
        return " ".join(part for part in (things, self.unless and f"{self.unless} {way}.", self.remark) if part)


def blocked(why: WhyNot, schema: Schema) -> Blocked | None:
    """What a reason says, in parts; None where it names nothing that stands in the way."""
    if not why.blockers:
        return None
    sets, way, proved = why.blockers, why.relaxation, why.status == Status.IMPOSSIBLE
    shared = tuple(o for o in sets[0] if len(sets) > 1 and all(o in together for together in sets))
    return Blocked(
        title=_title(sets, shared, proved),
        things=_things(sets, shared),
        either=len(sets) > 1,
        unless="" if way is None else _unless(way.gone, sets),
        remark="" if way is None else _remark(way, schema),
    )


def moves(way: Relaxation, schema: Schema) -> str:
    """What would change, in a line."""
    return "; ".join(move_line(schema[c.feature], c.now, c.then) for c in way.changes) or "nothing changes"


def _title(sets: Sets, shared: tuple[Obstacle, ...], proved: bool) -> str:
    if len(sets) == 1:
        both = {1: "", 2: " both of these"}.get(len(sets[0]), " all of these")
        return f"{'Blocked by' if proved else 'Would work without'}{both}:"
    beside = "".join(f"{_quoted(o)} and " for o in shared)
    without = f"work without {beside}any one of {TOGETHER.get(len(sets[0]) - len(shared), 'these sets')}:"
    return f"Blocked, but would {without}" if proved else f"Would {without}"


def _things(sets: Sets, shared: tuple[Obstacle, ...]) -> tuple[str, ...]:
    if len(sets) == 1:
        # What these take is what the way out says.
        return tuple(obstacle.words for obstacle in sets[0])
    return tuple(" and ".join(_with_takes(o) for o in together if o not in shared) for together in sets)


def _with_takes(obstacle: Obstacle) -> str:
    return f"{obstacle.words} (it would take {obstacle.takes})" if obstacle.takes else obstacle.words


def _unless(gone: tuple[Obstacle, ...], sets: Sets) -> str:
    if len(sets) > 1 and gone == sets[0]:
        return "In the first case, the way would be:"
    if gone == sets[0]:
        without = {1: "that", 2: "both"}.get(len(gone), "all of them")
    else:
        without = " and ".join(map(_quoted, gone))
    return f"Without {without}, the way would be:"


def _remark(way: Relaxation, schema: Schema) -> str:
    if way.is_advice:
        return ""
    fixed = " and ".join(schema[obstacle.name].title for obstacle in way.gone if not obstacle.can_give_way)
    return f"That is not advice, since {fixed} cannot be changed; it only shows what the model's answer hangs on."


def _quoted(obstacle: Obstacle) -> str:
    return f"“{obstacle.words}”"
