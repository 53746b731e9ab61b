"""How far a long work is: the one event that it tells, and lines on standard error for those who ask for them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

from .text import clock_time, counted

# Seconds between two lines.
SILENCE = 10.0
# The stages of explaining a file: rows that an earlier run has answered, and the others.
FOUND, EXPLAINING = "going through the answers that are there", "explaining rows"


@dataclass(frozen=True)
class Progress:
    """How far a long work is: `done` of `total`, which is None where nobody knows.

    `stage` is what is being done, for people to read; what comes in another stage has a pace of its own. `note` is
    something worth knowing that is told once.
    """

    stage: str
    done: int
    total: int | None = None
    note: str = ""


OnProgress = Callable[[Progress], None]
"""Told now and then how far it is."""

OnRows = Callable[[int, int | None], None]
"""Told how many rows are done, and how many there are, if that is known."""
OnWhy = Callable[[int, float], None]
"""Told of how many rows it is asked what stands in their way, and how much of that is done, from 0 to 1."""


def nobody(_: Progress) -> None:
    """Told, and does nothing with it."""


def counting(stage: str, on_progress: OnProgress) -> Callable[[int, int | None], None]:
    """What is told as two numbers, how much is done and of how much, as events of a stage."""

    def tell(done: int, total: int | None = None) -> None:
        on_progress(Progress(stage, done, total))

    return tell


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

    def rows(self, done: int, total: int | None) -> None:
        """So many rows are done; None is a number of rows that nobody knows."""
        self.move(done, total, "row")

    def tell(self, event: Progress) -> None:
        """So many rows of a file are done. What is noted begins anew: rows before it took no time."""
        if event.note:
            self._before = event.done
            self.say(event.note)
        elif event.done != self._done:
            self._done = event.done
            self.rows(event.done, event.total)

    def why(self, rows: int, share: float) -> None:
        """So much is done of finding out what stands in the way of some rows."""
        if self._clock() - self._told >= self.silence:
            self.say(f"looking for what stands in the way of {counted(rows, 'row')}, {share:.0%} done")

    def move(self, done: int, total: int | None, unit: str) -> None:
        """So much is done of so much; the unit in the singular."""
        passed = self._clock() - self._start
        if total is not None and done >= total:
            self.say(f"{counted(done, unit)} done in {clock_time(passed)}")
        elif self._clock() - self._told >= self.silence:
            if total is None or done <= self._before:
                self.say(counted(done, unit))
            else:
                self.say(
                    f"{done:,} of {counted(total, unit)}{_left(passed, done - self._before, total - self._before)}"
                )


def _left(passed: float, done: int, total: int) -> str:
    return f", {clock_time(passed / done * (total - done))} left"


def both(first: Callable[..., None], second: Callable[..., None] | None) -> Callable[..., None]:
    """Tell the first and, if there is one, the second."""

    def tell(*what: Any) -> None:
        for one in (first, second):
            if one is not None:
                one(*what)

    return tell
