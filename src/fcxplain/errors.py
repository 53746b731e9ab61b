"""What can go wrong, as classes and as data, and the checks of settings that are worded in one place.

Every fault of one input travels in one error.
"""

from __future__ import annotations

import difflib
import functools
import math
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound="FcxError")

# A message lists so many faults; `error.faults` has them all.
SHOWN = 50
# A name of so many letters may be the beginning of the one that is meant.
SHORTEST = 3


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with an input: where, what, in how many rows, and what to do about it."""

    place: str
    problem: str
    remedy: str = ""
    rows: int | None = None
    first: Hashable = None
    """Index label of the first row concerned, where `rows` is given."""

    def __post_init__(self) -> None:
        # An index gives numpy's numbers, which would be shown as np.int64(7).
        if hasattr(self.first, "item"):
            object.__setattr__(self, "first", self.first.item())

    def __str__(self) -> str:
        count = "" if self.rows is None else f" ({_rows(self.rows)}, first at index {self.first!r})"
        remedy = f" {self.remedy}" if self.remedy else ""
        end = "" if self.problem.endswith((".", "?", "!", "^")) and not count else "."
        return f"{self.place}: {self.problem}{count}{end}{remedy}"


class FcxError(ValueError):
    """Base of every error that fcxplain raises on purpose, and a `ValueError`, so that either can be caught.

    Where people expect another built-in error it is that one too: a `KeyError` for a name that is not there, a
    `FileNotFoundError` (or the `OSError` that it was) for a file that cannot be read.

    Parameters
    ----------
    message : str
        What went wrong.
    faults : iterable of Fault
        Each cause as data: `place`, `problem`, `remedy`, and the rows concerned.

    Attributes
    ----------
    faults : tuple of Fault
        All causes; the text of the error lists the first fifty.

    Examples
    --------
    >>> from fcxplain import FcxError, load_dataset
    >>> try:
    ...     load_dataset("adlut")
    ... except FcxError as error:
    ...     print(error)
    no data set 'adlut'. Did you mean 'adult'? There are adult, adult-authors, census, law, folktables, loans.
    """

    def __init__(self, message: str = "", faults: Iterable[Fault] = ()) -> None:
        self.faults = tuple(faults)
        self.message = message
        super().__init__(_listing(message, self.faults))

    # Some of the built-in errors would show something else.
    __str__ = Exception.__str__


class SchemaError(FcxError):
    """A schema that makes no sense, or a table that does not fit its schema."""


class RuleError(FcxError):
    """A rule that cannot be read, or rules that cannot be kept together."""


class DataError(FcxError):
    """A table, a data file or an option that cannot be used."""


class ClassifierError(FcxError):
    """A model that does not answer as a classifier should."""


class TrainingError(FcxError):
    """A training run that cannot go on."""


class FormatError(FcxError):
    """A saved file that is damaged, incomplete or of an unknown format."""


if TYPE_CHECKING:

    class NotFittedError(FcxError, AttributeError):
        """Something was asked of an object before it was fitted; scikit-learn's `NotFittedError` too."""


def __getattr__(name: str) -> Any:
    # Made when it is first asked for, since scikit-learn takes long to import.
    if name != "NotFittedError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sklearn.exceptions import NotFittedError as Unfitted

    about = {"__module__": __name__, "__doc__": "Something was asked of an object before it was fitted."}
    return globals().setdefault(name, type(name, (FcxError, Unfitted), about))


_ALSO: dict[tuple[type, type], Any] = {}


def also(kind: type[E], builtin: type[Exception]) -> type[E]:
    """The same kind of error, which is a built-in one too, for those who catch that."""
    if (kind, builtin) not in _ALSO:
        about = {"__module__": __name__, "__doc__": kind.__doc__, "__reduce__": _reduced}
        _ALSO[kind, builtin] = type(kind.__name__, (kind, builtin), about)
    made: type[E] = _ALSO[kind, builtin]
    return made


def _reduced(error: FcxError) -> tuple[Any, ...]:
    return _made_again, (*type(error).__bases__, error.message, error.faults)


def _made_again(kind: type[FcxError], builtin: type[Exception], message: str, faults: tuple[Fault, ...]) -> FcxError:
    return also(kind, builtin)(message, faults)


def reading_error(kind: type[E], cause: Exception) -> type[E]:
    """The kind of error for a file that could not be read or written: as an `OSError`, the same that it was."""
    return also(kind, type(cause)) if isinstance(cause, OSError) else kind


class FcxWarning(UserWarning):
    """Category of every warning that fcxplain gives."""


def raise_all(errors: Sequence[FcxError], context: str) -> None:
    """Raise what was collected as one error: of the common class if there is one, else `FcxError`."""
    if not errors:
        return
    if len(errors) == 1:
        raise errors[0]
    faults = [fault for e in errors for fault in (e.faults or (Fault(type(e).__name__, e.message),))]
    kinds = {type(e) for e in errors}
    kind = kinds.pop() if len(kinds) == 1 else FcxError
    raise kind(context, faults)


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Say of parameters that a function had once what they are called now."""

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in names.keys() & kwargs.keys():
                called = function.__qualname__.removesuffix(".__init__")
                raise TypeError(f"{called} has no parameter {old!r} any more: use {names[old]}")
            return function(*args, **kwargs)

        return checked

    return wrap


def did_you_mean(name: object, options: Iterable[object]) -> str:
    """A question that offers the nearest name, or nothing if none is near."""
    by_folded = {str(o).casefold(): str(o) for o in options}
    folded = str(name).casefold()[:200]
    begun = [o for o in by_folded if len(folded) >= SHORTEST and o.startswith(folded)]
    near = difflib.get_close_matches(folded, list(by_folded), n=1, cutoff=0.6) or begun[: len(begun) == 1]
    return f"Did you mean {_short(repr(by_folded[near[0]]))}?" if near else ""


def some(items: Iterable[object], limit: int = 8) -> str:
    """The first few items, quoted and cut short, and how many more there are."""
    listed = list(items)
    more = f" and {len(listed) - limit:,} more" if len(listed) > limit else ""
    return ", ".join(_short(repr(i)) for i in listed[:limit]) + more


def unknown(kind: str, given: Iterable[str], known: Collection[str], limit: int = 8) -> list[Fault]:
    """A fault for each name that is not known, with the nearest that is, or with what there is."""
    listed = f"There are {some(known, limit)}."
    absent = [name for name in given if name not in known]
    return [Fault(f"{kind} {name!r}", "is not known", did_you_mean(name, known) or listed) for name in absent]


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:60]}...{text[-10:]}"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _listing(message: str, faults: tuple[Fault, ...]) -> str:
    if not faults:
        return message
    if len(faults) == 1:
        return f"{message}: {faults[0]}" if message else str(faults[0])
    lines = [f"  - {str(fault).replace(chr(10), chr(10) + '    ')}" for fault in faults[:SHOWN]]
    lines += [f"  ... and {len(faults) - SHOWN:,} more"] if len(faults) > SHOWN else []
    return "\n".join([f"{message or 'bad input'} ({len(faults)} faults)", *lines])


def whole(name: str, value: object, low: int) -> list[Fault]:
    """A fault unless the value is a whole number of at least `low`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= low:
        return []
    return [Fault(name, f"is {value!r}", f"Give a whole number of {low} or more.")]


def between(name: str, value: object, low: float, high: float = math.inf, *, open_low: bool = False) -> list[Fault]:
    """A fault unless the value is a number from `low` (or above it) to `high`."""
    # A whole number may be too large for a float; comparing them is exact.
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if is_number and low <= float(value) <= high and not (open_low and value == low):  # type: ignore[arg-type]
        return []
    wanted = f"above {low:g}" if open_low else f"of {low:g} or more"
    upper = "" if math.isinf(high) else f", {high:g} at most"
    return [Fault(name, f"is {value!r}", f"Give a number {wanted}{upper}.")]


def one_of(name: str, value: object, options: Iterable[object]) -> list[Fault]:
    """A fault unless the value is one of the options."""
    known = tuple(options)
    return [] if value in known else [Fault(name, f"is {value!r}", f"Choose one of {', '.join(map(str, known))}.")]


def refuse(what: str, *faults: list[Fault]) -> None:
    """Raise all the faults together, if there are any."""
    found = [fault for some in faults for fault in some]
    if found:
        raise TrainingError(f"{what} cannot be used", found)
