"""Speed of training the generator: all terms compared with the bare network, each term alone, and growth with rows.

The minimal work of any training of this network is the forward pass, the backward pass and the optimiser's step on the
same batches. The measure is the CPU time of one thread, the best of several alternating turns.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from threadpoolctl import threadpool_limits

from ...generator.cvae import ConditionalVAE, Draw
from ...generator.losses import Objective
from ...generator.settings import LossWeights
from ...generator.training import Callback, Training, TrainingRows
from ...progress import OnProgress, Progress, no_progress
from ...training_loop import Schedule, one_thread
from .timing import Timing, cpu_seconds

Batch = tuple[TrainingRows, torch.Tensor]
"""Rows, and the noise of their latent points."""
SIZES = (10**4, 10**5, 10**6)


@dataclass(frozen=True)
class Growth:
    """One epoch on a number of rows."""

    rows: int
    seconds: float
    memory: int
    """Increase of the process's peak memory in bytes, including the rows; 0 if the peak was higher before."""

    @property
    def seconds_per_row(self) -> float:
        """CPU time per row; constant if training is linear in the rows."""
        return self.seconds / self.rows


def training_speed(
    objective: Objective,
    model: ConditionalVAE,
    rows: TrainingRows,
    *,
    schedule: Schedule | None = None,
    epochs: int = 1,
    repeat: int = 5,
    seed: int = 0,
) -> list[Timing]:
    """CPU seconds of an epoch with all terms, and of each term alone, compared with the bare network.

    The best of several turns counts. The model is not changed.
    """
    schedule = replace(schedule or Schedule(), epochs=epochs)
    batches = _batches(model, rows, schedule, seed)
    terms = [name for name, weight in objective.weights if weight]
    ways: dict[str, Callable[[], float]] = {
        "network alone": lambda: cpu_seconds(lambda: _network_alone(model, batches, schedule)),
        f"train, {len(terms)} terms": lambda: _best_epoch(objective, model, rows, schedule, seed),
    }
    for name in terms:
        ways[f"term {name}"] = _term_alone(objective, name, _draws(model, batches))
    best = _in_turns(ways, repeat)
    floor = best.pop("network alone")
    return [Timing(job, len(rows), seconds, floor) for job, seconds in best.items()]


def training_growth(
    objective: Objective,
    model: ConditionalVAE,
    rows: TrainingRows,
    *,
    sizes: Sequence[int] = SIZES,
    schedule: Schedule | None = None,
    repeat: int = 3,
    seed: int = 0,
    on_progress: OnProgress = no_progress,
) -> list[Growth]:
    """Train one epoch on more and more rows, drawn from these with replacement; the best of several epochs counts."""
    schedule = replace(schedule or Schedule(), epochs=repeat)
    generator = torch.Generator().manual_seed(seed)
    found = list[Growth]()
    for size in sorted(sizes):
        on_progress(Progress(f"one epoch, {size:,} rows", len(found), len(sizes)))
        before = peak_memory()
        places = torch.randint(len(rows), (size,), generator=generator)
        resampled = rows.take(places, rows.x.device)
        seconds = _best_epoch(objective, model, resampled, schedule, seed)
        found.append(Growth(size, seconds, peak_memory() - before))
    return found


def peak_memory() -> int:
    """The peak memory of this process so far, in bytes."""
    import resource  # not available on Windows, where only this function fails

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class _Clock(Callback):
    """The shortest epoch in CPU seconds, from its start to the last step, without validation."""

    def __init__(self) -> None:
        self.epochs: list[float] = []

    def on_epoch_begin(self, training: Training) -> None:
        self.begun = time.process_time()
        self.epochs.append(0.0)

    def on_batch_end(self, training: Training, terms: dict[str, float]) -> None:
        self.epochs[-1] = time.process_time() - self.begun


def _best_epoch(
    objective: Objective, model: ConditionalVAE, rows: TrainingRows, schedule: Schedule, seed: int
) -> float:
    clock = _Clock()
    generator = torch.Generator().manual_seed(seed)
    some = rows.take(torch.arange(min(len(rows), schedule.batch)), rows.x.device)
    Training(copy.deepcopy(model), objective, rows, some, schedule, generator, [clock]).run()
    return min(clock.epochs)


def _batches(model: ConditionalVAE, rows: TrainingRows, schedule: Schedule, seed: int) -> list[Batch]:
    """The rows in batches as in training, with noise."""
    generator = torch.Generator().manual_seed(seed)
    weight = next(model.parameters())
    order = torch.randperm(len(rows), generator=generator)
    cut = [rows.take(part, weight.device) for part in order.tensor_split(max(1, round(len(rows) / schedule.batch)))]
    shapes = [(len(part), model.architecture.latent) for part in cut]
    noise = [torch.randn(shape, generator=generator).to(weight.device, weight.dtype) for shape in shapes]
    return list(zip(cut, noise, strict=True))


def _network_alone(model: ConditionalVAE, batches: list[Batch], schedule: Schedule) -> None:
    model = copy.deepcopy(model).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=schedule.learning_rate, fused=True)
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


def _in_turns(ways: dict[str, Callable[[], float]], repeat: int) -> dict[str, float]:
    with threadpool_limits(limits=1), one_thread():
        turns = [{job: work() for job, work in ways.items()} for _ in range(repeat)]
    return {job: min(turn[job] for turn in turns) for job in ways}
