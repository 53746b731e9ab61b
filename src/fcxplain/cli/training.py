"""How far a training is: loaded by the commands that train, since it needs torch."""

from __future__ import annotations

from typing import Self

from rich.console import Console

from ..generator.training import Callback, Training
from ..progress import Progress
from .progress import Work

PREPARING = "preparing: whom the model refuses, its gradients, the causal graph"


class TrainingProgress(Callback):
    """Epoch x of n, the time left, the loss and its terms, moved on with every batch.

    A context manager, so that the display ends however the training does. After the training, `rows` is how
    many rows it saw each epoch, and `resumed` how many epochs were there already. `then` is what comes after it.
    """

    def __init__(self, console: Console, then: str = "") -> None:
        self.console, self.rows, self.resumed, self.then = console, 0, 0, then
        self._work, self._batch = Work(PREPARING, console=console), 0

    def __enter__(self) -> Self:
        self._work.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._work.stop()

    def tell(self, event: Progress) -> None:
        """How far it is with what comes before the training, or after it."""
        self._work.tell(event)

    def on_train_begin(self, training: Training) -> None:
        """Say where it goes on, if it does, and how much there is to do."""
        self.rows, self.resumed = len(training.train), training.epoch
        total = training.schedule.epochs
        if training.epoch:
            self.console.print(f"going on after epoch {training.epoch}", highlight=False)
        if not self.console.is_terminal:
            told = f"learning from {self.rows:,} refused rows, in at most {total:,} epochs"
            self.console.print(told, highlight=False, soft_wrap=True)
        self._work.move(training.epoch, total, what="learning, epoch")

    def on_epoch_begin(self, training: Training) -> None:
        """Name the epoch."""
        self._batch = 0
        self._work.describe(f"epoch {training.epoch + 1} of {training.schedule.epochs}")

    def on_batch_end(self, training: Training, terms: dict[str, float]) -> None:
        """Move the bar on by a batch and show its terms."""
        self._batch += 1
        batches = max(1, round(len(training.train) / training.schedule.batch))
        if self.console.is_terminal:
            self._work.describe(detail=worded(terms))
            self._work.move(training.epoch + min(1.0, self._batch / batches), in_percent=True)

    def on_epoch_end(self, training: Training) -> None:
        """Where there is no bar, a line if the last is long ago."""
        self._work.move(training.epoch, in_percent=self.console.is_terminal)

    def on_train_end(self, training: Training) -> None:
        """Give way to what comes next."""
        self._work.describe(detail="")
        if self.then:
            self._work.move(0, 0, what=self.then)


def worded(terms: dict[str, float]) -> str:
    """The loss, and the terms that it is the weighted sum of."""
    parts = [f"{name} {value:.3g}" for name, value in terms.items() if name != "total"]
    return f"loss {terms['total']:.3g} of {', '.join(parts)}"
