"""People, their wishes, and the browsers that ask about them.

A person's details are plain data, read from a file, a form or a program. A wish is what they say is possible for one
feature. It becomes a rule like any other, so that "why not" can name it and a button can lift it. Features that the
schema or the task's rules freeze cannot have wishes. Sessions are held in memory only, and are limited in number.
"""

from __future__ import annotations

import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from ..errors import Fault, did_you_mean, some
from ..explanation.wording import amount
from ..overrides.cells import allowed
from ..rules import notation
from ..schema import Feature, Schema
from ..schema.column import natural
from ..schema.dates import day_of, iso
from ..schema.definition import is_missing

Values = Mapping[str, Any]
"""A person's values by feature, as JSON has them: numbers, texts, dates in ISO, None where one is missing."""

# The longest name or value accepted, in letters.
LONGEST = 200


@dataclass(frozen=True)
class Person:
    """A person: `key` appears in URLs and says nothing about them, `label` is their name."""

    key: str
    label: str
    values: Values
    status: str = ""
    """The model's present result, if known: accepted, refused or unreadable."""
    score: float | None = None


@dataclass(frozen=True)
class People:
    """A table of people, in order."""

    everybody: tuple[Person, ...] = ()
    by_key: Mapping[str, Person] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Mapping[str, Any], prefix: str = "p") -> People:
        """From the worker's data: labels, columns, and the model's result for each."""
        names, columns = list(table["columns"]), list(table["columns"].values())
        named = [f"Person {label}" if str(label).isdigit() else str(label) for label in table["labels"]]
        lines = zip(named, zip(*columns, strict=True), table["status"], table["score"], strict=True)
        found = tuple(
            Person(f"{prefix}{i}", label[:LONGEST], dict(zip(names, values, strict=True)), status, score)
            for i, (label, values, status, score) in enumerate(lines)
        )
        return cls(found, {person.key: person for person in found})

    def __len__(self) -> int:
        return len(self.everybody)

    def found(self, words: str = "", status: str = "") -> list[Person]:
        """Those with these words in their name, and of one status."""
        sought = words.strip().casefold()
        return [p for p in self.everybody if sought in p.label.casefold() and status in ("", p.status)]


def read_values(given: Mapping[str, Any], schema: Schema) -> tuple[dict[str, Any], list[Fault]]:
    """A person's values, and all faults. Empty values are missing."""
    faults = [
        Fault(f"value {n!r}", "is not a feature", did_you_mean(n, schema.names)) for n in given if n not in schema
    ]
    absent = [f.name for f in schema if f.name not in given]
    if absent:
        faults.append(Fault("the values", f"lack {some(absent, len(absent))}", "Give one for every feature."))
    found: dict[str, Any] = {}
    for feature in schema:
        found[feature.name], wrong = read_value(feature, given.get(feature.name), present=True)
        faults += [] if wrong is None else [wrong]
    return found, faults


def read_value(feature: Feature, given: Any, *, present: bool = False) -> tuple[Any, Fault | None]:
    """One value as plain data; a `present` value need not be legal, only readable."""
    if given is None or (isinstance(given, str) and not given.strip()):
        return None, None
    if not isinstance(given, str | int | float) or len(str(given)) > LONGEST:
        return None, Fault(feature.title, "cannot be read", "Give a number or a text.")
    if feature.is_category:
        return _level(feature, given, present)
    try:
        return _number(feature, given)
    except (ValueError, OverflowError):
        what, example = ("date", "2026-12-31") if feature.kind == "date" else ("number", "40")
        return None, Fault(feature.title, f"{str(given)!r} is not a {what}", f"Write e.g. {example}.")


def _level(feature: Feature, given: Any, present: bool) -> tuple[Any, Fault | None]:
    code = feature.level_of_text.get(str(given))
    if code is not None:
        return feature.levels[code], None
    if present and "levels" in feature.guessed:
        return given, None
    remedy = did_you_mean(str(given), map(str, feature.levels)) or f"It is one of {some(feature.levels)}."
    return None, Fault(feature.title, f"{str(given)!r} is not known", remedy)


def _number(feature: Feature, given: Any) -> tuple[Any, Fault | None]:
    if feature.kind == "date":
        return iso(day_of(given)), None
    value = float(given.replace(",", "") if isinstance(given, str) else given)
    if isinstance(given, bool) or not math.isfinite(value) or abs(value) > 1e15:
        raise ValueError
    return int(value) if value.is_integer() else value, None


# Wishes

# How hard a change is, and its relative cost.
EFFORTS = {"fixed": 1.0, "easy": 0.5, "usual": 1.0, "hard": 3.0, "very_hard": 10.0}
NOT_ABOUT = "is fixed for everyone"


@dataclass(frozen=True)
class Wish:
    """What is possible for one feature: how hard it is to change, and which values are acceptable; None: any."""

    effort: str = "usual"
    low: Any = None
    high: Any = None
    levels: tuple[Any, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without fields that are left open."""
        given = {"effort": None if self.effort == "usual" else self.effort, "low": self.low, "high": self.high}
        given["levels"] = None if self.levels is None else list(self.levels)
        return {name: value for name, value in given.items() if value is not None}


Wishes = Mapping[str, Wish]


def read_wishes(given: Mapping[str, Any], schema: Schema, fixed: Iterable[str]) -> tuple[dict[str, Wish], list[Fault]]:
    """Wishes from plain data, and all faults."""
    found: dict[str, Wish] = {}
    faults: list[Fault] = []
    for name, said in given.items():
        if name not in schema:
            faults.append(Fault(f"wish {name!r}", "is not about a feature", did_you_mean(name, schema.names)))
        elif name in set(fixed):
            faults.append(Fault(f"wish {name!r}", NOT_ABOUT, "Leave it out."))
        elif not isinstance(said, Mapping):
            faults.append(Fault(f"wish {name!r}", "is not an object", 'Write e.g. {"effort": "hard", "high": 45}.'))
        else:
            wish, wrong = _read_wish(schema[name], said)
            faults += wrong
            found |= {} if wrong or wish == Wish() else {name: wish}
    return found, faults


def _read_wish(feature: Feature, said: Mapping[str, Any]) -> tuple[Wish, list[Fault]]:
    place, faults = f"wish {feature.name!r}", list[Fault]()
    known = ("effort", "levels") if feature.is_category else ("effort", "low", "high")
    faults += [
        Fault(place, f"{key!r} is not known here", f"Give {', '.join(known)}.") for key in said if key not in known
    ]
    effort = said.get("effort", "usual")
    if effort not in EFFORTS:
        faults.append(Fault(place, f"{effort!r} is not an effort", f"They are {', '.join(EFFORTS)}."))
    ends: dict[str, Any] = {}
    for side in ("low", "high"):
        value, wrong = read_value(feature, said.get(side)) if side in known else (None, None)
        ends[side] = value
        faults += [] if wrong is None else [replace(wrong, place=f"{place}, {side}")]
    if None not in ends.values() and not faults and ends["low"] > ends["high"]:
        faults.append(Fault(place, f"nothing lies between {ends['low']} and {ends['high']}", "Swap them."))
    levels = said.get("levels")
    if levels is not None:
        if not isinstance(levels, list | tuple):
            return Wish(), [*faults, Fault(place, "levels is not a list", "List the acceptable values.")]
        meant = [read_value(feature, level) for level in levels]
        faults += [replace(wrong, place=place) for _, wrong in meant if wrong is not None]
        levels = tuple(value for value, wrong in meant if wrong is None)
        levels = None if set(levels) == set(feature.levels) else levels
    return Wish(str(effort), ends["low"], ends["high"], levels), faults


def own_rules(wishes: Wishes, values: Values, schema: Schema) -> dict[str, tuple[str, ...]]:
    """The rule texts that wishes add for a person with these values, by feature."""
    found: dict[str, tuple[str, ...]] = {}
    for name, wish in wishes.items():
        feature, now = schema[name], values.get(name)
        if wish.effort == "fixed":
            found[name] = _kept(feature, now, schema)
        elif feature.is_category and wish.levels is not None:
            also = [now] if str(now) in feature.level_of_text else []
            chosen = [*wish.levels, *(v for v in also if v not in wish.levels)]
            found[name] = allowed(chosen, feature, schema) if chosen else _kept(feature, now, schema)
        elif wish.low is not None or wish.high is not None:
            found[name] = allowed((wish.low, wish.high), feature, schema)
    return found


def _kept(feature: Feature, now: Any, schema: Schema) -> tuple[str, ...]:
    """Rules that keep a value. If it is not legal, they freeze the feature."""
    if not is_missing(now) and feature.on_grid(natural(feature, pd.Series([now])))[0]:
        return allowed([now] if feature.is_category else {now}, feature, schema)
    name = notation.name(feature.name, schema)
    return (f"{name}' == {name}",)


def difficulties(wishes: Wishes) -> dict[str, float]:
    """Cost factors for changing features."""
    return {name: EFFORTS[wish.effort] for name, wish in wishes.items() if EFFORTS[wish.effort] != 1.0}


def lifted(wishes: Wishes, name: str, needed: Any = None, side: str | None = None) -> dict[str, Wish]:
    """The wishes with one of them relaxed: up to the `needed` value, or entirely."""
    wish, others = wishes.get(name, Wish()), {n: w for n, w in wishes.items() if n != name}
    if needed is None or wish.effort == "fixed":
        new = Wish(effort="usual" if wish.effort == "fixed" else wish.effort)
    elif wish.levels is not None:
        new = replace(wish, levels=(*wish.levels, needed))
    else:
        new = replace(wish, **({side: needed} if side in ("low", "high") else {"low": None, "high": None}))
    return others if new == Wish() else others | {name: new}


SAID = {"easy": "easy to change", "hard": "hard to change", "very_hard": "very hard to change"}


def in_words(wishes: Wishes, values: Values, schema: Schema) -> list[str]:
    """Each wish as a sentence."""
    return [_sentence(schema[name], wish, values.get(name)) for name, wish in wishes.items()]


def _sentence(feature: Feature, wish: Wish, now: Any) -> str:
    if wish.effort == "fixed":
        return f"{feature.title} stays {amount(feature, now)}"
    parts = [SAID[wish.effort]] if wish.effort in SAID else []
    if wish.levels is not None:
        parts.append(f"may become {' or '.join(amount(feature, level) for level in wish.levels) or 'nothing else'}")
    if wish.low is not None:
        parts.append(f"at least {amount(feature, wish.low)}")
    if wish.high is not None:
        parts.append(f"at most {amount(feature, wish.high)}")
    return f"{feature.title}: {', '.join(parts)}"


# Sessions

# Sessions that are kept, seconds until an idle one ends, and people and tables in each.
MOST, IDLE, PEOPLE, TABLES = 500, 8 * 3600.0, 50, 5


@dataclass(eq=False)
class Session:
    """One browser: its wishes, the people entered, and the tables uploaded."""

    key: str
    csrf: str
    seen: float = 0.0
    wishes: dict[str, dict[str, Wish]] = field(default_factory=dict)
    people: OrderedDict[str, Person] = field(default_factory=OrderedDict)
    tables: OrderedDict[str, Any] = field(default_factory=OrderedDict)

    def add(self, label: str, values: dict[str, Any]) -> Person:
        """Add a person who was entered; the oldest are dropped."""
        person = Person(f"n{secrets.token_hex(6)}", label, values)
        self.people[person.key] = person
        while len(self.people) > PEOPLE:
            self.wishes.pop(self.people.popitem(last=False)[0], None)
        return person


class Sessions:
    """Sessions by their cookie."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Session] = OrderedDict()

    def new(self) -> Session:
        """A new session; the one idle longest is dropped."""
        session = Session(secrets.token_urlsafe(24), secrets.token_urlsafe(24), time.monotonic())
        self._known[session.key] = session
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return session

    def find(self, key: str) -> Session | None:
        """The session of a cookie, if it is not too old."""
        session = self._known.get(key)
        if session is None:
            return None
        if time.monotonic() - session.seen > IDLE:
            del self._known[key]
            return None
        session.seen = time.monotonic()
        self._known.move_to_end(key)
        return session

    def end(self, session: Session) -> None:
        """End a session."""
        self._known.pop(session.key, None)
