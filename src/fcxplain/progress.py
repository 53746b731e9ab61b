"""How far a long work is, as lines on standard error, for notebooks and scripts that ask for it (`progress=True`)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from .generator.training import Callback, Training
from .text import clock_time, counted

# Seconds between two lines.
SILENCE = 10.0

OnWhy = Callable[[int, float], None]
"""Told of how many rows it is asked what stands in their way, and how much of that is done, from 0 to 1."""


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
        self._before = 0

    def say(self, text: str) -> None:
        """A line, whenever the last was."""
        self._told = self._clock()
        self.stream.write(f"{self.what}: {text}\n")
        self.stream.flush()

    def rows(self, done: int, total: int | None) -> None:
        """So many rows are done; None is a number of rows that nobody knows."""
        self.move(done, total, "row")

    def resume(self, done: int) -> None:
        """So many rows were there already: they took no time, and say nothing of the time that is left."""
        self._before = done
        self.say(f"going on after row {done:,}")

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


class TrainingLines(Callback):
    """Lines about a training."""

    def __init__(self, lines: ProgressLines) -> None:
        self.lines, self.before = lines, 0

    def on_train_begin(self, training: Training) -> None:
        """Say how much there is to do."""
        self.before = training.epoch
        self.lines.say(
            f"{counted(len(training.train), 'row')}, in at most {counted(training.schedule.epochs, 'epoch')}"
        )

    def on_epoch_end(self, training: Training) -> None:
        """Say how far it is. What was there already took no time, and is not counted."""
        self.lines.move(training.epoch - self.before, training.schedule.epochs - self.before, "epoch")


def both(first: Callable[..., None], second: Callable[..., None] | None) -> Callable[..., None]:
    """Tell the first and, if there is one, the second."""

    def tell(*what: Any) -> None:
        for one in (first, second):
            if one is not None:
                one(*what)

    return tell
