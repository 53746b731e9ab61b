"""One training loop for every network here: mini-batches, a step on each, and the weights of the best epoch.

What differs between trainings is handed in: which rows make up a batch, what a step does, what validation says.
All randomness comes from a `torch.Generator`: the global random state is neither read nor changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .errors import TrainingError, between, refuse, whole

if TYPE_CHECKING:
    # Loaded where something is trained, so that schedules and histories are known without it.
    import torch
    from torch import Tensor, nn

# Batches are not made smaller than this for the sake of more steps.
SMALLEST_BATCH = 64
# What Adam has for a weight: how many steps it made, one number, and two means in the shape of the weight.
ADAM = ("step", "exp_avg", "exp_avg_sq")

Values = dict[str, float]
"""Terms of a loss by name; `total` is what is minimised."""


@dataclass(frozen=True)
class Epoch:
    """Means of every term over one epoch: on training rows as they were trained, and on validation rows."""

    number: int
    train: Values
    validation: Values


@dataclass(repr=False)
class History:
    """One line per epoch."""

    epochs: list[Epoch] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"History({self.summary})"

    @property
    def summary(self) -> str:
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


def _floats(values: dict[str, Any]) -> Values:
    return {str(name): float(value) for name, value in values.items()}


@dataclass(frozen=True)
class Schedule:
    """How long and how fast a network is trained.

    Parameters
    ----------
    epochs : int
        How often training goes through all rows.
    batch : int
        About how many rows a step is taken on.
    learning_rate, weight_decay : float
        Of Adam.
    clip : float
        Gradients longer than this are shortened to it.
    patience : int, optional
        So many epochs without a better validation loss end the training; None never does.
    steps : int
        Where the epochs together have fewer steps, as with few rows, batches become smaller, and epochs and patience
        more in proportion.
    decay : float
        The last share of the training in which the learning rate falls to 0; with 0 it never falls.
    """

    epochs: int = 25
    batch: int = 2048
    learning_rate: float = 1e-2
    weight_decay: float = 0.0
    clip: float = 10.0
    patience: int | None = None
    steps: int = 0
    decay: float = 0.0

    def __post_init__(self) -> None:
        refuse(
            "this schedule",
            whole("epochs", self.epochs, 1),
            whole("batch", self.batch, 2),
            between("learning_rate", self.learning_rate, 0, open_low=True),
            between("weight_decay", self.weight_decay, 0),
            between("clip", self.clip, 0, open_low=True),
            [] if self.patience is None else whole("patience", self.patience, 1),
            whole("steps", self.steps, 0),
            between("decay", self.decay, 0, 1),
        )

    def sized(self, rows: int) -> Schedule:
        """The schedule for this many rows.

        Parameters
        ----------
        rows : int
            Training rows.

        Returns
        -------
        Schedule
            With smaller batches and more epochs where there are few.
        """
        if self.epochs * batch_count(rows, self.batch) >= self.steps:
            return self
        batch = min(self.batch, max(SMALLEST_BATCH, rows // 8))
        factor = max(1.0, self.steps / (self.epochs * batch_count(rows, batch)))
        patience = None if self.patience is None else math.ceil(self.patience * factor)
        return replace(self, batch=batch, epochs=math.ceil(self.epochs * factor), patience=patience)


class TrainingLoop:
    """Epochs of steps on mini-batches, until all are done or `patience` of them brought no better validation loss.

    `batches()` gives the batches of one epoch: places of rows, or anything else that has a length. `step(batch)`
    trains on one and returns its terms. `validate()` returns the terms that epochs are compared by; without it the
    last epoch is the best. `notify(hook, ...)` is called at `on_train_begin`, `on_epoch_begin`, `on_batch_end` (with
    the terms), `on_epoch_end` and `on_train_end`.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Callable[[], Iterable[Any]],
        step: Callable[[Any], Values],
        *,
        epochs: int,
        validate: Callable[[], Values] | None = None,
        patience: int | None = None,
        notify: Callable[..., None] = lambda hook, *details: None,
    ) -> None:
        self.model, self._batches, self._step, self._validate, self._notify = model, batches, step, validate, notify
        self._epochs, self._patience = epochs, patience
        self.history, self.best_loss, self.waited = History(), math.inf, 0
        self.best_weights = {} if validate is None else copied(model.state_dict())

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        return len(self.history.epochs)

    @property
    def is_done(self) -> bool:
        """Whether all epochs are done, or patience has run out."""
        return self.epoch >= self._epochs or (self._patience is not None and self.waited >= self._patience)

    def run(self) -> History:
        """Train until done; the model then has the weights of the best epoch, and is in evaluation mode."""
        with one_thread():
            self._notify("on_train_begin")
            while not self.is_done:
                self._notify("on_epoch_begin")
                self.model.train()
                train = means((self._stepped(batch), len(batch)) for batch in self._batches())
                self.model.eval()
                self._finish_epoch(train, {} if self._validate is None else self._validate())
                self._notify("on_epoch_end")
            self._settle()
            self._notify("on_train_end")
        return self.history

    def _stepped(self, batch: Any) -> Values:
        terms = self._step(batch)
        self._notify("on_batch_end", terms)
        return terms

    def _finish_epoch(self, train: Values, validation: Values) -> None:
        self.history.add(Epoch(self.epoch + 1, train, validation))
        self.waited += 1
        if validation and validation["total"] < self.best_loss:
            self.best_loss, self.best_weights, self.waited = validation["total"], copied(self.model.state_dict()), 0

    def _settle(self) -> None:
        """Give the model the weights of the best epoch."""
        if self._validate is not None:
            self.model.load_state_dict(self.best_weights)
        self.model.eval()


def minimise(
    module: nn.Module,
    loss_of_batch: Callable[..., Tensor],
    rows: Sequence[Tensor],
    schedule: Schedule,
    generator: torch.Generator,
) -> list[float]:
    """Train a module by Adam for all epochs of a schedule, without validation; the mean loss of each epoch.

    `rows` are tensors of equal length, and `loss_of_batch(*some_of_each, progress)` is the mean loss of a batch, a
    scalar; `progress` is the share of the epochs that are done, from 0 to below 1, for weights that rise or fall.
    Of the schedule, `clip` and `patience` are not used.
    """
    count = len(rows[0])
    if count < 2:
        raise TrainingError(f"there are {count} rows to train on, and at least two are needed")
    sized = schedule.sized(count)
    optimiser = Adam(module.parameters(), sized.learning_rate, sized.weight_decay)
    share_generator(module, generator)

    def step(part: Tensor) -> Values:
        return descend(optimiser, loss_of_batch(*(t.index_select(0, part) for t in rows), loop.epoch / sized.epochs))

    def check(hook: str, *_: object) -> None:
        if hook == "on_epoch_end" and not math.isfinite(loss := loop.history.epochs[-1].train["total"]):
            raise TrainingError(f"epoch {loop.epoch}: the loss is {loss}. Lower the learning rate.")

    loop = TrainingLoop(
        module, lambda: shuffled(count, sized.batch, generator), step, epochs=sized.epochs, notify=check
    )
    return loop.run().curve("total")


class Adam:
    """Adam (Kingma and Ba 2015) by torch's own steps, all weights at once on devices for which torch has that.

    It stands in for `torch.optim.Adam`, with the same state: the first optimiser that torch makes loads its compiler,
    which takes longer than many a training here.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        learning_rate: float,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        own = list(parameters)
        fused = not own or own[0].device.type in ("cpu", "cuda")
        settings = {"lr": learning_rate, "betas": betas, "weight_decay": weight_decay, "fused": fused}
        self.param_groups: list[dict[str, Any]] = [settings | {"params": own}]
        self._state: dict[int, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None

    def step(self) -> None:
        """One step down the gradients."""
        import torch
        from torch.optim.adam import adam

        group = self.param_groups[0]
        moved = [(i, p) for i, p in enumerate(group["params"]) if p.grad is not None]
        for i, parameter in moved:
            if i not in self._state:
                none = [torch.zeros_like(parameter, requires_grad=False) for _ in range(2)]
                where = parameter.device if group["fused"] else None
                self._state[i] = dict(zip(ADAM, (torch.zeros((), device=where), *none), strict=True))
        steps, means, squares = ([self._state[i][key] for i, _ in moved] for key in ADAM)
        with torch.no_grad():
            adam(
                [p for _, p in moved],
                [p.grad for _, p in moved],
                means,
                squares,
                [],
                steps,
                fused=group["fused"],
                amsgrad=False,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=1e-8,
                maximize=False,
            )

    def state_dict(self) -> dict[str, Any]:
        """Its tensors by the place of each weight, and its settings; later steps work in the same tensors."""
        settings = self.param_groups[0] | {"params": list(range(len(self.param_groups[0]["params"])))}
        return {"state": dict(self._state), "param_groups": [settings]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state, whose tensors it takes over."""
        (settings,), own = state["param_groups"], self.param_groups[0]["params"]
        self.param_groups = [settings | {"params": own}]
        self._state = {
            i: {key: moment.to(own[i].device) for key, moment in kept.items()} for i, kept in state["state"].items()
        }


def slow_down(optimiser: Adam, learning_rate: float, done: float, decay: float) -> None:
    """Set the learning rate for where a training is, from 0 to below 1: in its last share it falls to 0."""
    for group in optimiser.param_groups:
        group["lr"] = learning_rate * min(1.0, (1.0 - done) / decay) if decay else learning_rate


def descend(optimiser: Adam, loss: Tensor) -> Values:
    """One step down the gradient of a loss."""
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return {"total": float(loss.detach())}


def means(parts: Iterable[tuple[Values, int]]) -> Values:
    """The mean of each term over rows, from its means over parts of these and how many rows each part has."""
    sums, rows = dict[str, float](), 0
    for terms, count in parts:
        rows += count
        for name, value in terms.items():
            sums[name] = sums.get(name, 0.0) + value * count
    return {name: total / rows for name, total in sums.items()}


def shuffled(rows: int, size: int, generator: torch.Generator) -> list[Tensor]:
    """The places of all rows in random order, in even batches of about this size."""
    import torch

    return even_batches(torch.randperm(rows, generator=generator), size)


def even_batches(order: Tensor, size: int) -> list[Tensor]:
    """Even batches of about this size: a last one of a row or two would upset batch norm and LOF."""
    return list(order.tensor_split(batch_count(len(order), size)))


def batch_count(rows: int, size: int) -> int:
    """How many even batches of about this size there are."""
    return max(1, min(round(rows / size), rows // 2))


def share_generator(module: nn.Module, generator: torch.Generator) -> None:
    """Let every layer that draws random numbers draw them from this generator, so that one state holds all of them."""
    for layer in module.modules():
        if hasattr(layer, "generator"):
            layer.generator = generator  # type: ignore[assignment]


def copied(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors that later changes do not reach."""
    return {name: tensor.clone() for name, tensor in tensors.items()}


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread: sums have one order, so that a seed gives the same weights everywhere.

    Networks as small as these also train faster so.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
