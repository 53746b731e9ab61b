"""Explanations as one HTML file: nothing is fetched, and nothing that a table says can run."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import fields
from importlib.resources import files
from itertools import islice
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import __version__
from ..wording import LONE, escaped, short
from . import summary
from .cards import Answer, Card, Deck

if TYPE_CHECKING:
    from ..explanation import Explanation

# What a list begins with, where a dict has the number of its keys in `shapes`.
LIST = -1


class ValuePool:
    """Values by their place: a leaf as it is; a list as `[-1, places]`; a dict as `[shape, places]`."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.shapes: list[tuple[str, ...]] = []
        self._places: dict[Any, int] = {}
        self._shape_places: dict[tuple[str, ...], int] = {}

    def place(self, value: Any) -> int:
        """Where the value stands, put there if it is new."""
        if isinstance(value, str):
            return self._kept(value, value)
        if isinstance(value, dict):
            keys = tuple(map(str, value))
            return self._node((self._shape(keys), *map(self.place, value.values())))
        if isinstance(value, list | tuple):
            return self._node((LIST, *map(self.place, value)))
        leaf = _leaf(value)
        # 1, 1.0 and True are equal, and yet three things in JSON; so are 0.0 and -0.0.
        return self._kept(leaf, leaf if isinstance(leaf, str) else (repr(leaf),))

    def _node(self, places: tuple[int, ...]) -> int:
        return self._kept(places, places)

    def _kept(self, value: Any, key: Any) -> int:
        place = self._places.setdefault(key, len(self.values))
        if place == len(self.values):
            self.values.append(value)
        return place

    def _shape(self, keys: tuple[str, ...]) -> int:
        place = self._shape_places.setdefault(keys, len(self.shapes))
        if place == len(self.shapes):
            self.shapes.append(keys)
        return place


def json_block(data: Any) -> str:
    """JSON that can stand inside a script element, whatever the texts in it say."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = LONE.sub(lambda half: f"\\u{ord(half.group()):04x}", text)
    # Without this sign, no text can end the element or begin a comment in it.
    return text.replace("<", "\\u003c")


def _leaf(value: Any) -> Any:
    """A value as JSON has it: what is no number is None, what JSON does not know is text."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


TITLE = "What could change"
# Cards that can be read without a script.
PLAIN = 10


def render(answer: Explanation, *, title: str | None = None, group: str | None = None) -> str:
    """The page for an explanation; `group`, a feature's name, adds how its values fared to the summary."""
    told = summary.summary(answer, group)  # first: it refuses a feature that is not there
    deck = Deck(answer)
    css, js = _part("page.css"), _part("page.js")
    return Template(_part("page.html")).substitute(
        version=__version__,
        title=escaped(short(TITLE if title is None else title, 300)),
        kicker=summary.kicker(answer),
        lead=summary.lead(answer),
        notes=summary.notes(answer),
        summary=told,
        rows="The row" if len(answer) == 1 else "Row by row",
        plain=summary.plain_cards(islice(deck, PLAIN), max(0, len(deck) - PLAIN)),
        legend=summary.legend(answer),
        data=json_block(_data(deck)),
        css=css,
        css_hash=_hash(css),
        js=js,
        js_hash=_hash(js),
    )


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _data(deck: Deck) -> dict[str, Any]:
    """What the script reads: labels and statuses to choose by, and all else by its place in the pool."""
    pool, labels, statuses, places = ValuePool(), [], [], []
    words = summary.STATUSES
    names = [str(status) for status in words]
    for card in deck:
        labels.append(card.label)
        statuses.append(names.index(card.status))
        places.append(pool.place(_content(card)))
    return {
        "statuses": [{"name": str(s), "sign": word.sign, "says": word.name} for s, word in words.items()],
        "fixed": [not f.mutable for f in deck.features],
        "spreads": {number: {"kind": s.kind, "bars": s.bars, "ends": s.ends} for number, s in deck.spreads.items()},
        "labels": labels,
        "status": statuses,
        "cards": places,
        "shapes": pool.shapes,
        "pool": pool.values,
    }


def _content(card: Card) -> dict[str, Any]:
    answers = [_shallow(a) | {"lines": _all(a.lines), "certificate": a.certificate.to_dict()} for a in card.answers]
    blocked = None if card.blocked is None else _shallow(card.blocked)
    content = _shallow(card) | {"answers": answers, "blocked": blocked, "relaxed": _all(card.relaxed)}
    return {name: value for name, value in content.items() if name not in ("label", "status")}


def _all(things: Iterable[Any]) -> list[dict[str, Any]]:
    return [_shallow(thing) for thing in things]


def _shallow(thing: Card | Answer | Any) -> dict[str, Any]:
    return {field.name: getattr(thing, field.name) for field in fields(thing)}
