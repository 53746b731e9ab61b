"""How far a training is, on standard error: a bar where somebody watches, a line now and then where nobody does."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from ..model.training import Callback, Training
from .work import Work

PREPARING = "preparing: whom the model refuses, its gradients, the causal graph"


class TrainingProgress(Callback):
    """Epoch x of n, the time left, the loss and its terms, moved on with every batch.

    A context manager, so that the display ends however the training does. After the training, `rows` is how
    many rows it saw each epoch, and `resumed` how many epochs were there already. `then` is what comes after it.
    """

    def __init__(self, console: Console, then: str = "") -> None:
        self.console, self.rows, self.resumed, self.then = console, 0, 0, then
        self._status, self._batch = Work(PREPARING, console=console), 0
        self._display = _Display(
            TextColumn("epoch {task.fields[epoch]} of {task.total:.0f}"),
            BarColumn(),
            TextColumn("time left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal or console.quiet,
        )

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()
        self._display.stop()

    def step(self, what: str, done: int, total: int | None) -> None:
        """How far it is with what comes before the training, or after it."""
        self._status.move(done, total, what=what)

    def on_train_begin(self, training: Training) -> None:
        """Say where it goes on, if it does, and show the bar."""
        self.rows, self.resumed = len(training.train), training.epoch
        self._status.stop()
        if training.epoch:
            self.console.print(f"going on after epoch {training.epoch}", highlight=False)
        total, epoch = training.schedule.epochs, min(training.epoch + 1, training.schedule.epochs)
        self._task = self._display.add_task("", total=total, completed=training.epoch, epoch=epoch)
        self._display.start()
        if not self.console.is_terminal:
            told = f"learning from {self.rows:,} refused rows, in at most {total:,} epochs"
            self.console.print(told, highlight=False, soft_wrap=True)
        self._lines = Work("learning, epoch", total, console=self.console)
        self._lines.move(training.epoch, fresh=False)

    def on_epoch_begin(self, training: Training) -> None:
        """Name the epoch."""
        self._batch = 0
        self._display.update(self._task, epoch=training.epoch + 1)

    def on_batch_end(self, training: Training, terms: dict[str, float]) -> None:
        """Move the bar on by a batch and show its terms."""
        self._batch += 1
        batches = max(1, round(len(training.train) / training.schedule.batch))
        self._display.terms = worded(terms)
        self._display.update(self._task, completed=training.epoch + min(1.0, self._batch / batches))

    def on_epoch_end(self, training: Training) -> None:
        """Where there is no bar, a line if the last is long ago."""
        self._display.update(self._task, completed=training.epoch)
        if not self.console.is_terminal:
            self._lines.move(training.epoch)

    def on_train_end(self, training: Training) -> None:
        """Give way to what comes next."""
        if self.then:
            self._display.stop()
            self._status = Work(self.then, console=self.console)
            self._status.start()


class _Display(Progress):
    """A bar with the terms of the last batch below it."""

    terms = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, then the terms."""
        yield self.make_tasks_table(self.tasks)
        yield Text(self.terms)


def worded(terms: dict[str, float]) -> str:
    """The loss, and the terms that it is the weighted sum of."""
    parts = [f"{name} {value:.3g}" for name, value in terms.items() if name != "total"]
    return f"loss {terms['total']:.3g} of {', '.join(parts)}"
