"""Work that takes its time, on standard error: a bar with the time left where somebody watches, a line now and then
where nobody does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.text import Text

from .console import err, out

# Where nobody watches, a line so many seconds after the last.
SILENCE = 30.0
# The width of a bar, and of one where there is little room.
WIDE, NARROW, LITTLE = 24, 8, 80


class Work:
    """What is being done, how much of it is done, and how long the rest will take; see `working`."""

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        console: Console = err,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what, self.total, self.done, self.begun_with = what, total, 0, 0
        self._console, self._clock = console, clock
        self._start = self._moved = self._told = clock()
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

    def move(self, done: int, *, total: int | None = None, what: str | None = None, fresh: bool = True) -> None:
        """So much is done now. What was there already is not `fresh`, and says nothing of the time that is left."""
        self._moved = self._clock()
        if not fresh:
            self._start, self.begun_with = self._moved, done
        self.done, self.total, self.what = done, self.total if total is None else total, what or self.what
        self._display.update(self._task, completed=done, total=self.total, description=escape(self.what))
        if not self._watched and self._moved - self._told >= SILENCE:
            self._told = self._moved
            self._console.print(escape(f"{self.what}: {self.state()}"), highlight=False, soft_wrap=True)

    def state(self) -> str:
        """How much of how much and the time left; or the time that it took so far."""
        if not self.total:
            return _clock_time(self._clock() - self._start)
        left = self.seconds_left()
        return f"{self.done:,} of {self.total:,}" + ("" if left is None else f", {_clock_time(left)} left")

    def seconds_left(self) -> float | None:
        """What the rest takes at the pace so far, if there is one."""
        fresh = self.done - self.begun_with
        if self.total is None or fresh <= 0:
            return None
        rest = (self._moved - self._start) / fresh * (self.total - self.done)
        return max(0.0, rest - (self._clock() - self._moved))

    def say(self, line: str) -> None:
        """A result on standard output, with the bar out of its way."""
        self.stop()
        out.print(escape(line), highlight=False, soft_wrap=True)
        self.start()


@contextmanager
def working(what: str, total: int | None = None) -> Iterator[Work]:
    """Show that something is being done until it is; `total` is how much there is to do, if that is known."""
    work = Work(what, total)
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


def _clock_time(seconds: float) -> str:
    """Seconds as 1:05, or as 1:01:05."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
