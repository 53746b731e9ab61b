"""The small networks of this library, and the training of those that act as classifiers.

All randomness comes from a `torch.Generator`: the global random state is neither read nor changed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..progress import OnProgress, Progress, no_progress
from ..training_loop import Adam, Schedule, TrainingLoop, Values, descend, slow_down

# Rows per batch when computing the loss.
CHUNK = 65_536
FITTING = Schedule(epochs=100, patience=8, steps=1000)


@dataclass(frozen=True)
class Examples:
    """Encoded rows `x` with their targets `y`: class indices `n` or probabilities `n x classes`."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Tensor | slice) -> Examples:
        """Some of the examples."""
        return Examples(self.x[rows], self.y[rows])


def mlp(
    inputs: int,
    outputs: int,
    generator: torch.Generator,
    dtype: torch.dtype,
    hidden: Sequence[int] = (32, 32),
    *,
    relu: bool = True,
) -> nn.Sequential:
    """Linear layers with ReLUs between them, or with nothing."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise((inputs, *hidden, outputs)):
        layers += [nn.ReLU()] if layers and relu else []
        layers.append(seeded_linear(before, after, generator, dtype))
    return nn.Sequential(*layers)


def seeded_linear(inputs: int, outputs: int, generator: torch.Generator, dtype: torch.dtype) -> nn.Linear:
    """A linear layer with torch's usual initialisation, drawn from the generator."""
    layer = empty_linear(inputs, outputs, dtype)
    bound = 1 / math.sqrt(inputs)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


class SeededDropout(nn.Module):
    """Dropout with masks from its own generator, never from torch's global state."""

    def __init__(self, share: float, generator: torch.Generator) -> None:
        super().__init__()
        self.share, self.generator = share, generator

    def forward(self, x: Tensor) -> Tensor:
        """`x` with a share of its values set to 0 and the rest scaled up, in training only."""
        if not self.training or not self.share:
            return x
        drawn = torch.rand(x.shape, generator=self.generator, device=self.generator.device)
        return x * drawn.ge_(self.share).div_(1 - self.share).to(x.device)


class Ramps(nn.Module):
    """Append to encoded rows a ramp from 0 to 1 between each two neighbouring cuts of a number.

    With these, a small network can fit the steps of trees.
    """

    columns: Tensor
    low: Tensor
    spread: Tensor

    def __init__(self, columns: Tensor, low: Tensor, spread: Tensor) -> None:
        super().__init__()
        for name, tensor in (("columns", columns), ("low", low), ("spread", spread)):
            self.register_buffer(name, tensor)

    @classmethod
    def at_quantiles(cls, x: Tensor, columns: Sequence[int], count: int) -> Ramps:
        """At most `count` ramps for each of these columns, cut at the quantiles of encoded rows."""
        shares = torch.linspace(0, 1, count + 1, dtype=x.dtype)
        cuts = [_distinct(torch.quantile(x[:, c], shares)) for c in columns]
        places = [torch.full((len(c) - 1,), column) for c, column in zip(cuts, columns, strict=True)]
        empty = x.new_zeros(0)
        return cls(
            torch.cat([empty.long(), *places]),
            torch.cat([empty, *(c[:-1] for c in cuts)]),
            torch.cat([empty, *(c.diff() for c in cuts)]),
        )

    @property
    def count(self) -> int:
        """Number of columns added."""
        return len(self.columns)

    def forward(self, x: Tensor) -> Tensor:
        """`n x width` to `n x (width + count)`."""
        ramps = (x[:, self.columns] - self.low) / self.spread
        return torch.cat([x, ramps.clamp(0, 1)], dim=1)


def empty_linear(inputs: int, outputs: int, dtype: torch.dtype, device: torch.device | None = None) -> nn.Linear:
    """An uninitialised linear layer: torch's own initialisation would draw from the global state."""
    # As in `nn.utils.skip_init`, which would load parts of torch that are not needed here.
    layer = nn.Linear(inputs, outputs, dtype=dtype, device="meta")
    layer.weight = nn.Parameter(torch.empty((outputs, inputs), dtype=dtype, device=device))
    layer.bias = nn.Parameter(torch.empty(outputs, dtype=dtype, device=device))
    return layer


def fit_network(
    model: nn.Module,
    train: Examples,
    validation: Examples,
    generator: torch.Generator,
    fitting: Schedule = FITTING,
    on_progress: OnProgress = no_progress,
) -> None:
    """Run Adam on shuffled batches until the validation loss stops falling, and keep the best weights.

    `on_progress` is called after each epoch, with the largest number of epochs: training may stop earlier.
    """
    sized = sized_for(fitting, len(train))
    optimiser = Adam(model.parameters(), sized.learning_rate)

    def batches() -> Iterator[Examples]:
        # Shuffled as a whole: rows gathered batch by batch would have another memory layout, and round differently.
        rows = train.take(torch.randperm(len(train), generator=generator))
        yield from (rows.take(slice(start, start + sized.batch)) for start in range(0, len(rows), sized.batch))

    def step(batch: Examples) -> Values:
        slow_down(optimiser, sized.learning_rate, loop.epoch / sized.epochs, sized.decay)
        return descend(optimiser, cross_entropy(model(batch.x), batch.y))

    def notify(hook: str, *_: object) -> None:
        if hook == "on_epoch_end":
            on_progress(Progress("training the classifier", loop.epoch, sized.epochs))

    loop = TrainingLoop(
        model,
        batches,
        step,
        epochs=sized.epochs,
        validate=lambda: {"total": mean_loss(model, validation)},
        patience=sized.patience,
        notify=notify,
    )
    loop.run()


def sized_for(fitting: Schedule, rows: int) -> Schedule:
    """The schedule for this many rows: classifiers have smaller batches, and reach `steps` by more epochs."""
    batch = max(16, min(fitting.batch, rows // 8))
    factor = max(1.0, fitting.steps / (fitting.epochs * math.ceil(rows / batch)))
    patience = None if fitting.patience is None else math.ceil(fitting.patience * factor)
    return replace(fitting, batch=batch, epochs=math.ceil(fitting.epochs * factor), patience=patience)


@torch.no_grad()
def mean_loss(model: nn.Module, examples: Examples) -> float:
    """Mean cross entropy of the examples."""
    model.eval()
    total = 0.0
    for start in range(0, len(examples), CHUNK):
        part = examples.take(slice(start, start + CHUNK))
        total += float(cross_entropy(model(part.x), part.y, reduction="sum"))
    return total / len(examples)


def _distinct(rising: Tensor) -> Tensor:
    return torch.cat([rising[:1], rising[1:][rising.diff() > 0]])
