"""The last resort of rows without an answer: up the slope of the model, then features changed at random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from ...hashing import Keys, derived, keys_of, uniform
from ..batch import Batch
from ..candidates import REFINE, Candidates, joined
from ..space import Bools, Codes, Floats, SearchSpace

# Steps, the length of the first in encoded columns, and after how many a row is looked at.
STEPS, LENGTH, EVERY = 60, 0.08, 6
# Slopes flatter than this lead nowhere.
FLAT = 1e-12


def ascended(bench: Batch, base: Codes, slope: nn.Module) -> Candidates:
    """Good candidates on two ways up from each row's base: the steepest, and all features at the same pace."""
    rows = np.arange(len(base))
    if not len(rows):
        return bench.nothing()
    space = bench.space
    start = space.task.encoder.encode_natural(space.natural(bench.present, rows, base)).double()
    walk = _Walk(space, slope, torch.from_numpy(bench.present.wanted))
    seen = [walk.codes(x) for even in (False, True) for x in walk.up(start, even=even)]
    # Where a value has not left its present code, it is the present value, on the grid or off it.
    codes = np.stack(seen, axis=1).reshape(-1, base.shape[1])
    return bench.tried(np.repeat(rows, len(seen)), codes, REFINE)


class _Walk:
    """The columns of a task, and how they move."""

    def __init__(self, space: SearchSpace, slope: nn.Module, wanted: Tensor) -> None:
        self.space, self.slope, self.wanted = space, slope, wanted
        encoder = space.task.encoder
        self.spans = [encoder.spans_[name] for name in space.names]
        movable = np.repeat(space.movable, [s.stop - s.start for s in self.spans])
        self.movable = torch.from_numpy(movable.astype(np.float64))

    def up(self, x: Tensor, *, even: bool) -> list[Tensor]:
        """Where rows are after every few steps."""
        places = []
        for step in range(1, STEPS + 1):
            rise = self._rise(x) * self.movable
            # Ever shorter, so that a narrow ridge is met in the end.
            length = LENGTH * (1 - (step - 1) / STEPS)
            x = self._inside(x + length * (self._at_one_pace(rise) if even else _scaled(rise)))
            if step % EVERY == 0:
                places.append(x)
        return places

    def _rise(self, x: Tensor) -> Tensor:
        """The gradient of the margin: the class wanted against the best other."""
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            logits = self.slope(x)
            own = logits.gather(1, self.wanted[:, None])[:, 0]
            others = logits.scatter(1, self.wanted[:, None], -torch.inf).amax(dim=1)
            return torch.autograd.grad((own - others).sum(), x)[0].nan_to_num(0.0, 0.0, 0.0)

    def _at_one_pace(self, rise: Tensor) -> Tensor:
        return torch.cat([_scaled(rise[:, span]) for span in self.spans], dim=1)

    def _inside(self, x: Tensor) -> Tensor:
        """Numbers within their bounds, categories as mixtures of levels."""
        parts = []
        for i, span in enumerate(self.spans):
            if self.space.is_number[i]:
                low, high = self._bounds(i)
                # A present value off the grid may lie beyond its last value.
                parts.append(x[:, span].clamp(low, high))
            else:
                parts.append(_on_simplex(x[:, span]))
        return torch.cat(parts, dim=1)

    def _bounds(self, i: int) -> tuple[float, float]:
        start, spread = self.space.task.encoder.scale_[self.space.names[i]]
        low, high = self.space.features[i].at(np.array([0, self.space.tops[i]]))
        return float((low - start) / spread), float((high - start) / spread)

    def codes(self, x: Tensor) -> Codes:
        """The codes nearest to encoded rows."""
        found = np.empty((len(x), len(self.spans)), dtype=np.int64)
        # Rounded, so that levels that are equal but for their last bits go by their order.
        values: Floats = np.round(x.numpy(), 9)
        for i, span in enumerate(self.spans):
            if self.space.is_number[i]:
                start, spread = self.space.task.encoder.scale_[self.space.names[i]]
                found[:, i] = self.space.features[i].codes(values[:, span.start] * spread + start)
            else:
                found[:, i] = values[:, span].argmax(axis=1)
        return found


def _scaled(rise: Tensor) -> Tensor:
    """A step whose longest part is 1, or none where there is no slope."""
    most = rise.abs().amax(dim=1, keepdim=True)
    return torch.where(most > FLAT, rise / most.clamp_min(FLAT), torch.zeros_like(rise))


def _on_simplex(x: Tensor) -> Tensor:
    """The nearest point with parts of at least 0 that sum up to 1 (Held, Wolfe and Crowder 1974)."""
    falling = x.sort(dim=1, descending=True).values
    excess = falling.cumsum(dim=1) - 1
    count = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)
    last = (falling - excess / count > 0).sum(dim=1, keepdim=True) - 1
    return (x - excess.gather(1, last) / (last + 1)).clamp_min(0)


# Proposals of each row in a round, and rounds at most.
ROUND, ROUNDS = 64, 32
# Which share of the features changes, proposal after proposal.
SHARES = (0.25, 0.5, 0.75, 1.0)


def wide(bench: Batch, base: Codes, train: Codes, seed: int) -> Candidates:
    """Good candidates out of random ones; a row that has some needs no more rounds.

    A third of the new values are spread evenly over each grid, a third are ends of it, a third those of training rows.
    """
    keys = keys_of(bench.present.codes, bench.present.wanted, seed)
    best, margin = base.copy(), np.full(len(base), -np.inf)
    found = bench.nothing()
    for turn in range(ROUNDS):
        row, number = _asking(bench, ~found.has(len(base)))
        if not len(row) or bench.ledger.is_late:
            break
        own = derived(keys[row], turn * ROUND + number)
        codes = _changed(bench, best[row], train, own, np.take(SHARES, number % len(SHARES)))
        found = joined([found, _tried(bench, row, codes, best, margin)])
    return found


def _asking(bench: Batch, rows: Bools) -> tuple[Codes, Codes]:
    """Rows of the next proposals and the number of each in its round: no more than a row may still ask about."""
    left = np.full(len(rows), ROUND) if bench.oracle.cheap else np.minimum(bench.ledger.left, ROUND)
    count = np.where(rows, left, 0)
    row = np.repeat(np.arange(len(rows)), count)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)


def _changed(bench: Batch, codes: Codes, train: Codes, keys: Keys, share: Floats) -> Codes:
    """Candidates with a share of their features changed, each with a key of its own."""
    codes = codes.copy()
    for i in np.flatnonzero(bench.space.movable).tolist():
        here, place = uniform(keys, 3 * i) < share, uniform(keys, 3 * i + 1)
        even = (place * (bench.space.tops[i] + 1)).astype(np.int64)
        usual = train[(place * len(train)).astype(np.int64), i]
        ends = np.where(place < 0.5, 0, bench.space.tops[i])
        sort = (3 * uniform(keys, 3 * i + 2)).astype(np.int64)
        codes[here, i] = np.choose(sort, (even, ends, usual))[here]
    return codes


def _tried(bench: Batch, row: Codes, codes: Codes, best: Codes, margin: Floats) -> Candidates:
    """Good ones of some candidates; whatever comes nearer than the best of its row takes its place."""
    codes = bench.space.inside(bench.present, row, codes)
    codes, kept = bench.mend(row, codes)
    row, codes = row[kept], codes[kept]
    asked = bench.ask(row, codes)
    near = np.round(asked.margin, 9)
    order = np.lexsort((np.arange(len(row)), -near, row))
    first = order[np.flatnonzero(np.diff(row[order], prepend=-1))]
    better = first[near[first] > margin[row[first]]]
    best[row[better]], margin[row[better]] = codes[better], near[better]
    good = asked.valid
    return bench.priced(row[good], codes[good], REFINE)


def refined(bench: Batch, base: Codes, slope: nn.Module | None, train: Codes, seed: int) -> Candidates:
    """Good candidates for some rows; `slope` is the model with gradients, if there is one."""
    pool = bench.nothing() if slope is None else ascended(bench, base, slope)
    rows = np.flatnonzero(~pool.has(len(base)))
    part = bench.of(rows)
    more = wide(part, base[rows], train, seed)
    bench.settle(part, rows)
    return joined([pool, replace(more, row=rows[more.row])])
