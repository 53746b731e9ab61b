"""Ascend: steps up the slope of the model's margin, on encoded columns, kept inside the domain.

A category on its way is a mixture of levels, and counts as the level of which it has most. What a row comes by is
decoded, repaired and asked about like any other proposal; the slope may be that of a stand-in.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from .bench import Bench
from .pool import REFINE, Pool
from .space import Codes, Floats, Space

# Steps, the length of the first in encoded columns, and after how many a row is looked at.
STEPS, LENGTH, EVERY = 60, 0.08, 6
# Slopes flatter than this lead nowhere.
FLAT = 1e-12


def ascended(bench: Bench, base: Codes, slope: nn.Module) -> Pool:
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

    def __init__(self, space: Space, slope: nn.Module, wanted: Tensor) -> None:
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
