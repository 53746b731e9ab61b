"""A network's scores as soft rows: numbers between 0 and 1, and for each category a share of every level."""

from __future__ import annotations

import torch
from torch import Tensor

from ..model.layout import Layout


def soft_rows(scores: Tensor, layout: Layout, temperature: float = 1.0) -> Tensor:
    """Sigmoids of numbers' columns and a softmax at `temperature` over each category's, `n x d` as the scores."""
    parts = torch.split(scores, [stop - start for start, stop in layout.spans], dim=1)
    soft = [
        (part / temperature).softmax(dim=1) if number is None else part.sigmoid()
        for part, number in zip(parts, layout.ranges, strict=True)
    ]
    return torch.cat(soft, dim=1)
