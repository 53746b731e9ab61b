"""Wishes: what a person says is possible for them, feature by feature, as personal rules and difficulties.

A wish can be lifted: it becomes a rule like any other, so that "why not" can name it and a button can remove it.
Features that the schema or the task's rules freeze cannot have wishes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import Fault, did_you_mean
from ..explanation.wording import amount
from ..overrides.cells import allowed
from ..rules import notation
from ..schema import Feature, Schema
from ..schema.column import natural
from ..schema.definition import is_missing
from .people import Values, read_value

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

    @property
    def says_nothing(self) -> bool:
        """Whether it restricts nothing."""
        return self == Wish()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without fields that are left open."""
        found: dict[str, Any] = {} if self.effort == "usual" else {"effort": self.effort}
        found |= {side: value for side, value in (("low", self.low), ("high", self.high)) if value is not None}
        return found if self.levels is None else found | {"levels": list(self.levels)}


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
            found |= {} if wrong or wish.says_nothing else {name: wish}
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
    if not is_missing(now) and _is_legal(feature, now):
        return allowed([now] if feature.is_category else {now}, feature, schema)
    name = notation.name(feature.name, schema)
    return (f"{name}' == {name}",)


def _is_legal(feature: Feature, value: Any) -> bool:
    import pandas as pd

    return bool(feature.on_grid(natural(feature, pd.Series([value])))[0])


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
    return others if new.says_nothing else others | {name: new}


def in_words(wishes: Wishes, values: Values, schema: Schema) -> list[str]:
    """Each wish as a sentence."""
    return [_sentence(schema[name], wish, values.get(name)) for name, wish in wishes.items()]


SAID = {"easy": "easy to change", "hard": "hard to change", "very_hard": "very hard to change"}


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
