"""Long work on standard error: a bar with the time left where somebody watches, else a line now and then."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.text import Text

from ..generator.training import Callback, Training
from ..text import clock_time
from .console import err, out

# Where nobody watches, a line so many seconds after the last.
SILENCE = 30.0
# The pace of so many seconds tells the time left: what comes last may be slower than what came first.
LATELY = 60.0
# The width of a bar, and of one where there is little room.
WIDE, NARROW, LITTLE = 24, 8, 80


class Work:
    """What is being done, how much of it is done, and how long the rest will take; see `working`.

    Where the parts are not `even`, the time of some says nothing of the others, and that so far is told instead.
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        even: bool = True,
        console: Console = err,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what, self.total, self.done, self.even, self._in_percent = what, total, 0, even, False
        self._console, self._clock = console, clock
        self._start = self._told = clock()
        self._steps = deque([(self._start, 0)])
        what_column = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis"))
        columns = SpinnerColumn(), what_column, _Bar(console), _Tail(self)
        self._watched = console.is_terminal and not console.quiet
        self._display = Progress(*columns, console=console, transient=True, disable=not self._watched)
        self._task = self._display.add_task(escape(what), total=total)

    def start(self) -> None:
        """Show it, if somebody watches."""
        if self._watched:
            self._display.start()

    def stop(self) -> None:
        """Take it from the screen."""
        if self._watched:
            self._display.stop()

    def move(
        self,
        done: int,
        total: int | None = None,
        *,
        what: str | None = None,
        fresh: bool = True,
        in_percent: bool = False,
    ) -> None:
        """So much is done now; of a `total` of 0, nothing is counted.

        What was there already is not `fresh`, and says nothing of the time that is left.
        """
        now = self._clock()
        # What is done next may have another pace.
        self._step(now, done, fresh=fresh and what in (None, self.what))
        self.done, self.total, self.what = done, self.total if total is None else total, what or self.what
        self._in_percent = in_percent
        self._display.update(self._task, completed=done, total=self.total, description=escape(self.what))
        if not self._watched and now - self._told >= SILENCE:
            self._told = now
            self._console.print(escape(f"{self.what}: {self.state()}"), highlight=False, soft_wrap=True)

    def _step(self, now: float, done: int, *, fresh: bool) -> None:
        """Keep the steps of late, and at least the last."""
        if not fresh or done < self._steps[-1][1]:
            self._steps.clear()
        if not self._steps or done != self._steps[-1][1]:
            self._steps.append((now, done))
        while len(self._steps) > 2 and self._steps[1][0] <= now - LATELY:
            self._steps.popleft()

    def state(self) -> str:
        """How much of how much and the time left; or the time that it took so far."""
        passed = clock_time(self._clock() - self._start)
        if not self.total:
            return passed
        left = self.seconds_left()
        counted = f"{self.done / self.total:.0%}" if self._in_percent else f"{self.done:,} of {self.total:,}"
        if not self.even:
            return f"{counted}, {passed} so far"
        return counted if left is None else f"{counted}, {clock_time(left)} left"

    def seconds_left(self) -> float | None:
        """What the rest takes at the pace of late, if there is one."""
        (begin, before), (moved, done) = self._steps[0], self._steps[-1]
        if self.total is None or done <= before:
            return None
        rest = (moved - begin) / (done - before) * (self.total - done)
        return max(0.0, rest - (self._clock() - moved))

    def say(self, line: str) -> None:
        """A result on standard output, with the bar out of its way."""
        self.stop()
        out.print(escape(line), highlight=False, soft_wrap=True)
        self.start()


@contextmanager
def working(what: str, total: int | None = None, *, even: bool = True) -> Iterator[Work]:
    """Show that something is being done until it is; `total` is how much there is to do, if that is known."""
    work = Work(what, total, even=even)
    work.start()
    try:
        yield work
    finally:
        work.stop()


class _Bar(ProgressColumn):
    """A bar, once it is known how much there is to do."""

    def __init__(self, console: Console) -> None:
        self.width = WIDE if console.width >= LITTLE else NARROW
        super().__init__()

    def render(self, task: Task) -> ProgressBar | Text:
        """The bar, or nothing."""
        return ProgressBar(task.total, task.completed, width=self.width) if task.total else Text("")


class _Tail(ProgressColumn):
    """How far it is, in words."""

    def __init__(self, work: Work) -> None:
        self.work = work
        super().__init__(table_column=Column(no_wrap=True))

    def render(self, task: Task) -> Text:
        """Counted, or timed."""
        return Text(self.work.state())


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
