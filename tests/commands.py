"""The command line, run in this process as a user would, with all that `main` does around it."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import typer.main

from fcxplain.cli import main

# A process builds its options once. So does this one, however many commands it runs.
typer.main.get_command = cache(typer.main.get_command)


@dataclass(frozen=True)
class Done:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """Both streams with every run of blanks as one, since tables are folded to the width of a terminal."""
        return re.sub(r"\s+", " ", f"{self.out} {self.err}")


def run(*arguments: object, folder: Path) -> Done:
    """The command line in this process, with all that `main` does around it."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["fcxplain", *map(str, arguments)]
    try:
        with contextlib.chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("always")
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
                main()
    finally:
        sys.argv = before
    return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())
