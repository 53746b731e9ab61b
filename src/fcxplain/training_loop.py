"""One training loop for every network: mini-batches, a step on each, and the weights of the best epoch.

Callers pass in what differs: which rows make up a batch, what a step does, how validation works. All randomness comes
from a `torch.Generator`: the global random state is neither read nor changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .errors import TrainingError, between, refuse, whole

if TYPE_CHECKING:
    # Loaded only for training, so that schedules and histories work without torch.
    import torch
    from torch import Tensor, nn

# The smallest batch size, however many steps are wanted.
SMALLEST_BATCH = 64
# Adam's state for a weight: the number of steps, and two means in the shape of the weight.
ADAM = ("step", "exp_avg", "exp_avg_sq")

Values = dict[str, float]
"""Terms of a loss by name; `total` is minimised."""


@dataclass(frozen=True)
class Epoch:
    """Means of every term over one epoch: on training rows during training, and on validation rows."""

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
        """A one-line summary."""
        if not self.epochs:
            return "no epochs"
        first, last = self.epochs[0], self.epochs[-1]
        length = "1 epoch" if len(self.epochs) == 1 else f"{len(self.epochs):,} epochs"
        best = min(e.validation["total"] for e in self.epochs)
        return f"{length}, loss {first.train['total']:.4g} -> {last.train['total']:.4g}; on validation rows {best:.4g}"

    @property
    def best(self) -> Epoch | None:
        """The epoch with the lowest validation loss, the earliest of equals."""
        return min(self.epochs, key=lambda e: e.validation["total"], default=None)

    def curve(self, term: str, part: str = "train") -> list[float]:
        """One term over the epochs, for a plot."""
        return [getattr(e, part)[term] for e in self.epochs]

    def to_list(self) -> list[dict[str, object]]:
        """Plain data for saving."""
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
        The number of passes over all rows.
    batch : int
        The approximate number of rows per step.
    learning_rate, weight_decay : float
        Settings of Adam.
    clip : float
        The maximum norm of gradients.
    patience : int, optional
        Stop after this number of epochs without a better validation loss; None never stops early.
    steps : int
        The minimum number of steps. With too few rows for that, batches become smaller, and epochs and patience grow in
        proportion.
    decay : float
        The final share of the training in which the learning rate falls to 0; 0 keeps it constant.

    Examples
    --------
    >>> from fcxplain import FCx, Schedule
    >>> FCx(schedule=Schedule(epochs=10, patience=3))
    FCx(not fitted, latent 10, 10 epochs at 0.01, seed 0)
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
            With smaller batches and more epochs if there are few rows.
        """
        if self.epochs * batch_count(rows, self.batch) >= self.steps:
            return self
        batch = min(self.batch, max(SMALLEST_BATCH, rows // 8))
        factor = max(1.0, self.steps / (self.epochs * batch_count(rows, batch)))
        patience = None if self.patience is None else math.ceil(self.patience * factor)
        return replace(self, batch=batch, epochs=math.ceil(self.epochs * factor), patience=patience)


class TrainingLoop:
    """Epochs of steps on mini-batches, until all are done or `patience` epochs brought no better validation loss.

    `batches()` returns the batches of one epoch: positions of rows, or anything else that has a length. `step(batch)`
    trains on one and returns its terms. `validate()` returns the terms by which epochs are compared; without it, the
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
        """The number of epochs done."""
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
        self.history.epochs.append(Epoch(self.epoch + 1, train, validation))
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
    """Train a module with Adam for all epochs of a schedule, without validation; return the mean loss of each epoch.

    `rows` are tensors of equal length, and `loss_of_batch(*some_of_each, progress)` is the mean loss of a batch, a
    scalar; `progress` is the share of epochs done, from 0 to below 1, for weights that rise or fall. `clip` and
    `patience` of the schedule are ignored.
    """
    count = len(rows[0])
    if count < 2:
        raise TrainingError(f"training needs at least two rows, and there are {count}")
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
    """Adam (Kingma and Ba 2015) with torch's own steps, fused on devices that support it.

    It replaces `torch.optim.Adam`, with the same state: the first optimiser that torch creates loads its compiler,
    which takes longer than many trainings here.
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
        """Clear all gradients."""
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None

    def step(self) -> None:
        """Take one step down the gradients."""
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
                # The fused step reads weights and gradients side by side in memory.
                [p.grad if p.grad.stride() == p.stride() else torch.empty_like(p).copy_(p.grad) for _, p in moved],
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
        """Its tensors by the index of each weight, and its settings. Later steps update the same tensors."""
        settings = self.param_groups[0] | {"params": list(range(len(self.param_groups[0]["params"])))}
        return {"state": dict(self._state), "param_groups": [settings]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state, whose tensors it takes over."""
        (settings,), own = state["param_groups"], self.param_groups[0]["params"]
        self.param_groups = [settings | {"params": own}]
        self._state = {
            i: {key: moment.to(own[i].device) for key, moment in kept.items()} for i, kept in state["state"].items()
        }


def slow_down(optimiser: Adam, learning_rate: float, done: float, decay: float) -> None:
    """Set the learning rate at `done`, a share of the training; in the final share `decay` it falls to 0."""
    for group in optimiser.param_groups:
        group["lr"] = learning_rate * min(1.0, (1.0 - done) / decay) if decay else learning_rate


def descend(optimiser: Adam, loss: Tensor) -> Values:
    """Take one step down the gradient of a loss."""
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return {"total": float(loss.detach())}


def means(parts: Iterable[tuple[Values, int]]) -> Values:
    """The mean of each term over all rows, from its means over parts and the number of rows in each."""
    sums, rows = dict[str, float](), 0
    for terms, count in parts:
        rows += count
        for name, value in terms.items():
            sums[name] = sums.get(name, 0.0) + value * count
    return {name: total / rows for name, total in sums.items()}


def shuffled(rows: int, size: int, generator: torch.Generator) -> list[Tensor]:
    """The positions of all rows in random order, in even batches of about this size."""
    import torch

    return even_batches(torch.randperm(rows, generator=generator), size)


def even_batches(order: Tensor, size: int) -> list[Tensor]:
    """Even batches of about this size; a last batch of one or two rows would disturb batch norm and LOF."""
    return list(order.tensor_split(batch_count(len(order), size)))


def batch_count(rows: int, size: int) -> int:
    """The number of even batches of about this size."""
    return max(1, min(round(rows / size), rows // 2))


def share_generator(module: nn.Module, generator: torch.Generator) -> None:
    """Make every random layer use this generator, so that one state covers all random numbers."""
    for layer in module.modules():
        if hasattr(layer, "generator"):
            layer.generator = generator  # type: ignore[assignment]


def copied(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies that later changes do not affect."""
    return {name: tensor.clone() for name, tensor in tensors.items()}


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread, so that sums have one order and a seed gives the same weights everywhere.

    Networks as small as these also train faster that way.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
