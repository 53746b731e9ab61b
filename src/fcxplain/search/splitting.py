"""Branch and bound: what rows may become is cut in two until every part is known to miss the class wanted.

A part is closed as soon as some other class is certain to beat the one wanted all over it. A row is given up when a
row of the class wanted turns up in one of its parts, or when it has too many parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..encoding import TableEncoder
from ..schema import Natural
from .bounds import ceiling, hull, peak
from .network import Network
from .reach import Area, Bools, Floats, Places

# Open parts of one row beyond which it is given up.
PARTS = 256
# Halvings of one part after which its row is given up.
ROUNDS = 64
# Numbers handled at a time, in an array of rows x forms x columns.
CELLS = 2**22


@dataclass(frozen=True)
class Refuted:
    """Rows of which it is certain that they cannot get a class, and for others an encoded row that might."""

    certain: Bools
    hopeful: Bools
    x: Floats


@dataclass(frozen=True)
class Parts:
    """Parts of what rows may become: which row each is of, and its bounds on the encoded columns."""

    row: Places
    low: Floats
    high: Floats

    def take(self, which: Bools | Places | slice) -> Parts:
        """Some of the parts."""
        return Parts(self.row[which], self.low[which], self.high[which])


class Splitter:
    """Bounds of one class over what some rows may become."""

    def __init__(
        self, network: Network, target: int, areas: Sequence[Area], encoder: TableEncoder, before: Natural
    ) -> None:
        self.network, self.areas, self.encoder, self.before = network, areas, encoder, before
        classes = len(network.layers[-1].bias)
        self.others = np.eye(classes)[target] - np.delete(np.eye(classes), target, axis=0)
        self.importance = np.max([network.sizes(t)[0] for t in self.others], axis=0)
        self.rows = areas[0].open.shape[1]

    def refute(self, *, parts: int = PARTS) -> Refuted:
        """Bound all rows, and cut those apart that are neither closed nor hopeful."""
        lost, hopeful = np.zeros(self.rows, dtype=bool), np.zeros(self.rows, dtype=bool)
        x = np.zeros((self.rows, self.encoder.width_))
        left = Parts(np.arange(self.rows), *hull(self.areas, self.encoder.width_))
        for _ in range(ROUNDS):
            left, at, reached = self._open(left)
            x[left.row[reached]], hopeful[left.row[reached]] = at[reached], True
            crowded = np.bincount(left.row, minlength=self.rows) * 2 > parts
            left, whole = self._cut(left.take(~(hopeful | crowded)[left.row]))
            lost |= crowded | whole
            left = left.take(~lost[left.row])
            if not len(left.row):
                break
        lost[left.row] = True
        return Refuted(~(lost | hopeful), hopeful, x)

    def _open(self, parts: Parts) -> tuple[Parts, Floats, Bools]:
        """The parts that no bound closes, drawn in; where each comes nearest, and whether that is near enough."""
        starts = range(0, len(parts.row), self._chunk)
        found = [self._open_chunk(parts.take(slice(s, s + self._chunk))) for s in starts]
        row, low, high, x = (np.concatenate([f[i] for f in found]) for i in range(4))
        reached = np.concatenate([f[4] for f in found])
        return Parts(row, low, high), x, reached & self._is_reached(x)

    @property
    def _chunk(self) -> int:
        widest = max(layer.weight.size for layer in self.network.layers)
        ways = sum(area.low.shape[0] * area.low.shape[2] for area in self.areas)
        return int(max(16, CELLS // (2 * max(widest, ways))))

    def _open_chunk(self, parts: Parts) -> tuple[Places, Floats, Floats, Floats, Bools]:
        areas = [area.take(parts.row).within(parts.low, parts.high) for area in self.areas]
        low, high = hull(areas, self.encoder.width_)
        best, x, kept = np.full(len(low), np.inf), np.zeros(low.shape), np.zeros(len(low), dtype=bool)
        for towards in self.others:
            top = peak(areas, ceiling(self.network, towards, low, high, self.encoder))
            lower = top.value < best
            best, x = np.where(lower, top.value, best), np.where(lower[:, None], top.x, x)
            kept = np.where(lower, top.kept, kept)
        # Anything but a proof keeps a part open, a value that is no number too.
        is_open = ~(best < 0)
        return parts.row[is_open], low[is_open], high[is_open], x[is_open], kept[is_open]

    def _is_reached(self, x: Floats) -> Bools:
        return np.asarray((self.network.logits(x) @ self.others.T > 0).all(axis=1))

    def _cut(self, parts: Parts) -> tuple[Parts, Bools]:
        """Each part in two along the feature that matters most; and which rows have a part that is but a point."""
        weight = np.stack([self._width(parts, name) for name in self.encoder.schema_.names], axis=1)
        is_point, whole = weight.max(axis=1) <= 0, np.zeros(self.rows, dtype=bool)
        whole[parts.row[is_point]] = True
        parts, chosen = parts.take(~is_point), weight[~is_point].argmax(axis=1)
        first, second = (Parts(parts.row, parts.low.copy(), parts.high.copy()) for _ in range(2))
        for i, name in enumerate(self.encoder.schema_.names):
            cut = self._cut_category if self.encoder.schema_[name].is_category else self._cut_number
            cut(name, np.flatnonzero(chosen == i), first, second)
        both = zip(vars(first).values(), vars(second).values(), strict=True)
        return Parts(*(np.concatenate(pair) for pair in both)), whole

    def _width(self, parts: Parts, name: str) -> Floats:
        """How much a feature can matter in each part; 0 where it has one value only."""
        span = self.encoder.spans_[name]
        weight = self.importance[span]
        if self.encoder.schema_[name].is_number:
            return np.asarray(weight[0] * (parts.high[:, span.start] - parts.low[:, span.start]))
        allowed = parts.high[:, span] > 0
        several = allowed.sum(axis=1) > 1
        return np.where(several, 2 * np.where(allowed, weight, 0.0).max(axis=1), 0.0)

    def _cut_category(self, name: str, own: Places, first: Parts, second: Parts) -> None:
        """Half of the allowed levels in the one part, half in the other."""
        span = self.encoder.spans_[name]
        allowed = first.high[own, span] > 0
        rank = allowed.cumsum(axis=1)
        early = allowed & (rank <= rank[:, -1:] // 2)
        first.high[own, span], second.high[own, span] = early, allowed & ~early

    def _cut_number(self, name: str, own: Places, first: Parts, second: Parts) -> None:
        """The one part ends on the grid below the middle, the other begins above it."""
        feature, column = self.encoder.schema_[name], self.encoder.spans_[name].start
        start, spread = self.encoder.scale_[name]
        low, high, now = first.low[own, column], first.high[own, column], self.before[name][first.row[own]]
        middle = (low + high) / 2 * spread + start
        code = np.floor((middle - feature.at(np.array([0]))) / float(feature.step or 1)).astype(np.int64)
        left, right = feature.at(code), feature.at(code + 1)
        # A present value off the grid lies between the two, and goes with the first.
        left = np.where((left < now) & (now < right), now, left)
        first.high[own, column] = np.clip((left - start) / spread, low, high)
        second.low[own, column] = np.clip((right - start) / spread, low, high)
