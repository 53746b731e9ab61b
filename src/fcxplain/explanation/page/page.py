"""Explanations as one HTML file: it loads nothing, and no text of a table can run as code."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import date
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...rules import in_words
from ...text import counted
from ..certificate import written
from ..reasons import Status
from ..wording import LONE, UNLIMITED, class_words, percent, short, unlimited
from .cards import Card, Deck
from .summary import NO_ANSWER, changes_per_answer, feature_counts, group_counts, obstacle_counts

if TYPE_CHECKING:
    from jinja2 import Environment

    from ..explanation import Explanation

# Marks a list, where a dict has the index of its keys in `shapes`.
LIST = -1


class ValuePool:
    """Distinct values by position: a leaf as it is; a list as `[-1, positions]`; a dict as `[shape, positions]`."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[Any, int] = {}
        self._shapes: dict[tuple[str, ...], int] = {}

    @property
    def shapes(self) -> list[tuple[str, ...]]:
        """The keys of each kind of dict."""
        return list(self._shapes)

    def place(self, value: Any) -> int:
        """The position of the value, added if it is new."""
        if isinstance(value, dict):
            shape = self._shapes.setdefault(tuple(map(str, value)), len(self._shapes))
            value = (shape, *map(self.place, value.values()))
        elif isinstance(value, list | tuple):
            value = (LIST, *map(self.place, value))
        else:
            value = written(value)
        # 1, 1.0 and True are equal, and yet three things in JSON; so are 0.0 and -0.0.
        key = value if isinstance(value, str | tuple) else (repr(value),)
        place = self._places.setdefault(key, len(self.values))
        if place == len(self.values):
            self.values.append(value)
        return place


def json_block(data: Any) -> str:
    """JSON that is safe inside a script element, whatever its texts."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = LONE.sub(lambda half: f"\\u{ord(half.group()):04x}", text)
    # Without this sign, no text can close the element or open a comment.
    return text.replace("<", "\\u003c")


TITLE = "What could change"
# Cards shown without a script, and lines shown of a list; the rest is counted.
PLAIN, SHOWN = 10, 15
# A sign and a name for display.
STATUSES = {
    Status.VERIFIED: ("✓", "verified"),
    Status.BEST_EFFORT: ("!", "fails a check"),
    Status.NOT_FOUND: ("?", "not found"),
    Status.IMPOSSIBLE: ("✕", "impossible"),
    Status.TIMED_OUT: ("…", "timed out"),
    Status.ALREADY: ("=", "already there"),
    Status.UNREADABLE: ("#", "unreadable"),
}


def render(answer: Explanation, *, title: str | None = None, group: str | None = None) -> str:
    """The page for an explanation; `group`, a feature's name, adds results by its values to the summary."""
    e, deck = answer, Deck(answer)
    wanted, changes = sorted({short(class_words(e.task.schema, w)) for w in e.wanted.tolist()}), changes_per_answer(e)
    answers = sum(count for _, count in changes)
    page = templates().get_template("page.html")
    text = page.render(
        e=e,
        title=TITLE if title is None else title,
        model=_model(e),
        today=date.today().isoformat(),
        wanted=wanted[0] if len(wanted) == 1 else "",
        asked=int(e.asked.sum()),
        verified=e.counts.get(Status.VERIFIED, 0),
        failing=e.counts.get(Status.BEST_EFFORT, 0),
        without=sum(e.counts.get(status, 0) for status in NO_ANSWER),
        unlimited=UNLIMITED.capitalize() if unlimited(e) else "",
        answers=answers,
        features=feature_counts(e),
        changes=changes,
        mean_changes=sum(number * count for number, count in changes) / max(1, answers),
        obstacles=obstacle_counts(e),
        proved=all(why.status == Status.IMPOSSIBLE for why in e.reasons.values() if why.blockers),
        group="" if group is None else e.task.schema[group].title,
        groups=[] if group is None else group_counts(e, group),
        cards=list(islice(deck, PLAIN)),
        more=max(0, len(deck) - PLAIN),
        data=json_block(_data(deck)),
        css=part("page.css"),
        js=part("page.js"),
    )
    # UTF-8 cannot encode these.
    return LONE.sub("\ufffd", text)


def _model(e: Explanation) -> str:
    """The model's name, threshold and required probability."""
    task, model = e.task, e.task.classifier
    facts = [model.name]
    if model.threshold is not None and not model.parts:
        facts.append(f"{short(class_words(task.schema, task.classes[1]))} from a probability of {model.threshold:g}")
    if task.target_probability is not None:
        facts.append(f"a probability of at least {task.target_probability:g} is required")
    return "; ".join(facts)


@cache
def templates(package: str = __package__) -> Environment:
    """The templates of a package, with autoescaping."""
    # Imported only where a page is made.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    how: dict[str, Any] = {"autoescape": True, "undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    found = Environment(loader=PackageLoader(package), **how)
    found.filters |= {"counted": counted, "in_words": in_words, "percent": percent, "sha256": _hash, "short": short}
    found.globals |= {"SHOWN": SHOWN, "statuses": STATUSES, "version": __version__}
    return found


def part(name: str) -> str:
    """The text of a file in this folder."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _data(deck: Deck) -> dict[str, Any]:
    """The script's data: labels and statuses for filters, everything else by position in the pool."""
    pool, names = ValuePool(), [str(status) for status in STATUSES]
    # First, since the deck gathers the spreads of the features on its cards.
    cards = [(card.label, names.index(card.status), pool.place(_content(card))) for card in deck]
    return {
        "statuses": [{"name": str(s), "sign": sign, "says": says} for s, (sign, says) in STATUSES.items()],
        "fixed": [not f.mutable for f in deck.features],
        "spreads": {number: {"kind": s.kind, "bars": s.bars, "ends": s.ends} for number, s in deck.spreads.items()},
        "labels": [label for label, _, _ in cards],
        "status": [status for _, status, _ in cards],
        "cards": [place for _, _, place in cards],
        "shapes": pool.shapes,
        "pool": pool.values,
    }


def _content(card: Card) -> dict[str, Any]:
    deep = {
        "answers": [
            vars(answer) | {"lines": [vars(line) for line in answer.lines], "certificate": answer.certificate.to_dict()}
            for answer in card.answers
        ],
        "blocked": None if card.blocked is None else vars(card.blocked),
        "relaxed": [vars(line) for line in card.relaxed],
    }
    return {name: deep.get(name, value) for name, value in vars(card).items() if name not in ("label", "status")}
