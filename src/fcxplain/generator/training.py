"""Algorithm 1 of the paper: mini-batches of refused rows, seven terms, one step. The loop itself is `training_loop`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from ..errors import Fault, TrainingError
from ..progress import ProgressLines
from ..text import counted
from ..training_loop import (
    Adam,
    Epoch,
    History,
    Schedule,
    TrainingLoop,
    batch_count,
    copied,
    even_batches,
    means,
    share_generator,
    shuffled,
    slow_down,
)
from .cvae import ConditionalVAE
from .heads import Allowed
from .losses import Objective

# A term this many times as large as the whole initial loss (or as 1, for losses that start near 0) has exploded: single
# precision has no digits left for the other terms. As a ratio it works for any weights, and it is large enough for
# rules that are measured in dollars and satisfied at the start.
EXPLODED = 1e8


@dataclass(frozen=True)
class TrainingRows:
    """Encoded rows `n x d`, the target class of each, `n`, and what the rules allow, for a rule layer.

    `answers`, `n x d`, are answers that the search found; a row without one has itself there.
    """

    x: Tensor
    y_target: Tensor
    allowed: Allowed | None = None
    answers: Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)

    def take(self, places: Tensor, device: torch.device) -> TrainingRows:
        """Some of the rows, on a device."""
        # `index_select` is several times as fast as indexing with brackets.
        places = places.to(self.x.device)
        x, y_target = self.x.index_select(0, places), self.y_target.index_select(0, places)
        allowed = None if self.allowed is None else self.allowed.take(places).to(device)
        answers = None if self.answers is None else self.answers.index_select(0, places).to(device)
        return TrainingRows(x.to(device), y_target.to(device), allowed, answers)


class Callback:
    """Hooks around training; override what you need. Each gets the training and may read its state.

    Examples
    --------
    >>> from fcxplain import Callback, FCx
    >>> class Losses(Callback):
    ...     def on_epoch_end(self, training):
    ...         print(training.history.summary)
    >>> fcx = FCx().fit(task, callbacks=[Losses()])  # doctest: +SKIP
    """

    def on_train_begin(self, training: Training) -> None:
        """Called before the first epoch, or the first after resuming.

        Parameters
        ----------
        training : Training
            Its `epoch`, `schedule` and `history` may be read.
        """

    def on_epoch_begin(self, training: Training) -> None:
        """Called before an epoch.

        Parameters
        ----------
        training : Training
            Its `epoch`, `schedule` and `history` may be read.
        """

    def on_batch_end(self, training: Training, terms: dict[str, float]) -> None:
        """Called after a step.

        Parameters
        ----------
        training : Training
            Its `epoch`, `schedule` and `history` may be read.
        terms : dict of float
            The terms of its batch.
        """

    def on_epoch_end(self, training: Training) -> None:
        """Called after an epoch, when its line in the history is written.

        Parameters
        ----------
        training : Training
            Its `epoch`, `schedule` and `history` may be read.
        """

    def on_train_end(self, training: Training) -> None:
        """Called after the last epoch, when the best weights are restored.

        Parameters
        ----------
        training : Training
            Its `epoch`, `schedule` and `history` may be read.
        """


class Training(TrainingLoop):
    """One training run of the generator. `run` does the epochs; `state` and `restore` save and resume it.

    If `run` ends early, by Ctrl-C or by an error in a callback, the training stays as the last finished epoch left it,
    and another `run` resumes from there.
    """

    model: ConditionalVAE

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
        self.schedule = schedule.sized(len(train))
        super().__init__(
            model,
            lambda: shuffled(len(train), self.schedule.batch, generator),
            self._stepped_on,
            epochs=self.schedule.epochs,
            validate=self._validated,
            patience=self.schedule.patience,
            notify=self._call_back,
        )
        self._parameters = list(model.parameters())
        self.device, self.dtype = self._parameters[0].device, self._parameters[0].dtype
        self.objective = objective.on(self.device)
        self.train, self.validation = train, validation if len(validation) else train
        self.generator, self.callbacks = generator, tuple(callbacks)
        share_generator(model, generator)
        self.optimiser = Adam(self._parameters, schedule.learning_rate, schedule.weight_decay)
        self._first = math.nan
        self._resting = self._snapshot()

    def run(self) -> History:
        """Train to the end; the model then has the weights of the best epoch."""
        try:
            if self.epoch:
                # After an earlier run the model has the best weights, which are not always the ones to resume from.
                self.restore(self._resting)
            else:
                self.best_weights = copied(self.model.state_dict())
                self._resting = self._snapshot()
            return super().run()
        except TrainingError:
            self._settle()
            raise
        except BaseException:
            self.restore(self._resting)
            raise

    def _stepped_on(self, places: Tensor) -> dict[str, float]:
        """Take one step on a batch, unless its loss or its gradient has diverged."""
        terms = self._terms(self.train.take(self._repeated(places), self.device), self.generator)
        self.optimiser.zero_grad()
        terms["total"].backward()  # type: ignore[no-untyped-call]
        size = clip_grad_norm_(self._parameters, self.schedule.clip)
        values = _numbers(terms | {"gradient": size})
        batches, s = batch_count(len(self.train), self.schedule.batch), self.schedule
        slow_down(self.optimiser, s.learning_rate, (self.epoch + self._batch / batches) / s.epochs, s.decay)
        self._batch += 1
        if not self.epoch and self._batch == 1:
            self._first = values["total"]
        self._check(values, f"step {self._batch}")
        self.optimiser.step()
        del values["gradient"]
        return values

    def _repeated(self, places: Tensor) -> Tensor:
        """Indices of a batch, repeated for each draw per row."""
        draws = self.objective.settings.draws
        return places.repeat(draws) if draws > 1 else places

    def _terms(self, rows: TrainingRows, generator: torch.Generator) -> dict[str, Tensor]:
        """The terms of a batch and their weighted sum, by name."""
        shape = (len(rows), self.model.architecture.latent)
        noise = torch.randn(shape, generator=generator).to(self.device, self.dtype)
        drawn = self.model(rows.x, rows.y_target, noise, rows.allowed, rows.answers)
        terms = self.objective.terms(rows.x, rows.y_target, drawn)
        return terms | {"total": self.objective.total(terms)}

    @torch.no_grad()
    def _validated(self) -> dict[str, float]:
        """Means of the terms on validation rows, with the same noise every time so that epochs are comparable."""
        fixed = torch.Generator().manual_seed(0)
        found = means(
            (_numbers(self._terms(self.validation.take(self._repeated(part), self.device), fixed)), len(part))
            for part in even_batches(torch.arange(len(self.validation)), self.schedule.batch)
        )
        self._check(found, "validation")
        return found

    def _check(self, values: dict[str, float], place: str) -> None:
        """Stop at the first value that is not finite, and at a term that has exploded."""
        # Not part of the state, since the history has it after the first epoch.
        first = self.history.epochs[0].train["total"] if self.epoch else self._first
        limit, weights = EXPLODED * max(1.0, abs(first)), dict(self.objective.weights)
        for name, value in values.items():
            if not math.isfinite(value):
                self._stop(f"{name} is {value}", place)
            # Gradients are clipped, so their size does not matter.
            if name != "gradient" and weights.get(name, 1.0) * abs(value) > limit:
                self._stop(f"{name} is {value:.3g}, but the whole loss was {first:.3g} at the start", place)

    def _stop(self, problem: str, place: str) -> NoReturn:
        kept = "of the best epoch" if self.epoch else "that it started with"
        remedy = f"Lower the learning rate, or the weight of that term. The model has the weights {kept}."
        raise TrainingError(f"epoch {self.epoch + 1}, {place}: {problem}. {remedy}")

    def _finish_epoch(self, train: dict[str, float], validation: dict[str, float]) -> None:
        super()._finish_epoch(train, validation)
        self._resting = self._snapshot()

    def _call_back(self, hook: str, *details: object) -> None:
        if hook == "on_epoch_begin":
            self._batch = 0
        for callback in self.callbacks:
            getattr(callback, hook)(self, *details)

    def state(self) -> dict[str, Any]:
        """Everything that the next epoch depends on, as the last finished epoch left it.

        It consists of tensors, numbers and plain lists that later training does not change.
        """
        return dict(self._resting)

    def _snapshot(self) -> dict[str, Any]:
        return {
            "model": copied(self.model.state_dict()),
            "best_weights": self.best_weights,
            "optimiser": _copied_optimiser(self.optimiser.state_dict()),
            "generator": self.generator.get_state(),
            "best_loss": self.best_loss,
            "waited": self.waited,
            "history": self.history.to_list(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a state; the objective, the rows and the schedule must be those it was saved with."""
        self.model.load_state_dict(state["model"])
        # Adam works in place on the tensors that it is given.
        self.optimiser.load_state_dict(_copied_optimiser(state["optimiser"]))
        self.generator.set_state(state["generator"])
        self.best_weights, self.best_loss = state["best_weights"], state["best_loss"]
        self.waited = state["waited"]
        self.history = History([Epoch(e["number"], e["train"], e["validation"]) for e in state["history"]])
        self._resting = dict(state)


def _check_rows(train: TrainingRows) -> None:
    few = {
        0: "there are none to train on: all rows have the target class",
        1: "there is only one, and batch norm needs two",
    }
    if len(train) in few:
        raise TrainingError("this training cannot begin", [Fault("rows", few[len(train)], "Bring more rows.")])


def _numbers(tensors: dict[str, Tensor]) -> dict[str, float]:
    """The values of scalars, fetched from the device in one transfer."""
    values = torch.stack([tensor.detach() for tensor in tensors.values()]).tolist()
    return dict(zip(tensors, values, strict=True))


def _copied_optimiser(state: dict[str, Any]) -> dict[str, Any]:
    return state | {"state": {index: copied(kept) for index, kept in state["state"].items()}}


class TrainingLines(Callback):
    """Reports progress of a training."""

    def __init__(self, lines: ProgressLines) -> None:
        self.lines, self.before = lines, 0

    def on_train_begin(self, training: Training) -> None:
        """Report the number of rows and epochs."""
        self.before = training.epoch
        self.lines.say(
            f"{counted(len(training.train), 'row')}, in at most {counted(training.schedule.epochs, 'epoch')}"
        )

    def on_epoch_end(self, training: Training) -> None:
        """Report progress. Epochs from before resuming took no time here and are not counted."""
        self.lines.move(training.epoch - self.before, training.schedule.epochs - self.before, "epoch")
