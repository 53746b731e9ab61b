"""Plain data in little room: every value that occurs is kept once, and whatever holds it names its place.

Certificates of many rows say the same things again and again. Packed, one of them costs a tenth of its JSON.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from .wording import LONE

# What a list begins with, where a dict has the number of its keys in `shapes`.
LIST = -1


class Pool:
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
