"""Speed of training the generator: all terms compared with the bare network, each term alone, and growth with rows.

The minimal work of any training of this network is the forward pass, the backward pass and the optimiser's step on the
same batches. The measure is the CPU time of one thread, the best of several alternating turns.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from ...generator.cvae import ConditionalVAE, Draw
from ...generator.losses import Objective
from ...generator.settings import LossWeights
from ...generator.training import Callback, Training, TrainingRows
from .timing import Growth, Tell, Timing, cpu_seconds, in_turns, on_one_thread, peak_memory

Batch = tuple[TrainingRows, torch.Tensor]
"""Rows, and the noise of their latent points."""
SIZES = (10**4, 10**5, 10**6)


def training_speed(run: Training, *, repeat: int, seed: int = 0) -> list[Timing]:
    """CPU seconds of an epoch with all terms, and of each term alone, compared with the bare network.

    The best of several turns counts. The model is not changed.
    """
    batches = _batches(run, seed)
    terms = [name for name, weight in run.objective.weights if weight]
    ways: dict[str, Callable[[], float]] = {
        "network alone": lambda: cpu_seconds(lambda: _network_alone(run, batches)),
        f"train, {len(terms)} terms": lambda: _best_epoch(run, run.train, 1, seed),
    }
    draws = _draws(run.model, batches)
    ways |= {f"term {name}": _term_alone(run.objective, name, draws) for name in terms}
    with on_one_thread():
        best = in_turns(ways, repeat)
    floor = best.pop("network alone")
    return [Timing(job, len(run.train), seconds, floor) for job, seconds in best.items()]


def training_growth(run: Training, sizes: Sequence[int], *, repeat: int, seed: int = 0, tell: Tell) -> list[Growth]:
    """Train one epoch on more and more rows, drawn from these with replacement; the best of several epochs counts."""
    generator, rows, found = torch.Generator().manual_seed(seed), run.train, list[Growth]()
    for size in sorted(sizes):
        tell(f"one epoch, {size:,} rows")
        before = peak_memory()
        resampled = rows.take(torch.randint(len(rows), (size,), generator=generator), rows.x.device)
        seconds = _best_epoch(run, resampled, repeat, seed)
        found.append(Growth(size, seconds, peak_memory() - before))
    return found


class _Clock(Callback):
    """The shortest epoch in CPU seconds, from its start to the last step, without validation."""

    def __init__(self) -> None:
        self.epochs: list[float] = []

    def on_epoch_begin(self, training: Training) -> None:
        self.begun = time.process_time()
        self.epochs.append(0.0)

    def on_batch_end(self, training: Training, terms: dict[str, float]) -> None:
        self.epochs[-1] = time.process_time() - self.begun


def _best_epoch(run: Training, rows: TrainingRows, epochs: int, seed: int) -> float:
    clock, schedule = _Clock(), replace(run.schedule, epochs=epochs)
    generator = torch.Generator().manual_seed(seed)
    some = rows.take(torch.arange(min(len(rows), schedule.batch)), rows.x.device)
    Training(copy.deepcopy(run.model), run.objective, rows, some, schedule, generator, [clock]).run()
    return min(clock.epochs)


def _batches(run: Training, seed: int) -> list[Batch]:
    """The rows in batches as in training, with noise."""
    generator, rows, weight = torch.Generator().manual_seed(seed), run.train, next(run.model.parameters())
    order = torch.randperm(len(rows), generator=generator)
    cut = [rows.take(part, weight.device) for part in order.tensor_split(max(1, round(len(rows) / run.schedule.batch)))]
    shapes = [(len(part), run.model.architecture.latent) for part in cut]
    noise = [torch.randn(shape, generator=generator).to(weight.device, weight.dtype) for shape in shapes]
    return list(zip(cut, noise, strict=True))


def _network_alone(run: Training, batches: list[Batch]) -> None:
    model = copy.deepcopy(run.model).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=run.schedule.learning_rate, fused=True)
    for rows, noise in batches:
        optimiser.zero_grad()
        model(rows.x, rows.y_target, noise).x_cf.sum().backward()
        optimiser.step()


@torch.no_grad()
def _draws(model: ConditionalVAE, batches: list[Batch]) -> list[tuple[TrainingRows, Draw]]:
    """The network's output for each batch, detached from the network, so that a term's gradient stops there."""
    model = copy.deepcopy(model).eval()
    return [(rows, model(rows.x, rows.y_target, noise)) for rows, noise in batches]


def _term_alone(objective: Objective, name: str, draws: list[tuple[TrainingRows, Draw]]) -> Callable[[], float]:
    """A function that times one term, forward and back to the draw."""
    alone = replace(objective, weights=LossWeights(**{other: float(other == name) for other, _ in objective.weights}))

    def work() -> None:
        for rows, drawn in draws:
            leaf = Draw(*(t.detach().requires_grad_() for t in (drawn.x_cf, drawn.z, drawn.mean, drawn.variance)))
            term = alone.terms(rows.x, rows.y_target, leaf)[name]
            if term.requires_grad:
                term.backward()  # type: ignore[no-untyped-call]

    return lambda: cpu_seconds(work)
