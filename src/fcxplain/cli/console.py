"""What all commands share: consoles, options, --quiet and --debug, exit codes, and help texts.

Every command of an `App` gets --quiet and --debug in addition to its own options.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from ..errors import DataError, FcxError, FcxWarning

# The packages of the extra fcxplain[serve].
_NEEDED = ("fastapi", "uvicorn", "cryptography", "multipart")
# Exit codes besides 0 (done), 1 (a check did not pass, see --all-verified) and 2 (bad input).
FAULT_OF_OURS, STOPPED = 70, 130
# Names that shells complete, written out because a shell should not wait for pandas.
DATA_SETS = ("adult", "adult-authors", "census", "law", "folktables", "loans")
RULES = ("unary", "binary", "actionable")
CLASSIFIERS = ("paper", "balanced", "mlp", "logistic", "boosting")
PREFERENCES = ("fewest", "sparse", "balanced", "plausible")
CONVENTIONS = ("ours", "authors")
METHODS = (
    *("fcx", "fcx-fewest", "fcx-sparse", "fcx-plausible", "fcx-search", "fcx-draw"),
    *("fcx-u", "fcx-b", "fcx-u-authors", "fcx-b-authors"),
    *("mahajan-unary", "mahajan-binary", "revise", "cchvae", "cem", "dice-random", "face", "vcnet", "fcegan", "ceils"),
)
STUDIES = ("latent", "lof-k-metric", "lof-k-loss", "pc-alpha", "hyperparameters", "components", "curves")
SPEEDS = (
    *("tables", "training", "growth", "explaining", "streaming", "compare"),
    *("models", "budget", "quick", "large", "memory"),
)
METRICS = (
    *("validity", "validity_soft", "feasibility", "success", "success_possible"),
    *("continuous_proximity", "categorical_proximity", "sparsity"),
    *("lof", "outliers", "lof_raw", "lof_to_data", "outliers_to_data", "supported"),
    *("diversity", "diversity_pairs", "optimality_gap", "rows_per_second", "calls_per_row"),
)
# Extensions of the files that commands write.
PICTURES = (".svg", ".png", ".pdf")
ANSWERS = (".parquet", ".csv", ".json")

# Control characters (C0 except tab and line feed, DEL, C1), line separators, and marks that reverse text.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text with control characters shown as escapes; line breaks stay."""
    return _UNSEEN.sub(lambda found: repr(found[0])[1:-1], text)


def one_line(value: object) -> str:
    """A value of a user's table as text without line breaks, so that it cannot imitate a line of ours."""
    return visible(str(value).replace("\n", "\\n"))


class _Console(Console):
    """A console that shows control characters as escapes; only rich's own reach the terminal."""

    debug = False
    """Whether errors show their traceback."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Escape control characters before the width is measured."""
        return super().render_str(visible(text), **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Escape them in renderables that are not plain text, such as the parts of a bar."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


# A name such as :key: must not turn into an emoji, and lines reach a pipe as they are.
_LOOK: dict[str, Any] = {"emoji": False, "highlight": False, "soft_wrap": True}
out = _Console(**_LOOK)
err = _Console(stderr=True, **_LOOK)
# For errors, which --quiet does not silence.
alarm = _Console(stderr=True, **_LOOK)


def table_of(*columns: str, rows: Iterable[Sequence[object]] = ()) -> Table:
    """A plain table with these columns and rows of plain texts."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    return table


def print_json(data: Any) -> None:
    """Print data as JSON on standard output, with control characters escaped."""
    text = json.dumps(data, indent=2, ensure_ascii=False, default=str)
    typer.echo(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def note(text: str) -> None:
    """Print a note on standard error."""
    err.print("[cyan]note:[/]", escape(text))


def written(*paths: Path | str | None) -> None:
    """Print which files were written."""
    for path in paths:
        if path is not None:
            out.print(f"written to {escape(str(path))}")


# Options


def option(
    help: str, *flags: str, among: Sequence[str] = (), least: float | None = None, envvar: str | None = None
) -> Any:
    """An option of a command: names that shells complete, its minimum, and a variable that may give it instead."""
    how: dict[str, Any] = {} if least is None else {"callback": _at_least(least)}
    return typer.Option(*flags, help=help, autocompletion=_completer(among), envvar=envvar, **how)


def argument(help: str, among: Sequence[str] = ()) -> Any:
    """An argument of a command, with names that shells complete."""
    return typer.Argument(help=help, autocompletion=_completer(among))


def _completer(names: Sequence[str]) -> Callable[[str], list[str]] | None:
    """Complete one name, or the last of several comma-separated ones."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        given = before.split(",")
        return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in given]

    return complete if names else None


def _at_least(least: float) -> Callable[[float | None], float | None]:
    """Check a minimum ourselves, since typer's message does not name the value."""

    def check(value: float | None) -> float | None:
        if value is not None and value < least:
            raise typer.BadParameter(f"{value:,} is too small; give {least:,} or more")
        return value

    return check


Json = Annotated[bool, option("Print JSON instead of a table.", "--json")]
Seed = Annotated[int, option("The seed of all random numbers.", least=0)]
Data = Annotated[
    str, option("The name of a data set (see `fcxplain datasets`), or a CSV or parquet file.", among=DATA_SETS)
]
SchemaFile = Annotated[Path | None, option("The schema of your own table (TOML, see `fcxplain schema`).", "--schema")]
Label = Annotated[str | None, option("The column of your own table with the true outcome; it is not a feature.")]
Ignore = Annotated[list[str] | None, option("A column that is not a feature, such as an identifier. May be repeated.")]
Index = Annotated[
    str | None,
    option("The column with the row labels, e.g. a customer number; it is not a feature.", "--index", "--id"),
]
SkipMissing = Annotated[bool, option("Leave out rows with missing values.", "--skip-missing")]


def as_given(target: list[str] | None) -> str | list[str] | None:
    """The desired outcome as the library takes it: one name or range, several names, or None."""
    return target[0] if target and len(target) == 1 else target or None


def split(given: list[str] | None) -> list[str]:
    """Names that were given one by one or comma-separated."""
    return [name.strip() for part in given or [] for name in part.split(",") if name.strip()]


# Commands


def need_extra() -> None:
    """Refuse to go on without the packages of the extra, and say how to install them."""
    absent = [name for name in _NEEDED if find_spec(name) is None]
    if absent:
        raise DataError(f"this needs more packages ({', '.join(absent)}): pip install 'fcxplain[serve]'")


Quiet = Annotated[bool, option("Print results, warnings and errors only.", "--quiet", "-q")]
Debug = Annotated[bool, option("Show the traceback of an error.", "--debug")]
# The base class of usage errors; typer exports it under another name than click does.
_USAGE_ERROR: Any = typer.BadParameter.__mro__[1]

Function = TypeVar("Function", bound=Callable[..., None])


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
        err.quiet, alarm.debug = quiet, alarm.debug or debug
        try:
            function(**chosen)
        except KeyboardInterrupt as stop:
            raise typer.Exit(end(stop)) from None

    keyword = inspect.Parameter.KEYWORD_ONLY
    own = inspect.signature(function, eval_str=True)
    parameters = [p.replace(kind=keyword) for p in own.parameters.values()]
    for name, kind in (("quiet", Quiet), ("debug", Debug)):
        parameters.append(inspect.Parameter(name, keyword, default=False, annotation=kind))
    command.__dict__["__signature__"] = own.replace(parameters=parameters)
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__doc__ = _filled(function.__doc__ or "")
    return command


def _filled(text: str) -> str:
    """Each paragraph as one line, so that help wraps it at the terminal's width."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def end(error: BaseException) -> int:
    """Print an error in one line, after its traceback with --debug; return the exit code."""
    if alarm.debug:
        sys.stderr.write(visible("".join(traceback.format_exception(error))))
    if isinstance(error, KeyboardInterrupt):
        alarm.print(escape(f"stopped: {error}" if str(error) else "stopped"))
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

    def given(found: re.Match[str]) -> str:
        flag, values = f"--{found[1].replace('_', '-')}", re.findall(r"'([^']*)'", found[2])
        return " ".join(f"{flag} {shlex.quote(value)}" for value in values) or flag

    def place(found: re.Match[str]) -> str:
        return "--set " if found[3] else f"--{found[1]} {found[2]}"

    return _PLACE.sub(place, _ARGUMENT.sub(given, text))


def _tell(kind: str, text: str) -> None:
    alarm.print(f"[bold red]{kind}[/]", escape(as_options(text)))


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Print our own warnings; those of other libraries are for programmers."""
    if issubclass(category, FcxWarning):
        # While a bar is on screen, only its own console can print without garbling it.
        console = alarm if err.quiet else err
        console.print("[yellow]warning:[/]", escape(as_options(str(message))))
