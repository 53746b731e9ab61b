"""Why a row has no counterfactual, as data: the obstacles, and the cheapest relaxation that would help.

`search.why_not` finds them; explanations and files carry them.
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
    """The result for a row; equal to its text, so that `status == "verified"` works.

    Examples
    --------
    >>> from fcxplain import Status
    >>> Status.VERIFIED == "verified"
    True
    >>> rows[answer.status == Status.IMPOSSIBLE]  # doctest: +SKIP
    """

    VERIFIED = "verified"
    """It has an answer that passes every check."""
    BEST_EFFORT = "best_effort"
    """It has an answer that fails a check; the certificate says which."""
    NOT_FOUND = "not_found"
    """No answer that passes was found; this does not prove that there is none."""
    IMPOSSIBLE = "impossible"
    """Proved: no legal row that keeps the rules gets the target class."""
    TIMED_OUT = "timed_out"
    """No answer that passes was found within the row's budget."""
    ALREADY = "already"
    """The row already has the target class."""
    UNREADABLE = "unreadable"
    """The row does not fit the schema, or the model rejects it; `why_not` lists every fault."""


STATUSES = tuple(map(str, Status))
ANSWERED = (str(Status.VERIFIED), str(Status.BEST_EFFORT))

Kind = Literal["rule", "freeze", "bound"]
Side = Literal["low", "high"]


@dataclass(frozen=True)
class Obstacle:
    """A rule, a feature that the schema or a rule (`f' == f`) freezes, or a bound of a feature's domain.

    `name` is the rule's text or the feature's name. For a single limit (a bound, or a rule such as
    `hours' <= 60`), `feature`, `side` and `limit` say which. Frozen features are never advice: their `can_give_way`
    is False. `takes` says in words what it would take: the values that its features would need.
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
        """Whether it could sensibly be relaxed."""
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
    """The cheapest counterfactual found without some obstacles (`gone`), verified in everything else."""

    gone: tuple[Obstacle, ...]
    counterfactual: dict[str, Any]
    changes: tuple[Change, ...]
    cost: float
    probability: float

    @property
    def is_advice(self) -> bool:
        """Whether it changes nothing that cannot be changed."""
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
        "impossible" if that is proved, "timed_out" if the row's budget was spent before the reasons were searched,
        "unreadable" if the row itself is at fault, else "not_found".
    blockers : tuple of tuples of Obstacle
        The smallest sets of obstacles whose removal helps, at most five. Lifting any one whole set is enough. Rules
        come before bounds, then the cheapest.
    relaxation : Relaxation or None
        The changes that would be enough without the first set. Frozen features appear only on request; a relaxation
        without them is preferred.
    words : str
        The same in words.

    Examples
    --------
    >>> answer = fcx.explain(rows, why_not=True)  # doctest: +SKIP
    >>> for reason in answer.reasons.values():  # doctest: +SKIP
    ...     print(reason.row, reason.status, reason.words)
    """

    row: Any
    status: str
    blockers: tuple[tuple[Obstacle, ...], ...]
    relaxation: Relaxation | None
    words: str

    @classmethod
    def unreadable(cls, row: Any, *reasons: str) -> Self:
        """The reason of a row that is itself at fault.

        Parameters
        ----------
        row : label
            The row's label.
        *reasons : str
            Every fault of the row.

        Returns
        -------
        WhyNot
        """
        return cls(row, str(Status.UNREADABLE), (), None, " ".join(reasons))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON.

        Returns
        -------
        dict
            What JSON can hold.
        """
        return vars(self) | {
            "row": list(self.row) if isinstance(self.row, tuple) else self.row,
            "blockers": [[o.to_dict() for o in together] for together in self.blockers],
            "relaxation": None if self.relaxation is None else self.relaxation.to_dict(),
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
    """The fields of a dataclass; `to_dict` holds more, for readers without the class."""
    return {f.name: data[f.name] for f in fields(cls) if f.name in data}


Sets = tuple[tuple[Obstacle, ...], ...]
# Words for sets of this many obstacles.
TOGETHER = {1: "these", 2: "these pairs"}
NOT_ADVICE = "It only shows what the model's answer depends on."


@dataclass(frozen=True)
class Blocked:
    """Obstacles in words. `either`: lifting any one of them is enough; otherwise all would have to be lifted."""

    title: str
    things: tuple[str, ...]
    either: bool = False
    unless: str = ""
    """What the relaxation depends on; empty without one."""
    remark: str = ""
    """Why the relaxation is not advice, if it is not."""

    def sentences(self, way: str) -> str:
        """All of it in one line; `way` is what would change."""
        several = [f"({number}) {thing}" for number, thing in enumerate(self.things, start=1)]
        things = f"{self.title} {'; '.join(several if len(several) > 1 else self.things)}."
        return " ".join(part for part in (things, self.unless and f"{self.unless} {way}.", self.remark) if part)


def blocked(why: WhyNot, schema: Schema) -> Blocked | None:
    """A reason in parts; None if it names no obstacle."""
    if not why.blockers:
        return None
    sets, way, proved = why.blockers, why.relaxation, why.status == Status.IMPOSSIBLE
    shared = tuple(o for o in sets[0] if len(sets) > 1 and all(o in together for together in sets))
    # The relaxation says what the obstacles of a single set would take.
    things = [o.words for o in sets[0]]
    if len(sets) > 1:
        things = [" and ".join(_with_takes(o) for o in together if o not in shared) for together in sets]
    unless = "" if way is None else _unless(way.gone, sets)
    fixed = [] if way is None else [schema[o.name].title for o in way.gone if not o.can_give_way]
    remark = f"This is not advice, since {' and '.join(fixed)} cannot be changed. {NOT_ADVICE}" if fixed else ""
    return Blocked(_title(sets, shared, proved), tuple(things), len(sets) > 1, unless, remark)


def moves(way: Relaxation, schema: Schema) -> str:
    """What would change, in one line."""
    return "; ".join(move_line(schema[c.feature], c.now, c.then) for c in way.changes) or "nothing changes"


def _title(sets: Sets, shared: tuple[Obstacle, ...], proved: bool) -> str:
    if len(sets) == 1:
        both = {1: "", 2: " both of these"}.get(len(sets[0]), " all of these")
        return f"{'Blocked by' if proved else 'Would work without'}{both}:"
    beside = "".join(f"{_quoted(o)} and " for o in shared)
    without = f"work without {beside}any one of {TOGETHER.get(len(sets[0]) - len(shared), 'these sets')}:"
    return f"Blocked, but would {without}" if proved else f"Would {without}"


def _with_takes(obstacle: Obstacle) -> str:
    return f"{obstacle.words} (it would take {obstacle.takes})" if obstacle.takes else obstacle.words


def _unless(gone: tuple[Obstacle, ...], sets: Sets) -> str:
    if gone != sets[0]:
        without = " and ".join(map(_quoted, gone))
    elif len(sets) > 1:
        without = "the first"
    else:
        without = {1: "that", 2: "both"}.get(len(gone), "all of them")
    return f"Without {without}, these changes would be enough:"


def _quoted(obstacle: Obstacle) -> str:
    return f"“{obstacle.words}”"
