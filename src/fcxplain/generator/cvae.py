"""The conditional VAE of the paper (sections 4.1 and 5.2): from a row and its target class to a counterfactual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from ..classifier.networks import SeededDropout, seeded_linear
from .heads import Allowed, Heads
from .settings import Architecture, Layout

SMALLEST_VARIANCE = 1e-6


@dataclass(frozen=True)
class Draw:
    """The generator's output for a batch: counterfactuals `n x d`, and their latent points.

    For a generator with gates, `gates`, `n x mutable features`, are the probabilities of change, and `surprise` is the
    mean distance of its outputs from known answers.
    """

    x_cf: Tensor
    z: Tensor
    mean: Tensor
    variance: Tensor
    gates: Tensor | None = None
    surprise: Tensor | None = None


class ConditionalVAE(nn.Module):
    """Encoder and decoder of five linear layers each, with batch norm, ReLU and dropout after all but the last."""

    def __init__(self, layout: Layout, architecture: Architecture, generator: torch.Generator) -> None:
        super().__init__()
        self.layout, self.architecture = layout, architecture
        columns = layout.mutable_columns
        self.register_buffer("columns", torch.tensor(columns, dtype=torch.long), persistent=False)
        a = architecture
        # Two classes are one input, 0 or 1, as in the paper; with more, each class but the first has an input.
        conditions = layout.classes - 1
        into = (len(columns) + conditions, *a.hidden)
        self.encoder = stack(into, a.dropout, generator)
        self.mean = seeded_linear(into[-1], a.latent, generator, torch.float32)
        self.spread = seeded_linear(into[-1], a.latent, generator, torch.float32)
        out = (_decoder_inputs(layout, a), *reversed(a.hidden))
        self.decoder = stack(out, a.dropout, generator)
        self.output = seeded_linear(out[-1], _outputs(layout, a), generator, torch.float32)
        self.heads = Heads(layout, a.temperature, generator) if a.gates else None

    columns: Tensor

    def encode(self, x: Tensor, y_target: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the latent point, `n x latent` each."""
        # Tables with fine grids are encoded in double precision; single precision is enough for the network.
        seen = x.index_select(1, self.columns).to(self.mean.weight.dtype)
        hidden = self.encoder(torch.cat([seen, self.condition(y_target, seen)], dim=1))
        raw = self.spread(hidden)
        if self.architecture.variance == "sigmoid":
            return self.mean(hidden), 0.5 + raw.sigmoid()
        return self.mean(hidden), nn.functional.softplus(raw) + SMALLEST_VARIANCE

    def decode(
        self, z: Tensor, x: Tensor, y_target: Tensor, allowed: Allowed | None = None, jitter: Tensor | None = None
    ) -> Tensor:
        """Counterfactuals in encoded columns, with the immutable columns of `x`.

        Without gates, values are between 0 and 1. With gates, each counterfactual is a legal row inside `allowed`;
        `jitter` is noise on the heads' scores (see `Heads.jitter`).
        """
        outputs = self._outputs(z, x, y_target)
        if self.heads is not None:
            return cast("Tensor", self.heads(outputs, x, allowed, jitter)[0])
        if allowed is not None or jitter is not None:
            raise ValueError("a generator without gates has no rule layer and no choices; give it gates")
        return x.index_copy(1, self.columns, outputs.sigmoid().to(x.dtype))

    def _outputs(self, z: Tensor, x: Tensor, y_target: Tensor) -> Tensor:
        seen = [z, self.condition(y_target, z), *([x.to(z.dtype)] if self.architecture.skip else [])]
        return cast("Tensor", self.output(self.decoder(torch.cat(seen, dim=1))))

    def forward(
        self,
        x: Tensor,
        y_target: Tensor,
        noise: Tensor,
        allowed: Allowed | None = None,
        answers: Tensor | None = None,
    ) -> Draw:
        """Draw once per row; `noise` is standard normal, `n x latent`, or zero for the latent mean itself.

        For a generator with gates, `allowed` is what the rules allow each row, and `answers`, `n x d`, are known
        answers; a row without a known answer has itself there.
        """
        mean, variance = self.encode(x, y_target)
        z = mean + variance.sqrt() * noise
        if self.heads is None:
            return Draw(self.decode(z, x, y_target, allowed), z, mean, variance)
        outputs = self._outputs(z, x, y_target)
        x_cf, gates = self.heads(outputs, x, allowed)
        surprise = None if answers is None else self.heads.surprise(outputs, x, answers, allowed)
        return Draw(x_cf, z, mean, variance, gates, surprise)

    def condition(self, y_target: Tensor, like: Tensor) -> Tensor:
        """The target class as network inputs, `n x (classes - 1)`."""
        return nn.functional.one_hot(y_target, self.layout.classes)[:, 1:].to(like.dtype)


def stack(widths: Sequence[int], dropout: float, generator: torch.Generator) -> nn.Sequential:
    """Linear layers of these widths, each followed by batch norm, ReLU and dropout."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [seeded_linear(inputs, outputs, generator, torch.float32), nn.BatchNorm1d(outputs), nn.ReLU()]
        layers.append(SeededDropout(dropout, generator))
    return nn.Sequential(*layers)


def weight_shapes(layout: Layout, architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a `ConditionalVAE`'s weights, without building one."""
    columns, conditions, a = len(layout.mutable_columns), layout.classes - 1, architecture
    into, out = (columns + conditions, *a.hidden), (_decoder_inputs(layout, a), *reversed(a.hidden))
    shapes: dict[str, tuple[int, ...]] = {}
    for name, widths in (("encoder", into), ("decoder", out)):
        for i, (inputs, outputs) in enumerate(pairwise(widths)):
            shapes |= _linear_shapes(f"{name}.{4 * i}", inputs, outputs)
            norm = f"{name}.{4 * i + 1}"
            shapes |= {f"{norm}.{part}": (outputs,) for part in ("weight", "bias", "running_mean", "running_var")}
            shapes[f"{norm}.num_batches_tracked"] = ()
    for name in ("mean", "spread"):
        shapes |= _linear_shapes(name, into[-1], a.latent)
    return shapes | _linear_shapes("output", out[-1], _outputs(layout, a))


def _decoder_inputs(layout: Layout, architecture: Architecture) -> int:
    return architecture.latent + layout.classes - 1 + (layout.width if architecture.skip else 0)


def _outputs(layout: Layout, architecture: Architecture) -> int:
    return layout.head_width if architecture.gates else len(layout.mutable_columns)


def _linear_shapes(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}
