"""A card for each case: what to change, or why nothing helps. Worded once, for the script and for paper."""

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
from ..checks import needed_scores
from ..reasons import Blocked, Status, blocked
from ..wording import (
    CUT_SHORT,
    ChangeTexts,
    amount,
    chance,
    change_texts,
    class_words,
    label_text,
    number,
    scores,
    short,
)
from .spread import Spread, spread_of

if TYPE_CHECKING:
    from ..explanation import Explanation

LONGEST = 240
# Smaller margins are pointed out: the decision is close.
CLOSE = 0.01
WITHOUT = {
    Status.ALREADY: "Nothing needs to change: the model already answers {wanted}.",
    Status.IMPOSSIBLE: "Proved: no permitted change leads to {wanted}.",
    Status.NOT_FOUND: "No option was found. This does not prove that there is none.",
    Status.TIMED_OUT: "No option was found within the search budget. A larger budget may help.",
    Status.UNREADABLE: "The details of this case cannot be read, so there was no search.",
}


@dataclass(frozen=True)
class Line(ChangeTexts):
    """One changed feature as shown; `at` places both values along the bars of its spread."""

    feature: int
    among: str
    at: tuple[float | None, float | None]
    names: tuple[str, str]
    """Captions below the bars of both values."""


@dataclass(frozen=True)
class Answer:
    """One option of a case. `failures` lists the checks that it does not pass."""

    says: str
    failures: tuple[str, ...]
    lines: tuple[Line, ...]
    certificate: Certificate


@dataclass(frozen=True)
class Card:
    """One case; `values` holds the title and present value of every feature."""

    label: str
    status: str
    wanted: str
    values: tuple[tuple[str, str], ...]
    answers: tuple[Answer, ...]
    reason: tuple[str, ...]
    """Why there is no option, or none that passes."""
    blocked: Blocked | None
    """What stands in the way, where known."""
    relaxed: tuple[Line, ...]
    """What would be enough if an obstacle were lifted; not an option."""


class Deck:
    """The cards of an explanation, and the spreads drawn on them."""

    def __init__(self, explanation: Explanation) -> None:
        self.explanation = explanation
        self.features: tuple[Feature, ...] = tuple(explanation.task.schema)
        self._number = {feature.name: i for i, feature in enumerate(self.features)}
        self.spreads: dict[int, Spread] = {}
        """By feature number; only features that appear on a line."""
        self._answers: dict[int, list[int]] = defaultdict(list)
        for i in np.argsort(explanation.rank, kind="stable").tolist():
            self._answers[int(explanation.place[i])].append(i)

    def __len__(self) -> int:
        return len(self.explanation)

    def __iter__(self) -> Iterator[Card]:
        return map(self.card, range(len(self)))

    def card(self, position: int) -> Card:
        """The card of the case at a position."""
        e, why = self.explanation, self.explanation.reasons.get(position)
        status, wanted = str(e.row_status[position]), self._wanted(position)
        relaxed = why.relaxation.changes if why is not None and why.relaxation is not None else ()
        # The outcome of the search in sentences; obstacles are listed separately.
        outcome = WITHOUT.get(Status(status), "").format(wanted=wanted)
        words = why.words if why is not None and not why.blockers else ""
        return Card(
            label=label_text(e.rows.index[position]),
            status=status,
            wanted=wanted,
            values=tuple((short(f.title), column[position]) for f, column in self._texts),
            answers=tuple(map(self._answer, self._answers[position])),
            reason=tuple(filter(None, (outcome, words, self._now(position) if outcome else ""))),
            blocked=None if why is None else _shown(blocked(why, e.task.schema)),
            relaxed=tuple(map(self._line, relaxed)),
        )

    def _now(self, position: int) -> str:
        """The present score, and the one that is needed."""
        e, score = self.explanation, float(self.explanation.score_now[position])
        if np.isnan(score):
            return ""
        if not e.task.classes:
            return f"The output is {number(score)} now; needed: {self._wanted(position)}."
        needed = float(needed_scores(e.task, e.wanted[position : position + 1])[0])
        least = "" if np.isnan(needed) else f"; needed: {chance(needed)}"
        return f"The probability of {self._wanted(position)} is {chance(score)} now{least}."

    def _wanted(self, position: int) -> str:
        return short(class_words(self.explanation.task.schema, self.explanation.wanted[position]))

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
        """A remark on an option that passes by very little."""
        task = self.explanation.task
        if not self.explanation.checks.margin[i] < CLOSE * task.classifier.unit:
            return ""
        line = "over the line" if len(task.classes) <= 2 else "ahead of another class"
        return f", which is just {line}"

    def _line(self, change: Change) -> Line:
        number = self._number[change.feature]
        feature, now, then = self.features[number], change.now, change.then
        if number not in self.spreads:
            self.spreads[number] = spread_of(self.explanation.task, feature.name)
        spread = self.spreads[number]
        at, names = (spread.at(now), spread.at(then)), (spread.named(now), spread.named(then))
        return Line(
            **vars(change_texts(feature, now, then)), feature=number, among=spread.words(now, then), at=at, names=names
        )


def _says(c: Certificate, close: str) -> str:
    if not c.in_domain:
        return "The model was not queried, because a value is outside its permitted range."
    said = number(c.score) if c.is_number else short(class_words(c.schema, c.predicted))
    what = "" if c.is_number else f"probability of {short(class_words(c.schema, c.wanted))}: "
    if c.valid:
        return f"The model then answers {said}{close} ({what}{scores(c)})."
    return f"The model then still answers {said} ({what}{scores(c)})."


def _shown(said: Blocked | None) -> Blocked | None:
    """Shorten what is too long to read, and set the relaxation apart from an option."""
    if said is None:
        return None
    unless = said.unless and f"Not an option now. {short(said.unless, LONGEST)}"
    things = tuple(short(thing, LONGEST) for thing in said.things)
    return replace(said, title=short(said.title, LONGEST), things=things, unless=unless)


def _failures(c: Certificate) -> Iterator[str]:
    """Every check that the option does not pass."""
    if not c.in_domain:
        yield "A value is outside its permitted range."
    elif not c.valid:
        yield f"The model does not answer {short(class_words(c.schema, c.wanted))}."
    broken = sum(not rule.kept for rule in c.rules)
    if not c.feasible:
        yield f"It breaks {counted(broken, 'rule')}."
    if not c.immutables_kept:
        yield "It changes something that cannot be changed."
