"""How far a long work is: the one event that it tells, and lines on standard error for those who ask for them."""

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
FOUND, EXPLAINING = "going through the answers that are there", "explaining rows"
WHY_NOT = "looking for what stands in the way"


@dataclass(frozen=True)
class Progress:
    """How far a long work is: `done` of `total`, which is None where nobody knows.

    `stage` is what is being done, for people to read; what comes in another stage has a pace of its own. `note` is
    something worth knowing that is told once, `detail` what is known now, such as how many rows have which status.
    Where rows are worked on together, some of one may be done.
    """

    stage: str
    done: float
    total: int | None = None
    note: str = ""
    detail: str = ""


OnProgress = Callable[[Progress], None]
"""Told now and then how far it is."""


def nobody(_: Progress) -> None:
    """Told, and does nothing with it."""


def both(first: OnProgress, second: OnProgress) -> OnProgress:
    """Tell the first, then the second."""

    def tell(event: Progress) -> None:
        first(event)
        second(event)

    return tell


class RowCount:
    """Rows explained, counted on after those `before`; told when there are more of them than were told already."""

    def __init__(self, total: int | None, on_progress: OnProgress, before: int = 0, *, reasons: bool = False) -> None:
        self.before = self.done = before
        self.total, self.on_progress, self.reasons = total, on_progress, reasons

    def add(self, rows: int, without: int = 0) -> None:
        """So many more were searched; those without an answer are not done yet, where `reasons` are to come."""
        rows -= without * self.reasons
        if rows > 0:
            self.done += rows
            self.on_progress(Progress(EXPLAINING, self.done, self.total))

    def tell(self, event: Progress) -> None:
        """What is done of the rows that come after those before; what is no row explained is passed on as it is."""
        if event.stage == EXPLAINING:
            self.add(self.before + int(event.done) - self.done)
        else:
            self.on_progress(event)


class ProgressLines:
    """A line when the last is some seconds ago, and one when everything is done."""

    def __init__(
        self,
        what: str,
        *,
        stream: TextIO | None = None,
        silence: float = SILENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # Looked up now: a notebook puts a stream of its own in the place of standard error.
        self.what, self.stream, self.silence = what, stream or sys.stderr, silence
        self._clock = clock
        self._start = self._told = clock()
        self._before, self._done = 0, -1

    def say(self, text: str) -> None:
        """A line, whenever the last was."""
        self._told = self._clock()
        self.stream.write(f"{self.what}: {text}\n")
        self.stream.flush()

    def tell(self, event: Progress) -> None:
        """So many rows are done. What is noted begins anew: rows before it took no time."""
        if event.note:
            self._before = self._before if event.total is None else int(event.done)
            self.say(event.note)
        elif event.stage == WHY_NOT and event.total:
            if self._clock() - self._told >= self.silence:
                self.say(f"{WHY_NOT} of {counted(event.total, 'row')}, {event.done / event.total:.0%} done")
        elif event.done != self._done:
            self._done = int(event.done)
            self.move(self._done, event.total, "row", event.detail)

    def move(self, done: int, total: int | None, unit: str, detail: str = "") -> None:
        """So much is done of so much; the unit in the singular."""
        passed, detail = self._clock() - self._start, f" ({detail})" if detail else ""
        if total is not None and done >= total:
            self.say(f"{counted(done, unit)} done in {clock_time(passed)}{detail}")
        elif self._clock() - self._told >= self.silence:
            if total is None or done <= self._before:
                self.say(counted(done, unit))
            else:
                left = _left(passed, done - self._before, total - self._before)
                self.say(f"{done:,} of {counted(total, unit)}{left}{detail}")


def _left(passed: float, done: int, total: int) -> str:
    return f", {clock_time(passed / done * (total - done))} left"
