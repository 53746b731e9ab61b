"""What stands in the way of a row, in parts: a card lists them, and a sentence joins them.

Of a row that was proved to have no answer it is said what blocks it; of others only what it would work without, since
for all that is known they may have an answer as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..schema import Schema
from .amounts import move_line
from .answer import Status
from .reasons import Obstacle, Relaxation, WhyNot

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
        told = f"{self.title} {'; '.join(several if len(several) > 1 else self.things)}."
        return " ".join(part for part in (told, self.unless and f"{self.unless} {way}.", self.remark) if part)


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
        return tuple(obstacle.words for obstacle in sets[0])
    return tuple(" and ".join(o.words for o in together if o not in shared) for together in sets)


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
    return f"That is no advice, since {fixed} cannot be changed; it only shows what the model's answer hangs on."


def _quoted(obstacle: Obstacle) -> str:
    return f"“{obstacle.words}”"
