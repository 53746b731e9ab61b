"""The two networks of FCEGAN, built as CTGAN's: a generator of residual blocks, and a critic of packs of rows."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from ..classifier.networks import seeded_linear
from ..model.cvae import SeededDropout
from .columns import Columns
from .soft_rows import soft_rows

WIDTHS = (256, 256)


class Generator(nn.Module):
    """From a row, its template, the class wanted and noise to a soft row; each block hands its input on beside.

    Numbers end in a sigmoid, which is the original's tanh in encoded units. `owner`, `d`, says which feature a column
    belongs to, and `category` whether that is one.
    """

    owner: Tensor
    category: Tensor

    def __init__(self, columns: Columns, noise: int, temperature: float, generator: torch.Generator) -> None:
        super().__init__()
        self.columns, self.temperature = columns, temperature
        layout = columns.layout
        owners = [i for i, (start, stop) in enumerate(layout.spans) for _ in range(start, stop)]
        self.register_buffer("owner", torch.tensor(owners))
        self.register_buffer("category", torch.tensor([layout.ranges[i] is None for i in owners]))
        inputs = 2 * layout.width + len(layout.spans) + layout.classes + noise
        self.blocks = nn.ModuleList()
        for width in WIDTHS:
            linear = seeded_linear(inputs, width, generator, torch.float32)
            self.blocks.append(nn.Sequential(linear, nn.BatchNorm1d(width), nn.ReLU()))
            inputs += width
        self.output = seeded_linear(inputs, layout.width, generator, torch.float32)

    def forward(self, x: Tensor, may: Tensor, y_target: Tensor, noise: Tensor, gumbel: Tensor) -> Tensor:
        """Counterfactuals, `n x d`, for rows of which the features `may` change, `n x features`; the rest is kept.

        `noise` is normal, and `gumbel`, `n x d`, is the noise that draws levels.
        """
        changes = may.index_select(1, self.owner)
        wanted = one_hot(y_target, self.columns.layout.classes).to(x.dtype)
        hidden = torch.cat([x, x.masked_fill(changes, 0.0), may.to(x.dtype), wanted, noise], dim=1)
        for block in self.blocks:
            hidden = torch.cat([block(hidden), hidden], dim=1)
        scores = self.output(hidden) + gumbel * self.category
        return torch.where(changes, soft_rows(scores, self.columns.layout, self.temperature), x)


def critic(inputs: int, generator: torch.Generator) -> nn.Sequential:
    """Packs of rows to scores, the higher the likelier real."""
    layers: list[nn.Module] = []
    for a, b in pairwise((inputs, *WIDTHS)):
        layers += [seeded_linear(a, b, generator, torch.float32), nn.LeakyReLU(0.2), SeededDropout(0.5, generator)]
    return nn.Sequential(*layers, seeded_linear(WIDTHS[-1], 1, generator, torch.float32))
