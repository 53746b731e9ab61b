"""A letter for one person: the content of the card in plain words, on one printable page without scripts.

The texts are in `languages/`, one file per language; feature titles and labels come from the schema.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DataError, Fault, did_you_mean, some
from ...outcome import Outcome
from ...rules import in_words
from ...schema import Feature, Schema
from ...schema.dates import day_of
from ...schema.definition import is_missing
from ...schema.words import is_inborn, is_personal
from ..certificate import Change
from ..checks import needed_scores
from ..reasons import Obstacle, Relaxation, Status
from ..wording import (
    LONE,
    ChangeTexts,
    amount,
    distance,
    label_text,
    number,
    plain_amount,
    short,
    with_unit,
)
from .page import part, templates

if TYPE_CHECKING:
    from ..explanation import Explanation

ENGLISH = "en"
ENDING = ".toml"
# Different scores must not look the same: the most digits shown.
DIGITS = 6


@dataclass(frozen=True)
class Words:
    """The texts of one language, by section and name."""

    language: str
    texts: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.texts[name]
        except KeyError:
            raise AttributeError(name) from None

    def number(self, text: str) -> str:
        """A number in the notation of the language, from the English one."""
        swapped = {",": self.texts["thousands"], ".": self.texts["decimal"]}
        return "".join(swapped.get(sign, sign) for sign in text)

    def day(self, day: date) -> str:
        """A date in words."""
        return str(self.texts["date"]).format(day=day.day, month=self.texts["months"][day.month - 1], year=day.year)

    def value(self, feature: Feature, value: Any) -> str:
        """A value of a feature."""
        if is_missing(value):
            return str(self.texts["missing"])
        if feature.kind == "date":
            return self.day(np.datetime64(round(day_of(value)), "D").astype(date))
        if feature.is_category:
            return amount(feature, value)
        return with_unit(self.number(plain_amount(feature, value, unit=False)), feature.unit)

    def percent(self, share: float, digits: int) -> str:
        """A probability."""
        return str(self.texts["percent"]).format(number=self.number(f"{100 * share:.{digits}f}"))


def languages() -> tuple[str, ...]:
    """Languages that letters can be written in."""
    found = files(__package__).joinpath("languages").iterdir()
    return tuple(sorted(f.name.removesuffix(ENDING) for f in found if f.name.endswith(ENDING)))


@cache
def words_in(language: str) -> Words:
    """The texts of a language, by its name or the path of a file like those in `languages/`."""
    if language in languages():
        text = files(__package__).joinpath("languages", language + ENDING).read_text(encoding="utf-8")
        return Words(language, tomllib.loads(text))
    if not language.endswith(ENDING):
        known = f"{did_you_mean(language, languages())} There are {some(languages())}; or give a {ENDING} file."
        raise DataError("", [Fault(f"language {language!r}", "is not known", known.strip())])
    try:
        own = tomllib.loads(Path(language).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError("", [Fault(f"language {language!r}", f"cannot be read ({error})")]) from error
    absent = [name for name in _names(words_in(ENGLISH).texts) if name not in _names(own)]
    if absent:
        raise DataError("", [Fault(f"language {language!r}", f"lacks {some(absent)}", "Add them, as in en.toml.")])
    return Words(Path(language).stem, own)


def _names(texts: Mapping[str, Any], before: str = "") -> list[str]:
    nested = [(f"{before}{k}", v) for k, v in texts.items()]
    return [n for k, v in nested for n in (_names(v, f"{k}.") if isinstance(v, Mapping) else [k])]


def letter_of(answer: Explanation, position: int, language: str = ENGLISH) -> str:
    """The letter for the row at a position, as HTML."""
    words, today = words_in(language), date.today()
    letter = _Writer(answer, position, words).content(today)
    page = templates().get_template("letter.html")
    text = page.render(letter=letter, words=words, today=today.isoformat(), css=part("letter.css"))
    return LONE.sub("\ufffd", text)


class _Writer:
    """Write the letter for one row of an explanation."""

    def __init__(self, answer: Explanation, position: int, words: Words) -> None:
        self.e, self.at, self.words = answer, position, words
        self.schema: Schema = answer.task.schema
        self.status = Status(str(answer.row_status[position]))
        self.wanted = words.quoted.format(text=self._outcome(answer.wanted[position]))
        self.now = float(answer.score_now[position])
        self.needed = float(needed_scores(answer.task, answer.wanted[[position]])[0])

    def content(self, today: date) -> dict[str, Any]:
        """What the template shows, in reading order."""
        read = self.status != Status.UNREADABLE
        ways, takes = self._ways(), self._takes()
        # The columns of the rows are the features, in order.
        values = list(zip(self.schema, self.e.rows.iloc[self.at].tolist(), strict=True))
        unread = [f.title for f, value in values if is_missing(value) and f.missing in (None, "never")]
        frozen = self.e.task.frozen
        return {
            "reference": label_text(self.e.rows.index[self.at]),
            "date": self.words.day(today),
            "intro": self._say("intro"),
            "facts": self._facts() if read else (),
            "lead": self._lead(len(ways)),
            "ways": ways,
            "checked": self._say("ways", "checked"),
            "unread": () if read else unread,
            "takes": None if takes is None else self._way(takes.changes, takes.probability),
            "if_gone": "" if takes is None else self._say("takes", "first" if len(takes.gone) == 1 else "several"),
            "gone": () if takes is None else tuple(map(self._obstacle, takes.gone)),
            "meaning": self._say("score", "meaning") if read and self.e.task.classes else "",
            "details": [(short(f.title), self.words.value(f, value), f.name in frozen) for f, value in values],
        }

    def _say(self, *path: str, **more: Any) -> str:
        text: Any = self.words.texts
        for name in path:
            text = text[name]
        return str(text).format(wanted=self.wanted, **more)

    def _outcome(self, wanted: Any) -> str:
        """The target in words; the bounds of a range."""
        if not isinstance(wanted, Outcome) or wanted.classes:
            return short(self.schema.class_title(wanted))
        low, high = (self.words.number(number(bound)) for bound in (wanted.low, wanted.high))
        side = "at_most" if math.isinf(wanted.low) else "at_least" if math.isinf(wanted.high) else "between"
        return str(self.words.score[side]).format(low=low, high=high)

    def _facts(self) -> tuple[tuple[str, str], ...]:
        """The result now, and the scores now and needed."""
        task, names = self.e.task, self.words.score
        needed = self._outcome(self.e.wanted[self.at]) if not task.classes else str(names["open"])
        if not math.isnan(self.needed):
            needed = str(names["at_least"]).format(low=self._score(self.needed))
        facts = [(names["wanted"], self._outcome(self.e.wanted[self.at]))] if task.classes else []
        if task.classes and not math.isnan(self.now):
            facts.insert(0, (names["result"], short(self.schema.class_title(self.e.predicted_now[self.at]))))
        if not math.isnan(self.now):
            facts.append((names["now"], self._score(self.now)))
        return (*facts, (names["needed"], needed))

    def _score(self, score: float) -> str:
        """A score, with enough digits to differ from the needed one."""
        if not self.e.task.classes:
            return self.words.number(number(score))
        apart = abs(score - self.needed) or 1.0
        digits = 1 if math.isnan(apart) else min(DIGITS, max(1, 1 - math.floor(math.log10(100 * apart))))
        return self.words.percent(score, digits)

    def _lead(self, ways: int) -> str:
        if ways:
            return self._say("ways", "one" if ways == 1 else "several", count=ways)
        if self.status == Status.VERIFIED:
            return self._say("ways", "withheld")
        return self._say("without", str(Status.NOT_FOUND if self.status == Status.BEST_EFFORT else self.status))

    def _ways(self) -> list[dict[str, Any]]:
        """Verified answers that may be advised."""
        own = np.flatnonzero((self.e.place == self.at) & self.e.checks.passed)
        ranked = own[np.argsort(self.e.rank[own], kind="stable")].tolist()
        ways = [(self.e.changes(i), float(self.e.checks.score[i])) for i in ranked]
        return [self._way(*way) for way in ways if self._may_advise(way[0])]

    def _may_advise(self, changes: tuple[Change, ...]) -> bool:
        features = [self.schema[change.feature] for change in changes]
        return all(f.name not in self.e.task.frozen and not is_inborn(f) and not is_personal(f) for f in features)

    def _way(self, changes: tuple[Change, ...], score: float) -> dict[str, Any]:
        return {"lines": list(map(self._line, changes)), "score": "" if math.isnan(score) else self._score(score)}

    def _line(self, change: Change) -> ChangeTexts:
        feature = self.schema[change.feature]
        now, then = (self.words.value(feature, value) for value in (change.now, change.then))
        return ChangeTexts(short(feature.title), now, then, self._difference(feature, change.now, change.then))

    def _difference(self, feature: Feature, now: Any, then: Any) -> str:
        moved, texts = distance(feature, now, then), self.words.changes
        if moved is None:
            return ""
        if feature.kind == "date":
            days = self.words.number(f"{abs(moved):,.0f}")
            said = f"{days} {texts['day' if abs(moved) == 1 else 'days']}"
            return str(texts["later" if moved > 0 else "earlier"]).format(amount=said)
        return str(texts["more" if moved > 0 else "less"]).format(amount=self.words.value(feature, abs(moved)))

    def _takes(self) -> Relaxation | None:
        """The relaxation, unless it must not be advised."""
        why = self.e.reasons.get(self.at)
        way = None if why is None else why.relaxation
        if way is None or not way.gone or not way.is_advice or not self._may_advise(way.changes):
            return None
        return way

    def _obstacle(self, obstacle: Obstacle) -> str:
        names = self.words.takes
        if obstacle.limit is not None and obstacle.side is not None:
            feature = self.schema[obstacle.feature]
            side = "above" if obstacle.side == "high" else "below"
            return str(names[side]).format(feature=feature.title, limit=self.words.value(feature, obstacle.limit))
        rules = [*self.e.task.rules, *(self.e.own.rules if self.e.own is not None else ())]
        rule = next((r for r in rules if r.text == obstacle.name), None)
        if rule is None:
            return obstacle.words
        titles = ", ".join(self.schema[name].title for name in self.schema.names if name in rule.features)
        return str(names["rule"]).format(words=in_words(rule), features=titles)
