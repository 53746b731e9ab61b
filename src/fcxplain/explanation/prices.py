"""Prices: what answers were chosen by, as far as that is a matter of the row and its counterfactual alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Prices:
    """What changes cost.

    several: that more than one feature changes. change: each feature that does; category: each category on top of
    that. distance: each unit (MAD of the training rows) that a number moves. difficulty: by what the price of a
    feature is multiplied, 1 by default.
    """

    several: float = 0.0
    change: float = 1.0
    category: float = 0.0
    distance: float = 1.0
    difficulty: Mapping[str, float] = field(default_factory=dict)
