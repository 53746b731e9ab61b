"""People: their details as plain data, read from a file, a form or a program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import Fault, did_you_mean, some
from ..schema import Feature, Schema
from ..schema.dates import day_of, iso

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
