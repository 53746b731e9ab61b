"""Progress of long work: the one event that reports it, and lines on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from .text import clock_time, counted

# Seconds between two lines.
SILENCE = 10.0
# The stages of explaining: rows that an earlier run has answered, the others, and those that have no answer.
FOUND, EXPLAINING = "reading the answers of an earlier run", "explaining rows"
WHY_NOT = "finding reasons"


@dataclass(frozen=True)
class Progress:
    """The progress of long work: `done` of `total`, which is None if unknown.

    `stage` names the current work, for people to read; each stage has its own pace. `note` is a message to show once,
    `detail` the current state, such as the number of rows per status. `done` may include fractions of a row, since rows
    are worked on together.
    """

    stage: str
    done: float
    total: int | None = None
    note: str = ""
    detail: str = ""


OnProgress = Callable[[Progress], None]
"""Called with each event."""


def no_progress(_: Progress) -> None:
    """Ignore an event."""


def both(first: OnProgress, second: OnProgress) -> OnProgress:
    """Pass events to the first, then to the second."""

    def tell(event: Progress) -> None:
        first(event)
        second(event)

    return tell


class RowCount:
    """Counts rows explained, starting at `before`; reports only when the count rises."""

    def __init__(self, total: int | None, on_progress: OnProgress, before: int = 0, *, reasons: bool = False) -> None:
        self.before = self.done = before
        self.total, self.on_progress, self.reasons = total, on_progress, reasons

    def add(self, rows: int, without: int = 0) -> None:
        """Add rows that were searched; with `reasons` to follow, those `without` an answer are not done yet."""
        rows -= without * self.reasons
        if rows > 0:
            self.done += rows
            self.on_progress(Progress(EXPLAINING, self.done, self.total))

    def tell(self, event: Progress) -> None:
        """Count the rows of an event; events of other stages are passed on."""
        if event.stage == EXPLAINING:
            self.add(self.before + int(event.done) - self.done)
        else:
            self.on_progress(event)


class ProgressLines:
    """Prints a line every few seconds, and one when everything is done."""

    def __init__(
        self,
        what: str,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # Looked up now: notebooks replace standard error.
        self.what, self.stream = what, stream or sys.stderr
        self._clock = clock
        self._start = self._last = clock()
        self._before, self._done = 0, -1

    def say(self, text: str) -> None:
        """Print a line now."""
        self._last = self._clock()
        self.stream.write(f"{self.what}: {text}\n")
        self.stream.flush()

    def tell(self, event: Progress) -> None:
        """Print an event, if it is time. After a note, the pace is measured from there: rows before it took no time."""
        if event.note:
            self._before = self._before if event.total is None else int(event.done)
            self.say(event.note)
        elif event.stage == WHY_NOT and event.total:
            if self._clock() - self._last >= SILENCE:
                self.say(f"{WHY_NOT} for {counted(event.total, 'row')}, {event.done / event.total:.0%} done")
        elif event.done != self._done:
            self._done = int(event.done)
            self.move(self._done, event.total, "row", event.detail)

    def move(self, done: int, total: int | None, unit: str, detail: str = "") -> None:
        """Print how much is done, if it is time; the unit is singular."""
        passed, detail = self._clock() - self._start, f" ({detail})" if detail else ""
        if total is not None and done >= total:
            self.say(f"{counted(done, unit)} done in {clock_time(passed)}{detail}")
        elif self._clock() - self._last >= SILENCE:
            if total is None or done <= self._before:
                self.say(counted(done, unit))
            else:
                left = clock_time(passed / (done - self._before) * (total - done))
                self.say(f"{done:,} of {counted(total, unit)}, {left} left{detail}")
