"""One small loop for every network that a method trains: shuffled mini-batches and Adam.

All randomness comes from the generator that is handed in, dropout's included, so that a seed gives the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from ..classifier.networks import one_thread
from ..errors import TrainingError
from ..generator.cvae import SeededDropout
from ..generator.training import Schedule

LossOfBatch = Callable[..., Tensor]


def minimise(
    module: nn.Module,
    loss_of_batch: LossOfBatch,
    rows: Sequence[Tensor],
    *,
    epochs: int,
    batch: int,
    learning_rate: float,
    generator: torch.Generator,
    weight_decay: float = 0.0,
    clip: float = math.inf,
    steps: int = 0,
) -> list[float]:
    """Train the module's parameters, leave it in evaluation mode, and tell the mean loss of each epoch.

    `rows` are tensors of equal length, and `loss_of_batch(*some_of_each, progress)` is the mean loss of a batch, a
    scalar; `progress` is the share of the epochs that are done, from 0 to below 1, for weights that rise or fall.
    Gradients longer than `clip` are shortened. Where the epochs together have fewer than `steps` steps, as with few
    rows, batches become smaller and epochs more.
    """
    if len(rows[0]) < 2:
        raise TrainingError(f"there are {len(rows[0])} rows to train on, and at least two are needed")
    sized = Schedule(epochs=epochs, batch=batch, learning_rate=learning_rate, steps=steps).sized(len(rows[0]))
    optimiser = torch.optim.Adam(module.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True)
    share_generator(module, generator)
    losses: list[float] = []
    with one_thread():
        module.train()
        for epoch in range(sized.epochs):
            total = 0.0
            for part in batches(len(rows[0]), sized.batch, generator):
                loss = loss_of_batch(*(t.index_select(0, part) for t in rows), epoch / sized.epochs)
                _step(module, optimiser, loss, clip)
                total += float(loss.detach()) * len(part)
            losses.append(_checked(total / len(rows[0]), epoch))
        module.eval()
    return losses


def _step(module: nn.Module, optimiser: torch.optim.Optimizer, loss: Tensor, clip: float) -> None:
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if math.isfinite(clip):
        clip_grad_norm_(module.parameters(), clip)
    optimiser.step()


def batches(rows: int, size: int, generator: torch.Generator) -> list[Tensor]:
    """The places of all rows in random order, in even batches of about this size.

    Even, since a last one of a single row would upset batch norm.
    """
    order = torch.randperm(rows, generator=generator)
    return list(order.tensor_split(max(1, min(round(rows / size), rows // 2))))


def share_generator(module: nn.Module, generator: torch.Generator) -> None:
    """Let dropout draw from this generator."""
    for layer in module.modules():
        if isinstance(layer, SeededDropout):
            layer.generator = generator


def _checked(loss: float, epoch: int) -> float:
    if not math.isfinite(loss):
        raise TrainingError(f"epoch {epoch + 1}: the loss is {loss}. Lower the learning rate.")
    return loss
