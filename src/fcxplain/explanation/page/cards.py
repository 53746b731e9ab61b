"""A card for each case: what to change, or why nothing helps, worded once, for the script and for paper; and the
spread of a feature over the training rows: bars to draw, and the place of a value among them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...schema import Feature
from ...schema.definition import is_missing
from ...task import Task
from ...text import counted
from ..certificate import Certificate, Change
from ..checks import needed_scores
from ..reasons import Blocked, Status, blocked
from ..wording import (
    CUT_SHORT,
    ChangeTexts,
    amount,
    as_number,
    chance,
    change_texts,
    class_words,
    label_text,
    number,
    percent,
    scores,
    short,
)

if TYPE_CHECKING:
    from ..explanation import Explanation

BARS = 24
HEIGHT = 100
# This share at either end goes into the last bar, so that a few huge values do not squeeze all others into one.
TAIL = 0.005
# Longest caption below a bar, in letters.
LABEL = 24


@dataclass(frozen=True, eq=False)
class NumberSpread:
    """A number: every bar spans the same whole number of steps, so that heights can be compared."""

    feature: Feature
    values: NDArray[np.float64]
    """In ascending order."""

    kind = "number"

    def named(self, value: Any) -> str:
        """The caption below a value's bar: none, since the ends of the axis are labelled."""
        return ""

    @property
    def places(self) -> dict[str, float]:
        """Where the bars begin and end, for callers that compute `at` without a spread."""
        start, wide, count = self._range
        return {"from": start, "to": start + wide * count}

    @cached_property
    def _range(self) -> tuple[float, float, int]:
        """Start of the first bar, width, and number of bars."""
        step = float(self.feature.step or 1)
        low, high = np.quantile(self.values, [TAIL, 1 - TAIL], method="nearest")
        wide = step * max(1, int(np.ceil(((high - low) / step + 1) / BARS)))
        return float(low) - step / 2, wide, max(1, int(np.ceil((high - low + step) / wide - 1e-9)))

    @cached_property
    def bars(self) -> list[int]:
        """Heights from 0 to 100."""
        start, wide, count = self._range
        inner = start + wide * np.arange(1, count)
        return _heights(np.bincount(np.searchsorted(inner, self.values, side="right"), minlength=count))

    @property
    def ends(self) -> tuple[str, str]:
        """The lowest and highest value, with ≤ or ≥ where the last bar holds values beyond it."""
        start, wide, count = self._range
        half = float(self.feature.step or 1) / 2
        low, high = max(start + half, self.values[0]), min(start + wide * count - half, self.values[-1])
        first, last = amount(self.feature, float(low)), amount(self.feature, float(high))
        return f"≤ {first}" if self.values[0] < low else first, f"≥ {last}" if self.values[-1] > high else last

    def at(self, value: Any) -> float | None:
        """The position of a value along the bars, from 0 to 1."""
        if is_missing(value):
            return None
        start, wide, count = self._range
        return round(float(np.clip((as_number(self.feature, value) - start) / (wide * count), 0, 1)), 3)

    def words(self, now: Any, then: Any) -> str:
        """The shares of training rows with a lower value, now and then."""
        if is_missing(now) or is_missing(then):
            return ""
        return f"Higher than {self._below(now)} of past cases now, {self._below(then)} then"

    def _below(self, value: Any) -> str:
        below = np.searchsorted(self.values, as_number(self.feature, value), side="left")
        return percent(float(below) / len(self.values))


@dataclass(frozen=True, eq=False)
class LevelSpread:
    """A category: one bar per level, by rank or frequency; if there are too many, the rarest share the last bar."""

    feature: Feature
    values: NDArray[np.int64]

    @property
    def kind(self) -> str:
        """ "order" for ordered levels, else "levels"; a bar shared by several levels cannot be part of an order."""
        return "order" if self.feature.kind == "ordinal" and len(self._counts) <= BARS else "levels"

    def named(self, value: Any) -> str:
        """The level; "and others" where it shares its bar."""
        code = self._code(value)
        if code is None:
            return ""
        shared = len(self._counts) > BARS and self._bar_of[code] == BARS - 1
        title = self.feature.level_title(self.feature.levels[code])
        return f"{short(title, LABEL - 12)} and others" if shared else short(title, LABEL)

    @property
    def places(self) -> dict[str, float]:
        """The middle of each level's bar, by the level as text."""
        return {str(level): self.at(level) or 0.0 for level in self.feature.levels}

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return np.bincount(self.values[self.values >= 0], minlength=len(self.feature.levels))

    @cached_property
    def _bar_of(self) -> NDArray[np.int64]:
        """The bar of each level."""
        # The rarest levels share the last bar.
        places, order = np.full(len(self._counts), BARS - 1), np.asarray(self._order)
        own = order if len(order) <= BARS else np.argsort(-self._counts, kind="stable")[: BARS - 1]
        places[own] = np.arange(len(own))
        return places

    @cached_property
    def _order(self) -> list[int]:
        return self.feature.order_of_levels(self._counts)

    @cached_property
    def bars(self) -> list[int]:
        """Heights from 0 to 100."""
        return _heights(np.bincount(self._bar_of, weights=self._counts).astype(np.int64))

    @property
    def ends(self) -> tuple[str, str]:
        """The first and last level of an order; unordered levels have no ends."""
        first, last = (short(self.feature.level_title(self.feature.levels[self._order[i]]), LABEL) for i in (0, -1))
        return (first, last) if self.kind == "order" else ("", "")

    def at(self, value: Any) -> float | None:
        """The middle of the level's bar."""
        code = self._code(value)
        return None if code is None else round((int(self._bar_of[code]) + 0.5) / len(self.bars), 3)

    def words(self, now: Any, then: Any) -> str:
        """The shares of training rows with these levels."""
        return f"Shared by {self._share(now)} of past cases now, {self._share(then)} then"

    def _share(self, value: Any) -> str:
        code = self._code(value)
        return percent(0.0 if code is None else float(self._counts[code] / max(1, self._counts.sum())))

    def _code(self, value: Any) -> int | None:
        if is_missing(value):
            return None
        return self.feature.code_of_level.get(value, self.feature.level_of_text.get(str(value)))


def _heights(counts: NDArray[np.int64]) -> list[int]:
    """Bar heights, rounded up so that no bar with values is invisible."""
    return [int(h) for h in np.ceil(counts * (HEIGHT / max(1, int(counts.max(initial=0)))))]


Spread = NumberSpread | LevelSpread


def spread_of(task: Task, name: str) -> Spread:
    """The spread of one feature over the task's training rows."""
    feature, values = task.schema[name], task.schema.natural(task.train, [name])[name]
    if feature.is_category:
        return LevelSpread(feature, values)
    return NumberSpread(feature, np.sort(values[~np.isnan(values)]))


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
        # A remark on an option that passes by very little.
        task = self.explanation.task
        is_close = self.explanation.checks.margin[i] < CLOSE * task.classifier.unit
        line = "over the line" if len(task.classes) <= 2 else "ahead of another class"
        says = _says(certificate, f", which is just {line}" if is_close else "")
        says += f" {CUT_SHORT.capitalize()}." if certificate.cut_short else ""
        says += "".join(f" Note: {short(said, LONGEST)}." for said in certificate.noted)
        return Answer(says, tuple(_failures(certificate)), lines, certificate)

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
