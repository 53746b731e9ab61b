"""A card for each row: what to change, or why there is no way. Worded here, once, for the script and for paper."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...schema import Feature
from ...text import counted
from ..certificate import Certificate, Change
from ..reasons import Blocked, Status, WhyNot, blocked
from ..wording import CUT_SHORT, amount, difference, label_text, short
from .spread import Spread, spread_of

if TYPE_CHECKING:
    from ..explanation import Explanation

LONGEST = 240
# A smaller margin than this is mentioned: the model might as well have said no.
CLOSE = 0.01
WITHOUT = {
    Status.ALREADY: "Nothing has to change: the model answers {wanted} for this row as it is.",
    Status.IMPOSSIBLE: "It is proved that no legal row which keeps the rules gets {wanted}.",
    Status.NOT_FOUND: "No answer was found. That does not prove that there is none.",
    Status.TIMED_OUT: "The budget of this row was spent before an answer was found. A larger one may do.",
    Status.UNREADABLE: "This row cannot be read, so that nothing was looked for.",
}


@dataclass(frozen=True)
class Line:
    """One feature that differs, as it is shown; `at` says where both values stand along the bars of its spread."""

    feature: int
    title: str
    now: str
    then: str
    difference: str
    among: str
    at: tuple[float | None, float | None]
    names: tuple[str, str]
    """What stands below the bars of both values."""


@dataclass(frozen=True)
class Answer:
    """One way for one row. `failures` says what does not hold of it."""

    says: str
    failures: tuple[str, ...]
    lines: tuple[Line, ...]
    certificate: Certificate


@dataclass(frozen=True)
class Card:
    """One row; `values` are all its features as they are, titles first."""

    label: str
    status: str
    wanted: str
    values: tuple[tuple[str, str], ...]
    answers: tuple[Answer, ...]
    reason: tuple[str, ...]
    """Why there is no answer, or none that passes."""
    blocked: Blocked | None
    """What stands in the way, where that is known."""
    relaxed: tuple[Line, ...]
    """What would do if something gave way; no answer."""


class Deck:
    """The cards of an explanation, and the spreads that they are drawn on."""

    def __init__(self, explanation: Explanation) -> None:
        self.explanation = explanation
        self.features: tuple[Feature, ...] = tuple(explanation.task.schema)
        self._number = {feature.name: i for i, feature in enumerate(self.features)}
        self.spreads: dict[int, Spread] = {}
        """By the number of the feature; only of those that some line is about."""
        self._answers: dict[int, list[int]] = defaultdict(list)
        for i in np.argsort(explanation.rank, kind="stable").tolist():
            self._answers[int(explanation.place[i])].append(i)

    def __len__(self) -> int:
        return len(self.explanation)

    def __iter__(self) -> Iterator[Card]:
        return map(self.card, range(len(self)))

    def card(self, position: int) -> Card:
        """The card of one row."""
        e = self.explanation
        status, wanted = str(e.row_status[position]), short(e.wanted[position])
        answers = tuple(map(self._answer, self._answers[position]))
        why = e.reasons.get(position)
        relaxed = why.relaxation.changes if why is not None and why.relaxation is not None else ()
        return Card(
            label=label_text(e.rows.index[position]),
            status=status,
            wanted=wanted,
            values=tuple((short(f.title), column[position]) for f, column in self._texts),
            answers=answers,
            reason=_reason(status, wanted, why),
            blocked=None if why is None else _shown(blocked(why, e.task.schema)),
            relaxed=tuple(map(self._line, relaxed)),
        )

    @cached_property
    def _texts(self) -> list[tuple[Feature, list[str]]]:
        return [(f, [amount(f, v) for v in self.explanation.rows[f.name].tolist()]) for f in self.features]

    def _answer(self, i: int) -> Answer:
        certificate = self.explanation.certificates[i]
        lines = tuple(map(self._line, certificate.changes))
        says = _says(certificate, self._close(i)) + (f" {CUT_SHORT.capitalize()}." if certificate.cut_short else "")
        says += "".join(f" Note: {short(said, LONGEST)}." for said in certificate.noted)
        return Answer(says, tuple(_failures(certificate)), lines, certificate)

    def _close(self, i: int) -> str:
        """What is said of an answer that is one by very little."""
        if not self.explanation.checks.margin[i] < CLOSE:
            return ""
        line = "over the line" if len(self.explanation.task.classes) == 2 else "ahead of another class"
        return f", which is just {line}"

    def _line(self, change: Change) -> Line:
        number = self._number[change.feature]
        feature, now, then = self.features[number], change.now, change.then
        if number not in self.spreads:
            self.spreads[number] = spread_of(self.explanation.task, feature.name)
        spread = self.spreads[number]
        return Line(
            feature=number,
            title=short(feature.title),
            now=amount(feature, now),
            then=amount(feature, then),
            difference=difference(feature, now, then),
            among=spread.words(now, then),
            at=(spread.at(now), spread.at(then)),
            names=(spread.named(now), spread.named(then)),
        )


def _says(c: Certificate, close: str) -> str:
    if not c.in_domain:
        return "The model was not asked, since a value is outside its domain."
    chance = "" if np.isnan(c.probability) else f", with probability {_chance(c.probability)}"
    if c.valid:
        return f"The model then answers {short(c.predicted)}{chance}{close}."
    of_it = chance and f"; the probability of {short(c.wanted)} is {_chance(c.probability)}"
    return f"The model then still answers {short(c.predicted)}{of_it}."


def _shown(said: Blocked | None) -> Blocked | None:
    """Cut where it is too long to be read, and set apart from an answer."""
    if said is None:
        return None
    unless = said.unless and f"No answer. {short(said.unless, LONGEST)}"
    things = tuple(short(thing, LONGEST) for thing in said.things)
    return replace(said, title=short(said.title, LONGEST), things=things, unless=unless)


def _chance(probability: float) -> str:
    """What is not certain is not rounded to it."""
    return f"{min(max(probability, 0.001), 0.999):.3f}" if 0 < probability < 1 else f"{probability:g}"


def _failures(c: Certificate) -> Iterator[str]:
    """Every check that the answer does not pass."""
    if not c.in_domain:
        yield "A value is outside what its feature may be."
    elif not c.valid:
        yield f"The model does not answer {short(c.wanted)}."
    broken = sum(not rule.kept for rule in c.rules)
    if not c.feasible:
        yield f"It breaks {counted(broken, 'rule')}."
    if not c.immutables_kept:
        yield "It changes what cannot be changed."


def _reason(status: str, wanted: str, why: WhyNot | None) -> tuple[str, ...]:
    """What came of the row; of what stands in the way, only what is no list of things."""
    sentences = [WITHOUT.get(Status(status), "").format(wanted=wanted)]
    sentences += [why.words] if why is not None and not why.blockers else []
    return tuple(filter(None, sentences))
