"""FCEGAN (Hellemans et al., 2025): a GAN with a template of which features it may change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from ..classifier import differentiable
from ..classifier.networks import SeededDropout, seeded_linear
from ..errors import DataError, Fault, TrainingError, between, did_you_mean, whole
from ..explanation import Explanation
from ..generator.view import class_indices
from ..hashing import row_noise
from ..task import Task
from ..training_loop import Adam, TrainingLoop, descend
from .base import BaseMethod, BatchSize, Count, Outputs, Positive, RowsAsked, Weight, answered, in_parts
from .encoded import ColumnLayout, soft_rows

Template = Sequence[str] | Sequence[Sequence[str]]


def read_template(template: Template | None, names: Sequence[str], rows: int) -> NDArray[np.bool_]:
    """Whether each feature of each row may change, `rows x features`; with None all may."""
    if template is None:
        return np.ones((rows, len(names)), dtype=bool)
    if not _is_list(template):
        raise DataError("", [Fault("template", f"is {template!r}", "Give a list of names, or one list per row.")])
    for_all = all(isinstance(name, str) for name in template)
    lists: Sequence[Any] = [template] if for_all else template
    faults = [
        Fault(f"template, line {i}", f"is {one!r}", "Give a list of names.")
        for i, one in enumerate(lists)
        if not _is_list(one)
    ]
    if not for_all and len(lists) != rows:
        problem = f"has {len(lists):,} lines for {rows:,} rows"
        faults.insert(0, Fault("template", problem, "Give one per row, or one for all."))
    given = dict.fromkeys(name for one in lists if _is_list(one) for name in one)
    faults += [Fault(f"template: {n!r}", "is not a feature", did_you_mean(n, names)) for n in given if n not in names]
    if faults:
        raise DataError("this template cannot be used", faults)
    may = np.array([[name in one for name in names] for one in lists], dtype=bool).reshape(len(lists), len(names))
    return np.repeat(may, rows, axis=0) if for_all else may


def _is_list(given: object) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str)


WIDTHS = (256, 256)


class Generator(nn.Module):
    """Map a row, its template, the target class and noise to a soft row; each block's input is appended to its output.

    Numbers end in a sigmoid, which is the original's tanh in encoded units. `owner`, `d`, is the index of the feature
    that a column belongs to, and `category` whether that feature is a category.
    """

    owner: Tensor
    category: Tensor

    def __init__(self, columns: ColumnLayout, noise: int, temperature: float, generator: torch.Generator) -> None:
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
        """Counterfactuals, `n x d`, that change only the features marked in `may`, `n x features`.

        `noise` is standard normal; `gumbel`, `n x d`, is the noise that draws levels.
        """
        changes = may.index_select(1, self.owner)
        wanted = one_hot(y_target, self.columns.layout.classes).to(x.dtype)
        hidden = torch.cat([x, x.masked_fill(changes, 0.0), may.to(x.dtype), wanted, noise], dim=1)
        for block in self.blocks:
            hidden = torch.cat([block(hidden), hidden], dim=1)
        scores = self.output(hidden) + gumbel * self.category
        return torch.where(changes, soft_rows(scores, self.columns.layout, self.temperature), x)


def critic(inputs: int, generator: torch.Generator) -> nn.Sequential:
    """A network that scores packs of rows; a higher score means more likely real."""
    layers: list[nn.Module] = []
    for a, b in pairwise((inputs, *WIDTHS)):
        layers += [seeded_linear(a, b, generator, torch.float32), nn.LeakyReLU(0.2), SeededDropout(0.5, generator)]
    return nn.Sequential(*layers, seeded_linear(WIDTHS[-1], 1, generator, torch.float32))


# Rows per batch of draws.
CHUNK = 8_192
BETAS, WEIGHT_DECAY = (0.5, 0.9), 1e-6
# A uniform draw may be 0, whose logarithm is not finite.
SMALLEST = 1e-20
NOTHING_MAY_CHANGE = "its template allows no change of any feature that the schema and the rules allow to change"


def _share_faults(name: str, shares: Any) -> list[Fault]:
    pair = isinstance(shares, tuple | list) and len(shares) == 2
    return [fault for share in (shares if pair else (shares,)) for fault in between(name, share, 0, 1)]


@dataclass(kw_only=True, eq=False, repr=False)
class FCEGAN(BaseMethod):
    """Return one draw of the generator per answer, with the features that the template fixes restored.

    Parameters
    ----------
    noise : int
        Number of normal noise inputs of the generator.
    packing, penalty : int, float
        Rows per pack, and gradient penalty, of the Wasserstein critic. It compares packs of counterfactuals half with
        packs of their original rows and half with packs of training rows of the target class, classes included.
    temperature : float
        Temperature of the Gumbel-softmax that draws levels.
    divergence, classification : float
        Weights in the generator's loss, next to the critic: of the divergence of features that may change (squared
        change of numbers, and the share that a category's present level loses; a mean over features), and of the cross
        entropy to the target class.
    template_shares : pair of float
        In training, each feature of a row may change with a probability drawn uniformly from this interval.
    steps, batch, learning_rate : int, int, float
        Number of batches, whatever the number of rows, their size, and the learning rate. The defaults take about a
        minute on one core.
    seed : int
        Seed of all randomness.

    Notes
    -----
    | topic | the original (Hellemans et al. 2025, and its public code) | here |
    |---|---|---|
    | constraints | a template of the features that may change, at inference | the same; no other rules |
    | trained on | all rows, towards any other class | rows without the target class, towards it |
    | template in training | a fixed 0 looks like a mutable value | the generator also reads which features are fixed |
    | weights | divergence 1, classification 1 | the same; `fcxplain bench tune` searches for others |
    """

    noise: Count = 128
    packing: Count = 10
    temperature: Positive = 0.2
    penalty: Weight = 10.0
    divergence: Weight = 1.0
    classification: Weight = 1.0
    template_shares: Annotated[tuple[float, float], _share_faults] = (0.1, 1.0)
    steps: Count = 2000
    batch: BatchSize = 300
    learning_rate: Positive = 2e-4

    def fit(self, task: Task) -> Self:
        """Train generator and critic against each other."""
        sizes_hold = not whole("packing", self.packing, 1) and not whole("batch", self.batch, 2)
        uneven = Fault("batch", f"is {self.batch}", f"Give a multiple of packing, {self.packing}.")
        self._check(*[uneven] * bool(sizes_hold and self.batch % self.packing))
        self.surrogate_ = differentiable(task.classifier, task, seed=self.seed)
        self.columns_ = ColumnLayout(task)
        generator = torch.Generator().manual_seed(self.seed)
        contest = Contest(self, task, generator)
        both = nn.ModuleList([contest.generator, contest.critic])
        # An epoch is one freshly drawn batch.
        self.losses_ = TrainingLoop(both, contest.batches, contest.step, epochs=self.steps).run().curve("total")
        if not np.isfinite(self.losses_[-1]):
            raise TrainingError(f"FCEGAN's loss is {self.losses_[-1]}. Lower the learning rate.")
        # In double precision, so that answers do not depend on the batch size.
        self.generator_, self.task_ = contest.generator.double().requires_grad_(False), task
        return self

    @torch.no_grad()
    def explain(self, rows: pd.DataFrame, k: int = 1, *, template: Template | None = None) -> Explanation:
        """Return the distinct ones of `k` draws for each row that does not have the target class.

        `template` names the features that may change: one list for all rows, or one list per row. By default, all
        features may change that the schema and the rules allow to change. A template never allows any other.
        """
        question = self._asked(rows, k)
        chosen = read_template(template, self.task_.schema.names, len(rows))
        may = torch.from_numpy(chosen[question.place]) & torch.tensor(question.layout.mutable)
        free = np.flatnonzero(may.any(dim=1).numpy())
        drawn = [self._drawn(question, may, free[part], k) for part in in_parts(len(free), CHUNK)]
        x_cf, row = torch.cat([x for x, _ in drawn]), np.concatenate([r for _, r in drawn])
        stuck = np.setdiff1d(np.arange(len(question)), free)
        outputs = Outputs(x_cf, row, dict.fromkeys(stuck.tolist(), NOTHING_MAY_CHANGE), raw=x_cf)
        return answered(question, outputs, "FCEGAN", self.surrogate_)

    def _drawn(
        self, question: RowsAsked, may: Tensor, part: NDArray[np.int64], k: int
    ) -> tuple[Tensor, NDArray[np.int64]]:
        """Distinct draws for some rows, and their row numbers; `may`, `n x features`, as in `Generator`."""
        x, y_target, width = question.x[part].double(), question.y_target[part], question.layout.width
        codes = self.task_.encoder.codes(question.rows.iloc[part])
        draws = []
        for draw in range(k):
            normal = torch.from_numpy(row_noise(codes, self.noise + width, self.seed, draw))
            gumbel = -(-torch.special.log_ndtr(normal[:, self.noise :])).log()
            draws.append(self.generator_(x, may[part], y_target, normal[:, : self.noise], gumbel))
        return self.columns_.distinct(draws, x, part)


class Contest:
    """Generator and critic in training. All randomness comes from one random number generator."""

    def __init__(self, method: FCEGAN, task: Task, random: torch.Generator) -> None:
        self.method, self.random = method, random
        self.columns, self.classifier = method.columns_, method.surrogate_.module
        layout, self.dtype = self.columns.layout, task.encoder.dtype_
        predicted, wanted, met = task.answered(task.train)
        everyone, y = task.encoder.encode(task.train).float(), class_indices(task, predicted)
        refused = torch.from_numpy(~met)
        self.x, self.y, self.y_target = everyone[refused], y[refused], class_indices(task, wanted)[refused]
        self.real = [everyone[y == c] for c in range(layout.classes)]
        _need_both(self.y_target, self.real, task)
        self.may = torch.tensor(layout.mutable)
        self.generator = Generator(self.columns, method.noise, method.temperature, random)
        self.critic = critic((layout.width + layout.classes) * method.packing, random)
        self._optimisers = [
            Adam(module.parameters(), method.learning_rate, WEIGHT_DECAY, BETAS)
            for module in (self.critic, self.generator)
        ]

    def batches(self) -> list[Tensor]:
        """Indices of the rows of one batch, drawn at random."""
        return [torch.randint(len(self.x), (self.method.batch,), generator=self.random)]

    def step(self, part: Tensor) -> dict[str, float]:
        """Take one step of the critic and one of the generator, and return the generator's loss."""
        x, y, y_target = self.x[part], self.y[part], self.y_target[part]
        for optimiser, loss_of in zip(self._optimisers, (self.critic_loss, self.generator_loss), strict=True):
            found = descend(optimiser, loss_of(x, y, y_target))
        return found

    def critic_loss(self, x: Tensor, y: Tensor, y_target: Tensor) -> Tensor:
        """Scores of fake rows minus those of real ones, plus the gradient penalty between them."""
        with torch.no_grad():
            fake = self.packs(self.made(x, self.template(x), y_target), y_target)
        before, real = self.packs(x, y), self.packs(self.drawn_real(y_target), y_target)
        share = torch.rand((len(fake), 1), generator=self.random)
        between_both = (share * before + (1 - share) * fake).requires_grad_()
        (slope,) = torch.autograd.grad(self.critic(between_both).sum(), [between_both], create_graph=True)
        steep = ((slope.norm(dim=1) - 1) ** 2).mean()
        apart = self.critic(fake).mean() - (self.critic(before).mean() + self.critic(real).mean()) / 2
        loss: Tensor = apart + self.method.penalty * steep
        return loss

    def generator_loss(self, x: Tensor, y: Tensor, y_target: Tensor) -> Tensor:
        """The critic's score with its sign reversed, plus weighted divergence and cross entropy."""
        may = self.template(x)
        x_cf = self.made(x, may, y_target)
        unlike = -self.critic(self.packs(x_cf, y_target)).mean()
        logits = self.classifier(x_cf.to(self.dtype))
        moved, missed = self.moved(x_cf, x, may), cross_entropy(logits, y_target).float()
        loss: Tensor = unlike + self.method.divergence * moved + self.method.classification * missed
        return loss

    def template(self, x: Tensor) -> Tensor:
        """A random template, `n x features`, among the features that may change."""
        low, high = self.method.template_shares
        share = low + (high - low) * torch.rand((len(x), 1), generator=self.random)
        return (torch.rand((len(x), len(self.may)), generator=self.random) < share) & self.may

    def made(self, x: Tensor, may: Tensor, y_target: Tensor) -> Tensor:
        """Counterfactuals with fresh noise."""
        noise = torch.randn((len(x), self.method.noise), generator=self.random)
        gumbel = -(-torch.rand(x.shape, generator=self.random).clamp_min(SMALLEST).log()).clamp_min(SMALLEST).log()
        x_cf: Tensor = self.generator(x, may, y_target, noise, gumbel)
        return x_cf

    def drawn_real(self, y_target: Tensor) -> Tensor:
        """A random training row of each target class, `n x d`."""
        real = torch.empty((len(y_target), self.x.shape[1]))
        for c in sorted(set(y_target.tolist())):
            here = y_target == c
            real[here] = self.real[c][torch.randint(len(self.real[c]), (int(here.sum()),), generator=self.random)]
        return real

    def packs(self, x: Tensor, y: Tensor) -> Tensor:
        """Rows with their classes, concatenated into packs."""
        classes = one_hot(y, self.columns.layout.classes).to(x.dtype)
        return torch.cat([x, classes], dim=1).reshape(len(x) // self.method.packing, -1)

    def moved(self, x_cf: Tensor, x: Tensor, may: Tensor) -> Tensor:
        """The divergence of the features that may change, averaged over rows and features."""
        # The public code's cross entropy reads shares as logits, which equals the share that the present level lost.
        by_column = torch.where(self.generator.category, x * (x - x_cf), (x_cf - x) ** 2)
        return (by_column * may.index_select(1, self.generator.owner)).sum() / may.numel()


def _need_both(y_target: Tensor, real: list[Tensor], task: Task) -> None:
    """Refuse a task without rows to explain, or without training rows of a target class."""
    faults = [] if len(y_target) else [Fault("training rows", "all have the target class: there is nothing to explain")]
    none = [c for c in sorted(set(y_target.tolist())) if not len(real[c])]
    faults += [
        Fault(f"class {task.classes[c]!r}", "is predicted for no training row, but FCEGAN learns from them")
        for c in none
    ]
    if faults:
        raise DataError("FCEGAN cannot be trained", faults)
