"""Service: what all pages share. Engine, people, store and sessions, and how values are worded and drawn."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment

from ..explanation import page as report
from ..explanation.page.page import templates
from ..explanation.wording import amount, as_number, chance, number
from ..schema import Feature, Schema
from ..schema.definition import is_missing
from .answers import Engine
from .people import EFFORTS, People, Sessions, in_words
from .receipts import Store
from .trust import Limits, Token

WIDE, TALL, EYE = 240, 44, 6
# Names of efforts in the form.
EFFORT_WORDS = {"easy": "easy", "usual": "possible", "hard": "hard", "very_hard": "very hard", "fixed": "cannot change"}
assert set(EFFORT_WORDS) == set(EFFORTS)
# Statuses in plain words.
PLAIN = {
    "verified": "has an option",
    "already": "nothing to change",
    "impossible": "impossible, proved",
    "not_found": "no option found",
    "timed_out": "not finished",
    "best_effort": "fails a check",
    "unreadable": "cannot be read",
}


@dataclass(eq=False)
class Service:
    """One server."""

    engine: Engine
    sessions: Sessions
    limits: Limits
    folder: Path
    """For uploaded tables; deleted with the server."""
    store: Store | None = None
    token: Token | None = None
    people: People = field(default_factory=People)
    title: str = "What could change"

    @cached_property
    def schema(self) -> Schema:
        """The features."""
        return Schema.from_dict(self.engine.about["schema"])

    @cached_property
    def fixed(self) -> frozenset[str]:
        """Features that never change."""
        return frozenset(self.engine.about["fixed"])

    @cached_property
    def features(self) -> dict[int, Feature]:
        """Features that may change, by number."""
        return {i: f for i, f in enumerate(self.schema) if f.name not in self.fixed}

    @cached_property
    def static(self) -> dict[str, tuple[bytes, str]]:
        """The style sheets and the script, with their types."""
        css, js = "text/css; charset=utf-8", "text/javascript; charset=utf-8"
        return {
            "page.css": (_part(report.__name__, "page.css"), css),
            "serve.css": (_part(__package__, "serve.css"), css),
            "serve.js": (_part(__package__, "serve.js"), js),
            "icon.svg": (_part(__package__, "icon.svg"), "image/svg+xml"),
        }

    @cached_property
    def templates(self) -> Environment:
        """The templates, with autoescaping."""
        found = templates(__package__)
        found.filters |= {"score": score, "listed": listed, "plain_status": lambda status: PLAIN.get(status, status)}
        found.globals |= {
            "amount": amount, "bars": bars, "efforts": EFFORT_WORDS, "in_words": in_words, "stamp": self.stamp,
            "gauge": gauge, "WIDE": WIDE, "TALL": TALL, "EYE": EYE, "faults": (), "job": None,
            "reasons": None,
        }  # fmt: skip
        return found

    @cached_property
    def stamp(self) -> str:
        """A hash of style sheets and script, so that browsers reload them when they change."""
        return hashlib.sha256(b"".join(content for content, _ in self.static.values())).hexdigest()[:12]

    def spread(self, feature: Feature) -> dict[str, Any]:
        """The bars of a feature."""
        found: dict[str, Any] = self.engine.about["spreads"][feature.name]
        return found

    def at(self, feature: Feature, value: Any) -> float | None:
        """The position of a value along the bars of its feature, from 0 to 1."""
        places = self.spread(feature)["places"]
        if feature.is_category or is_missing(value):
            found: float | None = None if is_missing(value) else places.get(str(value))
            return found
        start, end = places["from"], places["to"]
        return float(min(1.0, max(0.0, (as_number(feature, value) - start) / (end - start))))


def _part(package: str, name: str) -> bytes:
    return files(package).joinpath(name).read_bytes()


def score(value: float | None, is_number: bool = False, needed: float | None = None) -> str:
    """A score as shown, with enough digits to differ from the `needed` one."""
    if value is None or value != value:
        return "unknown"
    if is_number:
        return number(value)
    if needed is None or value == needed or chance(value) != chance(needed):
        return chance(value)
    return next((text for text in (f"{value:.{n}f}" for n in range(4, 9)) if float(text) != needed), chance(value))


def listed(things: list[str], last: str = "and") -> str:
    """Things in a sentence."""
    return things[0] if len(things) == 1 else f"{', '.join(things[:-1])} {last} {things[-1]}" if things else ""


def bars(heights: list[int]) -> str:
    """The path of a histogram, `WIDE` x `TALL`."""
    wide = WIDE / max(1, len(heights))
    gap = min(2.0, wide / 5)
    return "".join(
        f"M{i * wide + gap / 2:.1f} {TALL}v{-h / 100 * (TALL - 12):.1f}h{wide - gap:.1f}V{TALL}z"
        for i, h in enumerate(heights)
        if h
    )


def gauge(value: float | None) -> float | None:
    """The position of a probability along a line of `WIDE`."""
    return None if value is None or value != value else round(4 + min(max(value, 0.0), 1.0) * (WIDE - 8), 1)
