"""The small networks of this library and the loop that trains them.

All randomness comes from a `torch.Generator`: the global random state is neither read nor changed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

# Rows whose loss is taken at a time.
CHUNK = 65_536

OnEpoch = Callable[[int, int], None]
"""Told after each epoch how many are done, and how many there are at most: a training may stop before."""


@dataclass(frozen=True)
class Examples:
    """Encoded rows `x` with what they should get, `y`: class indices `n` or probabilities `n x classes`."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Tensor | slice) -> Examples:
        """Some of the examples."""
        return Examples(self.x[rows], self.y[rows])


@dataclass(frozen=True)
class Fitting:
    """How a network is trained. Small tables get smaller batches and more epochs."""

    batch: int = 2048
    learning_rate: float = 1e-2
    epochs: int = 100
    patience: int = 8
    steps: int = 1000
    """Fewer steps than this in all the epochs together, and there are more epochs."""

    def sized(self, rows: int) -> Fitting:
        """The settings for this many rows."""
        batch = max(16, min(self.batch, rows // 8))
        factor = max(1.0, self.steps / (self.epochs * math.ceil(rows / batch)))
        epochs, patience = math.ceil(self.epochs * factor), math.ceil(self.patience * factor)
        return Fitting(batch, self.learning_rate, epochs, patience, self.steps)


def paper_network(inputs: int, classes: int, generator: torch.Generator, dtype: torch.dtype) -> nn.Sequential:
    """The black box of the paper: two linear layers with 10 units between them and no activation."""
    return network((inputs, 10, classes), generator, dtype, relu=False)


def mlp(
    inputs: int,
    classes: int,
    generator: torch.Generator,
    dtype: torch.dtype,
    hidden: Sequence[int] = (32, 32),
) -> nn.Sequential:
    """Linear layers with ReLUs between them."""
    return network((inputs, *hidden, classes), generator, dtype, relu=True)


def network(widths: Sequence[int], generator: torch.Generator, dtype: torch.dtype, *, relu: bool) -> nn.Sequential:
    """Linear layers of these widths, from inputs to outputs."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        if layers and relu:
            layers.append(nn.ReLU())
        layers.append(seeded_linear(inputs, outputs, generator, dtype))
    return nn.Sequential(*layers)


def seeded_linear(inputs: int, outputs: int, generator: torch.Generator, dtype: torch.dtype) -> nn.Linear:
    """A linear layer with torch's usual initialisation, drawn from the generator."""
    layer = empty_linear(inputs, outputs, dtype)
    bound = 1 / math.sqrt(inputs)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


class Ramps(nn.Module):
    """Encoded rows, and behind them a ramp from 0 to 1 between each two neighbouring cuts of a number.

    With these, a small network can follow the steps that trees make.
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
    """A linear layer without any values yet: torch's own initialisation would draw from the global state."""
    layer = nn.utils.skip_init(  # type: ignore[no-untyped-call]
        nn.Linear, inputs, outputs, dtype=dtype, device=device or torch.device("cpu")
    )
    assert isinstance(layer, nn.Linear)
    return layer


def fit_network(
    model: nn.Module,
    train: Examples,
    validation: Examples,
    generator: torch.Generator,
    fitting: Fitting | None = None,
    on_epoch: OnEpoch | None = None,
) -> None:
    """Adam on shuffled batches until the validation loss has stopped falling; the best weights are kept."""
    with one_thread():
        _fit(model, train, validation, generator, (fitting or Fitting()).sized(len(train)), on_epoch)


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread: sums have one order, so that a seed gives the same weights everywhere.

    Networks as small as these also train faster so.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _fit(
    model: nn.Module,
    train: Examples,
    validation: Examples,
    generator: torch.Generator,
    fitting: Fitting,
    on_epoch: OnEpoch | None,
) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=fitting.learning_rate, fused=True)
    best, best_loss, waited = _weights(model), math.inf, 0
    for epoch in range(1, fitting.epochs + 1):
        _epoch(model, train.take(torch.randperm(len(train), generator=generator)), optimiser, fitting.batch)
        loss = mean_loss(model, validation)
        waited = 0 if loss < best_loss else waited + 1
        if loss < best_loss:
            best, best_loss = _weights(model), loss
        if on_epoch is not None:
            on_epoch(epoch, fitting.epochs)
        if waited >= fitting.patience:
            break
    model.load_state_dict(best)
    model.eval()


def _epoch(model: nn.Module, train: Examples, optimiser: torch.optim.Optimizer, batch: int) -> None:
    model.train()
    for start in range(0, len(train), batch):
        part = train.take(slice(start, start + batch))
        optimiser.zero_grad()
        cross_entropy(model(part.x), part.y).backward()  # type: ignore[no-untyped-call]
        optimiser.step()


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


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}
