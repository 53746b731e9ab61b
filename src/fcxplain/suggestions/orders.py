"""Numbers of which one is never above the other, such as credit used and credit limit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .chance import Bar
from .columns import Column, Floats
from .suggestion import Candidate
from .writing import Writer


def order_rules(first: Column, second: Column, bar: Bar, writer: Writer) -> Iterator[Candidate]:
    """That the first number is at most the second, or always the same, if no row says otherwise."""
    a, b = first.feature, second.feature
    if a.unit and b.unit and a.unit != b.unit:
        return
    known = first.known & second.known
    x, y = first.values[known], second.values[known]
    if not len(x) or (x > y).any():
        return
    same = bool((x == y).all())
    if same and a.name > b.name:
        # Said once, from the other side.
        return
    excluded = pairs_above(x, y) / len(x)
    names = frozenset((a.name, b.name))
    if bar.passes(np.asarray([len(x)]), np.asarray([int(excluded)]), len(x)).all():
        text = f"{writer.name(a.name)} {'==' if same else '<='} {writer.name(b.name)}"
        yield Candidate(text, "order", names, len(x), excluded, excluded / len(x))


def pairs_above(x: Floats, y: Floats) -> float:
    """Of all pairs of an x of one row and a y of any row, those in which x is greater."""
    return float(np.searchsorted(np.sort(y), np.sort(x), side="left").sum())
