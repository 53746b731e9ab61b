"""Algorithm 1 of the paper: mini-batches of refused rows, seven terms, one step.

All that training depends on from one epoch to the next is in `state`, the generator's state included, so that
a run that was cut off and goes on from the last state ends exactly where an uninterrupted one does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from ..classifier.networks import one_thread
from ..errors import TrainingError
from .cvae import ConditionalVAE
from .history import Epoch, History
from .objective import Objective


@dataclass(frozen=True)
class Rows:
    """Encoded rows `n x d` and the class wanted for each, `n`."""

    x: Tensor
    y_target: Tensor

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class Schedule:
    """How long and how fast. `patience` epochs without a better validation loss end the training; None never."""

    epochs: int = 25
    batch: int = 2048
    learning_rate: float = 1e-2
    weight_decay: float = 0.0
    clip: float = 10.0
    patience: int | None = None


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
    """One training run. `run` does the epochs; `state` and `restore` let it be cut off and resumed."""

    def __init__(
        self,
        model: ConditionalVAE,
        objective: Objective,
        train: Rows,
        validation: Rows,
        schedule: Schedule,
        generator: torch.Generator,
        callbacks: Iterable[Callback] = (),
    ) -> None:
        if not len(train):
            raise TrainingError("there are no rows to train on: nobody is refused")
        self.model, self.objective, self.schedule = model, objective, schedule
        self.train, self.validation = train, validation if len(validation) else train
        self.generator, self.callbacks = generator, tuple(callbacks)
        self.optimiser = torch.optim.Adam(
            model.parameters(), lr=schedule.learning_rate, weight_decay=schedule.weight_decay, fused=True
        )
        self.history = History()
        self.best_loss, self.best_weights, self.waited = math.inf, _copy(model.state_dict()), 0

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
            self._notify("on_train_begin")
            while not self.is_done:
                self._notify("on_epoch_begin")
                means = self._train_epoch()
                self._finish_epoch(means, self._validate())
                self._notify("on_epoch_end")
            self.model.load_state_dict(self.best_weights)
            self.model.eval()
            self._notify("on_train_end")
        return self.history

    def _train_epoch(self) -> dict[str, float]:
        self.model.train()
        order = torch.randperm(len(self.train), generator=self.generator)
        sums: dict[str, float] = {}
        for number, part in enumerate(_batches(order, self.schedule.batch)):
            terms = self._step(Rows(self.train.x[part], self.train.y_target[part]), number)
            for name, value in terms.items():
                sums[name] = sums.get(name, 0.0) + value * len(part)
            for callback in self.callbacks:
                callback.on_batch_end(self, terms)
        return {name: total / len(self.train) for name, total in sums.items()}

    def _step(self, rows: Rows, number: int) -> dict[str, float]:
        noise = torch.randn((len(rows), self.model.architecture.latent), generator=self.generator)
        drawn = self.model(rows.x, rows.y_target, noise)
        terms = self.objective.terms(rows.x, rows.y_target, drawn)
        total = self.objective.total(terms)
        values = {name: term.item() for name, term in terms.items()} | {"total": total.item()}
        self._check(values, number)
        self.optimiser.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        size = clip_grad_norm_(self.model.parameters(), self.schedule.clip)
        self._check({"gradient": size.item()}, number)
        self.optimiser.step()
        return values

    def _check(self, values: dict[str, float], number: int) -> None:
        """Stop at the first value that is no number, with the last good weights in the model."""
        broken = [name for name, value in values.items() if not math.isfinite(value)]
        if not broken:
            return
        self.model.load_state_dict(self.best_weights)
        self.model.eval()
        where = f"epoch {self.epoch + 1}, step {number + 1}"
        remedy = "Lower the learning rate, or the weight of that term. The model has the weights of the best epoch."
        raise TrainingError(f"{where}: {broken[0]} is {values[broken[0]]}. {remedy}")

    @torch.no_grad()
    def _validate(self) -> dict[str, float]:
        """Means of the terms on validation rows, with the same noise every time so that epochs compare."""
        self.model.eval()
        fixed = torch.Generator().manual_seed(0)
        sums: dict[str, float] = {}
        for part in _batches(torch.arange(len(self.validation)), self.schedule.batch):
            x, y_target = self.validation.x[part], self.validation.y_target[part]
            noise = torch.randn((len(part), self.model.architecture.latent), generator=fixed)
            terms = self.objective.terms(x, y_target, self.model(x, y_target, noise))
            terms["total"] = self.objective.total(terms)
            for name, term in terms.items():
                sums[name] = sums.get(name, 0.0) + term.item() * len(part)
        return {name: total / len(self.validation) for name, total in sums.items()}

    def _finish_epoch(self, train: dict[str, float], validation: dict[str, float]) -> None:
        self.history.add(Epoch(self.epoch + 1, train, validation))
        if validation["total"] < self.best_loss:
            self.best_loss, self.best_weights, self.waited = validation["total"], _copy(self.model.state_dict()), 0
        else:
            self.waited += 1

    def _notify(self, hook: str) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self)

    def state(self) -> dict[str, Any]:
        """Everything that the next epoch depends on: tensors, numbers and plain lists."""
        return {
            "model": _copy(self.model.state_dict()),
            "best_weights": self.best_weights,
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "best_loss": self.best_loss,
            "waited": self.waited,
            "history": self.history.to_list(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state; the objective, the rows and the schedule must be those it was taken with."""
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        self.best_weights, self.best_loss = state["best_weights"], state["best_loss"]
        self.waited = state["waited"]
        self.history = History([Epoch(e["number"], e["train"], e["validation"]) for e in state["history"]])


def _batches(order: Tensor, size: int) -> list[Tensor]:
    """Even batches of about this size: a last one of a row or two would upset batch norm and LOF."""
    return list(order.tensor_split(max(1, round(len(order) / size))))


def _copy(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in weights.items()}
