"""VCNet (Guyomard et al., 2022): a conditional VAE that reads the predicted class and decodes under the target class.

Widths and weights are those of the authors' public code. The original trains a predictor together with the VAE; the
post-hoc form explains an existing model. It needs no gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot, softplus

from ..classifier import differentiable
from ..classifier.networks import seeded_linear
from ..errors import DataError, Fault, some
from ..explanation import Explanation
from ..generator.losses import kl
from ..generator.view import class_indices
from ..hashing import row_noise
from ..task import Task
from ..training_loop import Schedule, minimise
from .base import BaseMethod, BatchSize, Count, Outputs, Positive, RowsAsked, Weight, answered, in_parts, width_faults
from .encoded import ColumnLayout, soft_rows

Form = Literal["post-hoc", "joint"]
# Rows decoded at a time.
CHUNK = 8_192
SMALLEST_VARIANCE = 1e-6
# The logarithm of 0 would make the loss infinite.
SURE = 1e-6


def _pair_faults(name: str, widths: Any) -> list[Fault]:
    two = isinstance(widths, tuple | list) and len(widths) == 2 and not width_faults(name, widths)
    return [] if two else [Fault(name, f"is {widths!r}", "Give two widths of 1 or more.")]


@dataclass(kw_only=True, eq=False, repr=False)
class VCNet(BaseMethod):
    """Decode a row's latent mean under the target class, and return it whether or not it passes the checks.

    The paper gives one answer; for `k` answers, further ones are decoded from draws around the latent mean.

    Parameters
    ----------
    form : {"post-hoc", "joint"}
        "post-hoc" explains the task's model: in training, the decoder reads that model's probabilities for the row.
        "joint" also trains a predictor, on the labels if the task has them (else on the model's probabilities), and
        the decoder reads its predictions. Answers are then made for that predictor. They are checked with the task's
        model, as all answers are, so they are valid as far as the two agree.
    immutable : bool
        Whether the encoder reads the mutable columns only and the decoder reads the immutable ones. Otherwise the
        network reconstructs whole rows, and immutable columns are restored afterwards.
    hidden, latent : pair of int, int
        Widths of the encoder's layers, mirrored in the decoder, and of the latent space; the predictor has two layers
        of the first width.
    beta, classification : float
        Weights of KL and the predictor's loss, next to the summed cross entropy of the columns.
    steps, batch, learning_rate : int, int, float
        Number of batches, whatever the number of rows, their size, and the learning rate. The public settings, a
        learning rate of 1.14e-5 for 176 epochs, take eight times as many batches on 26,000 rows.
    seed : int
        Seed of all randomness.

    Notes
    -----
    | topic | the original (Guyomard et al. 2022, and its public code) | here |
    |---|---|---|
    | constraints | immutables, fed to the decoder | the same (`immutable`); no other rules |
    | explains | a predictor trained together with it | the task's model ("post-hoc"), or its own predictor ("joint") |
    | schedule | 176 epochs at 0.0000114 | 6,000 batches at 0.001; `fcxplain bench tune` searches for others |
    """

    form: Form = "post-hoc"
    immutable: bool = True
    hidden: Annotated[tuple[int, int], _pair_faults] = (304, 152)
    latent: Count = 19
    beta: Weight = 0.112
    classification: Weight = 0.93
    steps: Count = 6000
    batch: BatchSize = 91
    learning_rate: Positive = 1e-3

    def fit(self, task: Task) -> Self:
        """Train the network, and the predictor of the joint form, on all training rows."""
        self._check()
        generator = torch.Generator().manual_seed(self.seed)
        network = VcnetNetwork(ColumnLayout(task), self, generator)
        epochs = max(1, round(self.steps * self.batch / len(task.train)))
        self.losses_ = minimise(
            network,
            lambda x, answers, _: self._loss(network, x, answers, generator),
            [task.encoder.encode(task.train).float(), _answers(task, self.form)],
            Schedule(epochs, self.batch, self.learning_rate, steps=self.steps),
            generator,
        )
        # In double precision, so that answers do not depend on the batch size.
        self.network_ = network.double().requires_grad_(False)
        self.surrogate_ = None if task.classifier.module is None else differentiable(task.classifier, task)
        self.task_ = task
        return self

    @torch.no_grad()
    def explain(self, rows: pd.DataFrame, k: int = 1) -> Explanation:
        """Return at most `k` answers for each row that does not have the target class."""
        question = self._asked(rows, k)
        everyone = np.arange(len(question))
        found = [self._decoded(question, everyone[part], k) for part in in_parts(len(question), CHUNK)]
        raw, row = torch.cat([x for x, _ in found]), np.concatenate([r for _, r in found])
        return answered(question, Outputs(raw, row, raw=raw), "VCNet", self.surrogate_)

    @torch.no_grad()
    def predict(self, rows: pd.DataFrame) -> NDArray[Any]:
        """Predict the classes of rows with the joint form's own predictor, for which its answers are made."""
        self._check_state("network_")
        if self.network_.predictor is None:
            raise DataError("the post-hoc form of VCNet has no predictor; use the task's model")
        place = self.network_.predicted(self.task_.encoder.encode(rows).double()).argmax(dim=1)
        return np.asarray(np.asarray(self.task_.classes)[place.numpy()])

    def _decoded(self, question: RowsAsked, part: NDArray[np.int64], k: int) -> tuple[Tensor, NDArray[np.int64]]:
        """Distinct decodings for some of the rows to explain, and their row numbers; the latent mean's comes first."""
        x, columns = question.x[part].double(), self.network_.columns
        mean, variance = self.network_.encode(x)
        codes = self.task_.encoder.codes(question.rows.iloc[part])
        draws = [torch.from_numpy(row_noise(codes, self.latent, self.seed, d)) for d in range(1, k)]
        points = [mean, *(mean + variance.sqrt() * noise for noise in draws)]
        wanted = one_hot(question.y_target[part], len(self.task_.classes)).to(x.dtype)
        decoded = [columns.restored(self.network_.decode(z, x, wanted), x) for z in points]
        return columns.distinct(decoded, x, part)

    def _loss(self, network: VcnetNetwork, x: Tensor, answers: Tensor, generator: torch.Generator) -> Tensor:
        """Cross entropy summed over the reconstructed columns, KL, and the predictor's loss; the mean over a batch.

        `answers`, `n x classes`, are the probabilities that the decoder reads, or that the predictor learns.
        """
        mean, variance = network.encode(x)
        z = mean + variance.sqrt() * torch.randn(mean.shape, generator=generator)
        given, wrong = answers, x.new_zeros(())
        if network.predictor is not None:
            logits = network.predicted(x)
            given, wrong = logits.softmax(dim=1), cross_entropy(logits, answers)
        p = network.decode(z, x, given).clamp(SURE, 1 - SURE)
        missed = -(x * p.log() + (1 - x) * (1 - p).log())[:, network.rebuilt].sum(dim=1).mean()
        return missed + self.beta * kl(mean, variance) + self.classification * wrong


class VcnetNetwork(nn.Module):
    """Encoder and decoder with ELUs between the layers, and in the joint form a predictor.

    The predictor shares the encoder's first layer, unless that layer reads only part of the row.
    """

    rebuilt: Tensor
    fixed: Tensor

    def __init__(self, columns: ColumnLayout, settings: VCNet, generator: torch.Generator) -> None:
        super().__init__()
        self.columns, classes = columns, columns.layout.classes
        wide, narrow = settings.hidden
        whole_row = torch.ones_like(columns.mutable)
        self.register_buffer("rebuilt", (columns.mutable if settings.immutable else whole_row).nonzero().flatten())
        self.register_buffer("fixed", (~columns.mutable & settings.immutable).nonzero().flatten())
        seen, given = len(self.rebuilt), len(self.fixed) + classes - 1
        self.first = _layers((seen, wide), generator)
        self.second = _layers((wide, narrow), generator)
        # The last layer outputs the latent mean and the input of the variance's softplus.
        self.point = seeded_linear(narrow, 2 * settings.latent, generator, torch.float32)
        self.decoder = _layers((settings.latent + given, narrow, wide), generator)
        self.output = seeded_linear(wide, columns.layout.width, generator, torch.float32)
        self.predictor: nn.Sequential | None = None
        if settings.form == "joint":
            own = self.first if seen == columns.layout.width else _layers((columns.layout.width, wide), generator)
            last = seeded_linear(wide, classes, generator, torch.float32)
            self.predictor = nn.Sequential(own, _layers((wide, wide), generator), last)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the latent point, `n x latent` each, for rows `n x d`."""
        mean, raw = self.point(self.second(self.first(x.index_select(1, self.rebuilt)))).chunk(2, dim=1)
        return mean, softplus(raw) + SMALLEST_VARIANCE

    def decode(self, z: Tensor, x: Tensor, given: Tensor) -> Tensor:
        """Soft rows, `n x d`, from latent points and the probabilities `given`, `n x classes`."""
        # The first class's probability follows from the others.
        hidden = self.decoder(torch.cat([z, given[:, 1:], x.index_select(1, self.fixed)], dim=1))
        return soft_rows(self.output(hidden), self.columns.layout)

    def predicted(self, x: Tensor) -> Tensor:
        """Logits of the network's own predictor, `n x classes`."""
        assert self.predictor is not None
        logits: Tensor = self.predictor(x)
        return logits


def _layers(widths: Sequence[int], generator: torch.Generator) -> nn.Sequential:
    layers = [[seeded_linear(a, b, generator, torch.float32), nn.ELU()] for a, b in pairwise(widths)]
    return nn.Sequential(*(layer for pair in layers for layer in pair))


def _answers(task: Task, form: Form) -> Tensor:
    """The probabilities that the decoder reads for each training row, or that the predictor learns, `n x classes`."""
    if form == "post-hoc" or task.labels is None:
        return torch.from_numpy(task.classifier.probabilities(task.train)).float()
    unknown = [label for label in task.labels.unique().tolist() if label not in task.classes]
    if unknown:
        remedy = f"The model's classes are {some(task.classes)}: rename the labels to match, or leave them out."
        raise DataError("VCNet cannot learn these labels", [Fault("labels", f"hold {some(unknown)}", remedy)])
    return one_hot(class_indices(task, task.labels.to_numpy()), len(task.classes)).float()
