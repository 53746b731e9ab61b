"""A card for each row: what to change, or why there is no way. Worded here, once, for the script and for paper."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...schema import Feature
from ..answer import Explanation, Status
from ..certificate import Certificate, Change
from ..reasons import WhyNot
from .spread import Spread, spread_of
from .wording import amount, counted, difference, label_text, short

WITHOUT = {
    Status.ALREADY: "Nothing has to change: the model answers {wanted} for this row as it is.",
    Status.IMPOSSIBLE: "It is proved that no legal row which keeps the rules gets {wanted}.",
    Status.NOT_FOUND: "No answer was found. That does not prove that there is none.",
    Status.TIMED_OUT: "The time for this row ran out before an answer was found.",
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
        answers = tuple(self._answer(e.certificates[i]) for i in self._answers[position])
        why = e.reasons.get(position)
        relaxed = why.relaxation.changes if why is not None and why.relaxation is not None else ()
        return Card(
            label=label_text(e.rows.index[position]),
            status=status,
            wanted=wanted,
            values=tuple((short(f.title), column[position]) for f, column in self._texts),
            answers=answers,
            reason=_reason(status, wanted, why),
            relaxed=tuple(map(self._line, relaxed)),
        )

    @cached_property
    def _texts(self) -> list[tuple[Feature, list[str]]]:
        return [(f, [amount(f, v) for v in self.explanation.rows[f.name].tolist()]) for f in self.features]

    def _answer(self, certificate: Certificate) -> Answer:
        lines = tuple(map(self._line, certificate.changes))
        return Answer(_says(certificate), tuple(_failures(certificate)), lines, certificate)

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
            among=spread.told(now, then),
            at=(spread.at(now), spread.at(then)),
        )


def _says(c: Certificate) -> str:
    if not c.in_domain:
        return "The model was not asked, since a value is outside its domain."
    chance = "" if np.isnan(c.probability) else f", with probability {_chance(c.probability)}"
    if c.valid:
        return f"The model then answers {short(c.predicted)}{chance}."
    of_it = chance and f"; the probability of {short(c.wanted)} is {_chance(c.probability)}"
    return f"The model then still answers {short(c.predicted)}{of_it}."


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
    told = WITHOUT.get(Status(status), "").format(wanted=wanted)
    return tuple(said for said in (told, "" if why is None else why.words) if said)
