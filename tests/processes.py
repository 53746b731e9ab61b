"""Processes that begin with all that they need imported: a fresh Python takes seconds for that."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from fcxplain.cli import main

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    [
        "pytest",
        "hypothesis",
        "sklearn.linear_model",
        "fcxplain.cli",
        "fcxplain.explainer",
        "fcxplain.generator.training",
    ]
)


def _command(folder: Path, arguments: Sequence[str], said: Path) -> None:
    """The command line, as a terminal would start it."""
    # A suite that was started in the background hands on that Ctrl-C is ignored; a person's terminal does not.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    sys.argv = ["fcxplain", *arguments]
    with Path(os.devnull).open("w") as sys.stdout, said.open("w", buffering=1) as sys.stderr:
        main()


def start(*arguments: object, folder: Path, said: Path) -> BaseProcess:
    """A command in a process of its own; what it says on standard error comes into a file."""
    process = processes.Process(target=_command, args=(folder, [*map(str, arguments)], said))
    process.start()
    return process


def wait(process: BaseProcess, until: Callable[[], bool]) -> None:
    """Wait until something is seen, or the process ended without it."""
    while process.is_alive() and not until():
        time.sleep(0.01)
