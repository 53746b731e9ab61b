"""Explanations as one HTML file: nothing is fetched, and nothing that a table says can run.

The top of the page is written here. The cards travel as packed data, of which the script builds those in view, so
that thousands of them page smoothly. Its policy lets this one script run and no other.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import fields
from importlib.resources import files
from itertools import islice
from string import Template
from typing import Any

from ... import __version__
from ..amounts import short
from ..answer import Explanation
from . import summary
from .cards import Answer, Card, Deck
from .packing import Pool, json_block
from .wording import escaped

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
    pool, labels, statuses, places = Pool(), [], [], []
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
