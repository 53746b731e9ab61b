"""Algorithm 1 of the paper: mini-batches of refused rows, seven terms, one step; and the record of such a run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from ..classifier.networks import one_thread
from ..errors import Fault, TrainingError, between, refuse, whole
from ..progress import ProgressLines
from ..text import counted
from .cvae import ConditionalVAE, SeededDropout
from .heads import Heads
from .objective import Objective
from .rule_layer import Allowed


@dataclass(frozen=True)
class Epoch:
    """Means of every term over one epoch: on training rows as they were trained, and on validation rows."""

    number: int
    train: dict[str, float]
    validation: dict[str, float]


@dataclass(repr=False)
class History:
    """One line per epoch."""

    epochs: list[Epoch] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"History({self.told})"

    @property
    def told(self) -> str:
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


def _floats(values: dict[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in values.items()}


# A term this many times as large as the whole loss was at the start (or as 1, for losses that start near 0) has
# exploded: single precision has no digits left for the other terms beside it. Being a ratio it holds for any weights,
# and it is large enough for rules that count in dollars and are kept at the start.
EXPLODED = 1e8
# Devices for which torch has Adam in one piece.
FUSED = ("cpu", "cuda")
# Batches are not made smaller than this for the sake of more steps.
SMALLEST_BATCH = 64


@dataclass(frozen=True)
class TrainingRows:
    """Encoded rows `n x d`, the class wanted for each, `n`, and what the rules allow, for a rule layer."""

    x: Tensor
    y_target: Tensor
    allowed: Allowed | None = None

    def __len__(self) -> int:
        return len(self.x)

    def take(self, places: Tensor, device: torch.device) -> TrainingRows:
        """Some of the rows, on a device."""
        # Several times as fast as brackets.
        places = places.to(self.x.device)
        x, y_target = self.x.index_select(0, places), self.y_target.index_select(0, places)
        allowed = None if self.allowed is None else self.allowed.take(places).to(device)
        return TrainingRows(x.to(device), y_target.to(device), allowed)


@dataclass(frozen=True)
class Schedule:
    """How long and how fast. `patience` epochs without a better validation loss end the training; None never.

    Where the epochs together have fewer than `steps` steps, as with few rows, batches become smaller, and epochs
    and patience more in proportion.
    """

    epochs: int = 25
    batch: int = 2048
    learning_rate: float = 1e-2
    weight_decay: float = 0.0
    clip: float = 10.0
    patience: int | None = None
    steps: int = 0

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
        )

    def sized(self, rows: int) -> Schedule:
        """The schedule for this many rows."""
        if self.epochs * _batch_count(rows, self.batch) >= self.steps:
            return self
        batch = min(self.batch, max(SMALLEST_BATCH, rows // 8))
        factor = max(1.0, self.steps / (self.epochs * _batch_count(rows, batch)))
        patience = None if self.patience is None else math.ceil(self.patience * factor)
        return replace(self, batch=batch, epochs=math.ceil(self.epochs * factor), patience=patience)


class Callback:
    """Hooks around training; override what you need. Each gets the training, whose state it may read."""

    def on_train_begin(self, training: Training) -> None:
        """Before the first epoch, or the first after resuming."""

    def on_epoch_begin(self, training: Training) -> None:
        """Before an epoch."""

    def on_batch_end(self, training: Training, terms: dict[str, float]) -> None:
        """After a step, with the terms of its batch."""

    def on_epoch_end(self, training: Training) -> None:
        """After an epoch, its line in the history written."""

    def on_train_end(self, training: Training) -> None:
        """After the last epoch, the best weights restored."""


class Training:
    """One training run. `run` does the epochs; `state` and `restore` let it be cut off and resumed.

    Whatever ends `run` early, be it Ctrl-C or a callback's error, leaves the training as the last finished epoch
    did: `run` again goes on from there.
    """

    def __init__(
        self,
        model: ConditionalVAE,
        objective: Objective,
        train: TrainingRows,
        validation: TrainingRows,
        schedule: Schedule,
        generator: torch.Generator,
        callbacks: Iterable[Callback] = (),
    ) -> None:
        _check_rows(train)
        self._parameters = list(model.parameters())
        self.device, self.dtype = self._parameters[0].device, self._parameters[0].dtype
        self.model, self.objective, self.schedule = model, objective.on(self.device), schedule.sized(len(train))
        self.train, self.validation = train, validation if len(validation) else train
        self.generator, self.callbacks = generator, tuple(callbacks)
        _share(generator, model)
        self.optimiser = torch.optim.Adam(
            self._parameters,
            lr=schedule.learning_rate,
            weight_decay=schedule.weight_decay,
            fused=self.device.type in FUSED,
        )
        self.history = History()
        self.best_loss, self.best_weights, self.waited = math.inf, _copy(model.state_dict()), 0
        self._first = math.nan
        self._resting = self._snapshot()

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        return len(self.history.epochs)

    @property
    def is_done(self) -> bool:
        """Whether all epochs are done, or patience has run out."""
        impatient = self.schedule.patience is not None and self.waited >= self.schedule.patience
        return impatient or self.epoch >= self.schedule.epochs

    def run(self) -> History:
        """Train until done; the model then has the weights of the best epoch."""
        with one_thread():
            try:
                self._run()
            except TrainingError:
                self._settle()
                raise
            except BaseException:
                self.restore(self._resting)
                raise
        return self.history

    def _run(self) -> None:
        if self.epoch:
            # After an earlier run the model has the best weights, which are not always those to go on from.
            self.restore(self._resting)
        else:
            self.best_weights = _copy(self.model.state_dict())
            self._resting = self._snapshot()
        self._notify("on_train_begin")
        while not self.is_done:
            self._notify("on_epoch_begin")
            means = self._train_epoch()
            self._finish_epoch(means, self._validate())
            self._notify("on_epoch_end")
        self._settle()
        self._notify("on_train_end")

    def _settle(self) -> None:
        """Give the model the weights of the best epoch."""
        self.model.load_state_dict(self.best_weights)
        self.model.eval()

    def _train_epoch(self) -> dict[str, float]:
        self.model.train()
        order = torch.randperm(len(self.train), generator=self.generator)
        sums: dict[str, float] = {}
        for number, part in enumerate(_batches(order, self.schedule.batch), start=1):
            terms = self._step(self.train.take(part, self.device), number)
            for name, value in terms.items():
                sums[name] = sums.get(name, 0.0) + value * len(part)
            for callback in self.callbacks:
                callback.on_batch_end(self, terms)
        return {name: total / len(self.train) for name, total in sums.items()}

    def _step(self, rows: TrainingRows, number: int) -> dict[str, float]:
        terms = self._terms(rows, self.generator)
        self.optimiser.zero_grad()
        terms["total"].backward()  # type: ignore[no-untyped-call]
        size = clip_grad_norm_(self._parameters, self.schedule.clip)
        values = _numbers(terms | {"gradient": size})
        if not self.epoch and number == 1:
            self._first = values["total"]
        self._check(values, f"step {number}")
        self.optimiser.step()
        del values["gradient"]
        return values

    def _terms(self, rows: TrainingRows, generator: torch.Generator) -> dict[str, Tensor]:
        """The terms of a batch and their weighted sum, by name."""
        shape = (len(rows), self.model.architecture.latent)
        noise = torch.randn(shape, generator=generator).to(self.device, self.dtype)
        drawn = self.model(rows.x, rows.y_target, noise, rows.allowed)
        terms = self.objective.terms(rows.x, rows.y_target, drawn)
        return terms | {"total": self.objective.total(terms)}

    @torch.no_grad()
    def _validate(self) -> dict[str, float]:
        """Means of the terms on validation rows, with the same noise every time so that epochs compare."""
        self.model.eval()
        fixed = torch.Generator().manual_seed(0)
        sums: dict[str, float] = {}
        for part in _batches(torch.arange(len(self.validation)), self.schedule.batch):
            values = _numbers(self._terms(self.validation.take(part, self.device), fixed))
            for name, value in values.items():
                sums[name] = sums.get(name, 0.0) + value * len(part)
        means = {name: total / len(self.validation) for name, total in sums.items()}
        self._check(means, "validation")
        return means

    def _check(self, values: dict[str, float], place: str) -> None:
        """Stop at the first value that is no number, and at a term that has exploded."""
        # Not part of the state, since the history tells it after the first epoch.
        first = self.history.epochs[0].train["total"] if self.epoch else self._first
        limit, weights = EXPLODED * max(1.0, abs(first)), dict(self.objective.weights)
        for name, value in values.items():
            if not math.isfinite(value):
                self._stop(f"{name} is {value}", place)
            # Gradients are clipped, so that their size does no harm.
            if name != "gradient" and weights.get(name, 1.0) * abs(value) > limit:
                self._stop(f"{name} is {value:.3g}, and the whole loss was {first:.3g} at the start", place)

    def _stop(self, problem: str, place: str) -> NoReturn:
        kept = "of the best epoch" if self.epoch else "that it started with"
        remedy = f"Lower the learning rate, or the weight of that term. The model has the weights {kept}."
        raise TrainingError(f"epoch {self.epoch + 1}, {place}: {problem}. {remedy}")

    def _finish_epoch(self, train: dict[str, float], validation: dict[str, float]) -> None:
        self.history.add(Epoch(self.epoch + 1, train, validation))
        if validation["total"] < self.best_loss:
            self.best_loss, self.best_weights, self.waited = validation["total"], _copy(self.model.state_dict()), 0
        else:
            self.waited += 1
        self._resting = self._snapshot()

    def _notify(self, hook: str) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self)

    def state(self) -> dict[str, Any]:
        """Everything that the next epoch depends on, as the last finished epoch left it.

        Tensors, numbers and plain lists, of which nothing is changed by what training does later.
        """
        return dict(self._resting)

    def _snapshot(self) -> dict[str, Any]:
        return {
            "model": _copy(self.model.state_dict()),
            "best_weights": self.best_weights,
            "optimiser": _copied_optimiser(self.optimiser.state_dict()),
            "generator": self.generator.get_state(),
            "best_loss": self.best_loss,
            "waited": self.waited,
            "history": self.history.to_list(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state; the objective, the rows and the schedule must be those it was taken with."""
        self.model.load_state_dict(state["model"])
        # Adam works in the very tensors that it is given.
        self.optimiser.load_state_dict(_copied_optimiser(state["optimiser"]))
        self.generator.set_state(state["generator"])
        self.best_weights, self.best_loss = state["best_weights"], state["best_loss"]
        self.waited = state["waited"]
        self.history = History([Epoch(e["number"], e["train"], e["validation"]) for e in state["history"]])
        self._resting = dict(state)


def _check_rows(train: TrainingRows) -> None:
    few = {0: "there are none to train on: nobody is refused", 1: "there is only one, and batch norm needs two"}
    if len(train) in few:
        raise TrainingError("this training cannot begin", [Fault("rows", few[len(train)], "Bring more rows.")])


def _share(generator: torch.Generator, model: ConditionalVAE) -> None:
    """Let dropout and gates draw from the training's own generator, so that one state holds all randomness."""
    for layer in model.modules():
        if isinstance(layer, SeededDropout | Heads):
            layer.generator = generator


def _batches(order: Tensor, size: int) -> list[Tensor]:
    """Even batches of about this size: a last one of a row or two would upset batch norm and LOF."""
    return list(order.tensor_split(_batch_count(len(order), size)))


def _batch_count(rows: int, size: int) -> int:
    return max(1, min(round(rows / size), rows // 2))


def _numbers(tensors: dict[str, Tensor]) -> dict[str, float]:
    """The values of scalars, fetched from the device at once."""
    values = torch.stack([tensor.detach() for tensor in tensors.values()]).tolist()
    return dict(zip(tensors, values, strict=True))


def _copy(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in weights.items()}


def _copied_optimiser(state: dict[str, Any]) -> dict[str, Any]:
    return state | {"state": {index: _copy(kept) for index, kept in state["state"].items()}}


class TrainingLines(Callback):
    """Lines about a training."""

    def __init__(self, lines: ProgressLines) -> None:
        self.lines, self.before = lines, 0

    def on_train_begin(self, training: Training) -> None:
        """Say how much there is to do."""
        self.before = training.epoch
        self.lines.say(
            f"{counted(len(training.train), 'row')}, in at most {counted(training.schedule.epochs, 'epoch')}"
        )

    def on_epoch_end(self, training: Training) -> None:
        """Say how far it is. What was there already took no time, and is not counted."""
        self.lines.move(training.epoch - self.before, training.schedule.epochs - self.before, "epoch")
