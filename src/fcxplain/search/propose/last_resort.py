"""The last resort for rows without an answer: gradient ascent on the model, then random changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...hashing import Keys, derived, keys_of, uniform
from ...outcome import Outcomes
from ..batch import Batch
from ..candidates import REFINE, Candidates, Found, joined
from ..space import Bools, Codes, Floats, SearchSpace

if TYPE_CHECKING:
    from torch import Tensor, nn

# Gradient steps, the length of the first in encoded columns, and the interval at which rows are recorded.
STEPS, LENGTH, EVERY = 60, 0.08, 6
# Gradients smaller than this count as 0.
FLAT = 1e-12


def uphill(batch: Batch, found: Found) -> Candidates:
    """Good candidates from two gradient ascents from each row's base: steepest, and all features at one pace."""
    slope, base = batch.context.shared.slope, found.base
    if slope is None:
        return batch.nothing()
    rows = np.arange(len(base))
    space = batch.space
    start = space.task.encoder.encode_array(space.natural(batch.rows, rows, base)).astype(np.float64)
    walk = _Walk(space, slope, batch.rows.wanted)
    seen = [walk.codes(x) for even in (False, True) for x in walk.up(start, even=even)]
    codes, row = np.stack(seen, axis=1).reshape(-1, base.shape[1]), np.repeat(rows, len(seen))
    # A value that has not left its present code is the present value, on the grid or off it.
    return batch.tried(row, batch.rows.unmoved(row, codes), REFINE)


class _Walk:
    """Gradient ascent on the encoded columns of a task."""

    def __init__(self, space: SearchSpace, slope: nn.Module, wanted: Outcomes) -> None:
        self.space, self.slope, self.wanted = space, slope, wanted
        encoder = space.task.encoder
        self.spans = [encoder.spans_[name] for name in space.names]
        movable = np.repeat(space.movable, [s.stop - s.start for s in self.spans])
        self.movable: Floats = movable.astype(np.float64)

    def up(self, x: Floats, *, even: bool) -> list[Floats]:
        """The rows after every few steps."""
        places = []
        for step in range(1, STEPS + 1):
            rise = self._rise(x) * self.movable
            # Steps get shorter, so that a narrow ridge is reached in the end.
            length = LENGTH * (1 - (step - 1) / STEPS)
            x = self._inside(x + length * (self._at_one_pace(rise) if even else _scaled(rise)))
            if step % EVERY == 0:
                places.append(x)
        return places

    def _rise(self, x: Floats) -> Floats:
        """The gradient of the margin."""
        import torch

        with torch.enable_grad():
            at = torch.from_numpy(x).requires_grad_(True)
            margin = self._margin(self.slope(at))
            rise: Floats = torch.autograd.grad(margin.sum(), at)[0].nan_to_num(0.0, 0.0, 0.0).numpy()
        return rise

    def _margin(self, logits: Tensor) -> Tensor:
        """The best target class against the best other class, or how far the output is inside its target range."""
        import torch

        if not self.wanted.classes:
            low, high = torch.from_numpy(self.wanted.bounds.T.copy())
            output = logits[:, 1] - logits[:, 0]
            return torch.minimum(output - low, high - output)
        accepted = torch.from_numpy(self.wanted.accepted)
        own, others = (logits.masked_fill(which, -torch.inf).amax(dim=1) for which in (~accepted, accepted))
        return own - others

    def _at_one_pace(self, rise: Floats) -> Floats:
        return np.concatenate([_scaled(rise[:, span]) for span in self.spans], axis=1)

    def _inside(self, x: Floats) -> Floats:
        """Numbers within their bounds, categories as mixtures of levels."""
        parts = []
        for i, span in enumerate(self.spans):
            if self.space.is_number[i]:
                low, high = self._bounds(i)
                # A present off-grid value may lie beyond the bounds.
                parts.append(x[:, span].clip(low, high))
            else:
                parts.append(on_simplex(x[:, span]))
        return np.concatenate(parts, axis=1)

    def _bounds(self, i: int) -> tuple[float, float]:
        start, spread = self.space.task.encoder.scale_[self.space.names[i]]
        low, high = self.space.features[i].at(np.array([0, self.space.tops[i]]))
        return float((low - start) / spread), float((high - start) / spread)

    def codes(self, x: Floats) -> Codes:
        """The codes nearest to encoded rows."""
        found = np.empty((len(x), len(self.spans)), dtype=np.int64)
        # Rounded, so that ties up to the last bits go to the first level.
        values: Floats = np.round(x, 9)
        for i, span in enumerate(self.spans):
            if self.space.is_number[i]:
                start, spread = self.space.task.encoder.scale_[self.space.names[i]]
                found[:, i] = self.space.features[i].codes(values[:, span.start] * spread + start)
            else:
                found[:, i] = values[:, span].argmax(axis=1)
        return found


def _scaled(rise: Floats) -> Floats:
    """A step whose longest part is 1, or 0 without a gradient."""
    most = np.abs(rise).max(axis=1, keepdims=True)
    return np.where(most > FLAT, rise / np.maximum(most, FLAT), 0.0)


def on_simplex(x: Floats) -> Floats:
    """Project onto the simplex: parts of at least 0 that sum to 1 (Held, Wolfe and Crowder 1974)."""
    falling = -np.sort(-x, axis=1)
    excess = falling.cumsum(axis=1) - 1
    last = (falling - excess / np.arange(1, x.shape[1] + 1) > 0).sum(axis=1, keepdims=True) - 1
    return np.asarray((x - np.take_along_axis(excess, last, axis=1) / (last + 1)).clip(min=0))


# Proposals per row and round, and the most rounds.
ROUND, ROUNDS = 64, 32
# Shares of the features that change, cycled over the proposals.
SHARES = (0.25, 0.5, 0.75, 1.0)


def random_changes(batch: Batch, found: Found) -> Candidates:
    """Good candidates among random ones; a row that has one needs no more rounds.

    A third of the new values are uniform over each grid, a third are its ends, a third come from training rows.
    """
    train, keys = (
        batch.context.shared.train,
        keys_of(batch.rows.codes, batch.rows.wanted.keys, batch.context.settings.seed),
    )
    best, margin, pool = found.base.copy(), np.full(len(batch), -np.inf), batch.nothing()
    for turn in range(ROUNDS):
        row, number = _asking(batch, ~pool.has(len(batch)))
        if not len(row) or batch.spending.is_late:
            break
        own = derived(keys[row], turn * ROUND + number)
        codes = _changed(batch, best[row], train, own, np.take(SHARES, number % len(SHARES)))
        pool = joined([pool, _tried(batch, row, codes, best, margin)])
    return pool


def _asking(batch: Batch, rows: Bools) -> tuple[Codes, Codes]:
    """The rows of the next proposals, within their budgets, and the number of each proposal in its round."""
    left = np.full(len(rows), ROUND) if batch.oracle.cheap else np.minimum(batch.spending.left, ROUND)
    count = np.where(rows, left, 0)
    row = np.repeat(np.arange(len(rows)), count)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)


def _changed(batch: Batch, codes: Codes, train: Codes, keys: Keys, share: Floats) -> Codes:
    """Candidates with a random share of their features changed, each by its own key."""
    codes = codes.copy()
    for i in np.flatnonzero(batch.space.movable).tolist():
        here, place = uniform(keys, 3 * i) < share, uniform(keys, 3 * i + 1)
        even = (place * (batch.space.tops[i] + 1)).astype(np.int64)
        usual = train[(place * len(train)).astype(np.int64), i]
        ends = np.where(place < 0.5, 0, batch.space.tops[i])
        sort = (3 * uniform(keys, 3 * i + 2)).astype(np.int64)
        codes[here, i] = np.choose(sort, (even, ends, usual))[here]
    return codes


def _tried(batch: Batch, row: Codes, codes: Codes, best: Codes, margin: Floats) -> Candidates:
    """The good ones among candidates; a candidate nearer than the best of its row replaces it."""
    row, codes, replies = batch.replies(row, batch.space.inside(batch.rows, row, codes))
    near = np.round(replies.margin, 9)
    order = np.lexsort((np.arange(len(row)), -near, row))
    first = order[np.flatnonzero(np.diff(row[order], prepend=-1))]
    better = first[near[first] > margin[row[first]]]
    best[row[better]], margin[row[better]] = codes[better], near[better]
    return batch.priced(row[replies.valid], codes[replies.valid], REFINE)
