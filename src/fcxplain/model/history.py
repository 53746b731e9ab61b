"""The record of a training run: every term, on training and validation rows, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Epoch:
    """Means of every term over one epoch: on training rows as they were trained, and on validation rows."""

    number: int
    train: dict[str, float]
    validation: dict[str, float]


@dataclass(repr=False)
class History:
    """One line per epoch."""

    epochs: list[Epoch] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"History({self.told})"

    @property
    def told(self) -> str:
        """How it went, in a line."""
        if not self.epochs:
            return "no epochs"
        first, last = self.epochs[0], self.epochs[-1]
        length = "1 epoch" if len(self.epochs) == 1 else f"{len(self.epochs):,} epochs"
        best = min(e.validation["total"] for e in self.epochs)
        return f"{length}, loss {first.train['total']:.4g} -> {last.train['total']:.4g}; on validation rows {best:.4g}"

    def add(self, epoch: Epoch) -> None:
        """Write the next line."""
        self.epochs.append(epoch)

    @property
    def best(self) -> Epoch | None:
        """The epoch with the lowest validation loss, the earliest of equals."""
        return min(self.epochs, key=lambda e: e.validation["total"], default=None)

    def curve(self, term: str, part: str = "train") -> list[float]:
        """One term over the epochs, for a plot."""
        return [getattr(e, part)[term] for e in self.epochs]

    def to_list(self) -> list[dict[str, object]]:
        """Plain data, as it is saved."""
        return [{"number": e.number, "train": e.train, "validation": e.validation} for e in self.epochs]

    @classmethod
    def from_list(cls, data: list[dict[str, Any]]) -> History:
        """The inverse of `to_list`."""
        return cls([Epoch(int(e["number"]), _floats(e["train"]), _floats(e["validation"])) for e in data])


def _floats(values: dict[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in values.items()}
