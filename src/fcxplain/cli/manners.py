"""Behaviour that all commands share: --quiet and --debug, exit codes, and help texts that wrap at the terminal's width.

Every command of an `App` gets these options in addition to its own.
"""

from __future__ import annotations

import functools
import inspect
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

from ..errors import FcxError, FcxWarning
from .console import alarm, err, visible

# Exit codes besides 0 (done), 1 (a check did not pass, see --all-verified) and 2 (bad input).
FAULT_OF_OURS, STOPPED = 70, 130

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results, warnings and errors only.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

# The base class of usage errors; typer exports it under another name than click does.
_USAGE_ERROR: Any = typer.BadParameter.__mro__[1]

Function = TypeVar("Function", bound=Callable[..., None])


@dataclass
class Manner:
    """The shared options of the current command."""

    quiet: bool = False
    debug: bool = False


MANNER = Manner()


class _Command(TyperCommand):
    """A command whose help shows no type for flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))


class _Group(TyperGroup):
    """The same for a group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))

    def make_context(self, *given: Any, **how: Any) -> Any:
        with _visible_usage():
            return super().make_context(*given, **how)

    def invoke(self, ctx: Any) -> Any:
        with _visible_usage():
            return super().invoke(ctx)


@contextmanager
def _visible_usage() -> Iterator[None]:
    """Escape control characters in usage errors, which typer prints with its own console."""
    try:
        yield
    except _USAGE_ERROR as error:
        error.message = visible(error.message)
        raise


def _plain(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


class App(typer.Typer):
    """A group of commands with the shared options."""

    def __init__(self, **how: Any) -> None:
        super().__init__(cls=_Group, **how)

    def command(self, name: str | None = None, **how: Any) -> Callable[[Function], Function]:
        """Like typer's, with the shared options."""
        register = super().command(name, cls=_Command, **how)

        def decorate(function: Function) -> Function:
            register(_with_manners(function))
            return function

        return decorate


def _with_manners(function: Callable[..., None]) -> Callable[..., None]:
    """The command with --quiet and --debug; Ctrl-C prints one line."""

    @functools.wraps(function)
    def command(*, quiet: bool, debug: bool, **chosen: Any) -> None:
        # --debug may also be given before the command's name.
        MANNER.quiet, MANNER.debug = quiet, MANNER.debug or debug
        err.quiet = quiet
        try:
            function(**chosen)
        except KeyboardInterrupt as stop:
            _tell_stopped(stop)
            raise typer.Exit(STOPPED) from None

    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (("quiet", Quiet), ("debug", Debug))
    ]
    own = inspect.signature(function, eval_str=True)
    for parameter in own.parameters.values():
        _name_what_is_too_little(parameter.annotation)
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own.parameters.values()]
    command.__dict__["__signature__"] = own.replace(parameters=[*parameters, *shared])
    command.__annotations__ = {p.name: p.annotation for p in [*parameters, *shared]}
    command.__doc__ = _filled(function.__doc__ or "")
    return command


def _name_what_is_too_little(annotation: Any) -> None:
    """Check minimum values ourselves, since typer's message does not name the value."""
    for info in getattr(annotation, "__metadata__", ()):
        if isinstance(info, OptionInfo) and info.min is not None:
            info.callback, info.min = _at_least(info.min), None


def _at_least(least: float) -> Callable[[float | None], float | None]:
    def check(value: float | None) -> float | None:
        if value is not None and value < least:
            raise typer.BadParameter(f"{value:,} is too small; give {least:,} or more")
        return value

    return check


def _filled(text: str) -> str:
    """Each paragraph as one line, so that help wraps it at the terminal's width."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def end(error: BaseException) -> int:
    """Print an error in one line, after its traceback with --debug; return the exit code."""
    if MANNER.debug:
        sys.stderr.write(visible("".join(traceback.format_exception(error))))
    if isinstance(error, KeyboardInterrupt):
        _tell_stopped(error)
        return STOPPED
    if isinstance(error, FcxError):
        _tell("error:", str(error))
        return 2
    if isinstance(error, OSError) and error.strerror:
        _tell("error:", f"{error.filename or 'a file'}: {error.strerror}")
        return 2
    what = " ".join(f"{type(error).__name__}: {error}".split())
    _tell("error in fcxplain itself:", f"{what}. Run it again with --debug for the traceback, and please report it.")
    return FAULT_OF_OURS


# An argument in a message of the library, and one that names the place of a mistake.
_NAMES = "label|target|schema|rules|ignore|index|immutable|classes|classifier|skip_missing|overwrite|chunk|engine"
_ARGUMENT = re.compile(rf"\b({_NAMES})=(\[[^\]]*\]|'[^']*'|True)")
_PLACE = re.compile(r"\b(ignore|index) '([^']*)'(?=: )|\b(setting) (?=[^ ]*:? )")


def as_options(text: str) -> str:
    """A message of the library with options for Python arguments: ignore=['a', 'b'] becomes --ignore a --ignore b."""

    def argument(found: re.Match[str]) -> str:
        option, values = f"--{found[1].replace('_', '-')}", re.findall(r"'([^']*)'", found[2])
        return " ".join(f"{option} {shlex.quote(value)}" for value in values) or option

    def place(found: re.Match[str]) -> str:
        return "--set " if found[3] else f"--{found[1]} {found[2]}"

    return _PLACE.sub(place, _ARGUMENT.sub(argument, text))


def _tell(kind: str, text: str) -> None:
    alarm.print(f"[bold red]{kind}[/]", escape(as_options(text)), highlight=False, soft_wrap=True)


def _tell_stopped(stop: KeyboardInterrupt) -> None:
    detail = f": {stop}" if str(stop) else ""
    alarm.print(escape(f"stopped{detail}"), highlight=False, soft_wrap=True)


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Print our own warnings; those of other libraries are for programmers."""
    if issubclass(category, FcxWarning):
        # While a bar is on screen, only its own console can print without garbling it.
        console = alarm if err.quiet else err
        console.print("[yellow]warning:[/]", escape(as_options(str(message))), highlight=False, soft_wrap=True)


def listen_to_warnings() -> None:
    """Print warnings as lines of the command."""
    warnings.showwarning = show_warning
