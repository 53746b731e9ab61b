"""Progress of long work on standard error: a bar with the time left on a terminal, otherwise a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import Progress as Bars
from rich.progress import ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.text import Text

from ..progress import WHY_NOT, Progress
from ..text import clock_time, counted
from .console import err, note, out

if TYPE_CHECKING:
    from ..generator.training import Callback, Training
else:
    # The generator needs torch, which most commands do without; every hook is defined here.
    Callback = object

PREPARING = "preparing: rows that the model refuses, its gradients, the causal graph"

# Seconds between lines where there is no terminal.
SILENCE = 30.0
# The time left is estimated from the pace of the last seconds, since later parts may be slower than earlier ones.
LATELY = 300.0
# The width of a bar, its width on a narrow terminal, and the width below which a terminal is narrow.
WIDE, NARROW, LITTLE = 24, 8, 80


class Work:
    """The current work, how much of it is done (`total` is all of it, if known), and the time left, shown in a `with`.

    If the parts are not `even`, the time of some does not predict the others, and the elapsed time is shown instead.
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
        self.what, self.even, self._in_percent = what, even, False
        self._console, self._clock = console, clock
        self._start = self._last_line = clock()
        what_column = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis"))
        wide = WIDE if console.width >= LITTLE else NARROW
        # A bar, once the total is known, and the progress in words.
        bar = _Drawn(lambda task: ProgressBar(task.total, task.completed, width=wide) if task.total else Text(""))
        columns = SpinnerColumn(), what_column, bar, _Drawn(lambda _: Text(self.state()))
        self._watched = console.is_terminal and not console.quiet
        how: dict[str, Any] = {"transient": True, "get_time": clock, "speed_estimate_period": LATELY}
        self._display = _Display(*columns, console=console, disable=not self._watched, **how)
        self._task = self._display.add_task(escape(what), total=total)
        self._anew(0)

    def start(self) -> Self:
        """Show the bar, on a terminal."""
        if self._watched:
            self._display.start()
        return self

    def stop(self, *_: object) -> None:
        """Remove the bar from the screen."""
        if self._watched:
            self._display.stop()

    __enter__, __exit__ = start, stop

    def describe(self, what: str | None = None, *, detail: str | None = None) -> None:
        """Rename the work, or change the line below the bar."""
        self._display.detail = self._display.detail if detail is None else detail
        if what is not None:
            self._display.update(self._task, description=escape(what))

    def tell(self, event: Progress) -> None:
        """Show an event."""
        if event.note:
            note(event.note)
        if event.detail:
            self.describe(detail=event.detail)
        reasons = event.stage == WHY_NOT
        what = f"{WHY_NOT} for {counted(event.total or 0, 'row')}" if reasons else event.stage
        self.move(event.done, event.total, what=what, in_percent=reasons)

    def move(self, done: float, total: int | None = None, *, what: str | None = None, in_percent: bool = False) -> None:
        """Set the amount done; with a `total` of 0, nothing is counted."""
        task, now, self._in_percent = self._display.tasks[0], self._clock(), in_percent
        # The next stage may have another pace.
        if what not in (None, self.what) or done < task.completed or total not in (None, task.total):
            self._anew(done, total)
        self.what = what or self.what
        named = None if what is None else escape(what)
        self._display.update(self._task, completed=done, total=total, description=named)
        if not self._watched and now - self._last_line >= SILENCE:
            self._last_line = now
            self._console.print(escape(f"{self.what}: {self.state()}"))

    def _anew(self, done: float, total: int | None = None) -> None:
        """Start counting from here; rich measures the pace from the first step on, even an empty one."""
        self._display.reset(self._task, completed=done, total=total)  # type: ignore[arg-type]
        self._display.advance(self._task, 0)

    def state(self) -> str:
        """The amount done and the time left, or the elapsed time."""
        task, passed = self._display.tasks[0], clock_time(self._clock() - self._start)
        if not task.total:
            return passed
        share = f"{task.percentage:.0f}%" if self._in_percent else f"{task.completed:,.0f} of {task.total:,.0f}"
        if not self.even:
            return f"{share}, {passed} so far"
        left = None if task.finished else task.time_remaining
        return share if left is None else f"{share}, {clock_time(left)} left"

    def say(self, line: str) -> None:
        """Print a result on standard output, with the bar hidden."""
        self.stop()
        out.print(escape(line))
        self.start()


class TrainingProgress(Work, Callback):
    """Show the epoch, the time left, the loss and its terms, updated with every batch.

    After the training, `rows` is the number of rows in each epoch, and `resumed` the number of epochs that an earlier
    run had finished.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(PREPARING, console=console)
        self.rows = self.resumed = self._batch = 0

    def on_train_begin(self, training: Training) -> None:
        """Print how much there is to do, and where a resumed training continues."""
        self.rows, self.resumed = len(training.train), training.epoch
        total = training.schedule.epochs
        if training.epoch:
            self._console.print(f"resuming after epoch {training.epoch}")
        if not self._console.is_terminal:
            self._console.print(f"training on {self.rows:,} refused rows, for at most {total:,} epochs")
        self.move(training.epoch, total, what="training, epoch")

    def on_epoch_begin(self, training: Training) -> None:
        """Name the epoch."""
        self._batch = 0
        self.describe(f"epoch {training.epoch + 1} of {training.schedule.epochs}")

    def on_batch_end(self, training: Training, terms: dict[str, float]) -> None:
        """Advance the bar by one batch and show its terms."""
        self._batch += 1
        batches = max(1, round(len(training.train) / training.schedule.batch))
        if self._console.is_terminal:
            parts = ", ".join(f"{name} {value:.3g}" for name, value in terms.items() if name != "total")
            self.describe(detail=f"loss {terms['total']:.3g} of {parts}")
            self.move(training.epoch + min(1.0, self._batch / batches), in_percent=True)

    def on_epoch_end(self, training: Training) -> None:
        """Without a bar, print a line if the last one is long ago."""
        self.move(training.epoch, in_percent=self._console.is_terminal)

    def on_train_end(self, training: Training) -> None:
        """Clear the line of terms."""
        self.describe(detail="")


class _Drawn(ProgressColumn):
    """A column that a function draws."""

    def __init__(self, draw: Callable[[Task], RenderableType]) -> None:
        self.draw = draw
        super().__init__(table_column=Column(no_wrap=True))

    def render(self, task: Task) -> RenderableType:
        return self.draw(task)


class _Display(Bars):
    """A bar with a line below it."""

    detail = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, then the line."""
        yield from super().get_renderables()
        if self.detail:
            yield Text(self.detail, no_wrap=False, overflow="fold")
