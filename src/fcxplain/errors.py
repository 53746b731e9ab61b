"""Errors as classes, faults as data, and checks of settings with uniform messages.

One error carries every fault of an input.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

E = TypeVar("E", bound="FcxError")

# The maximum number of faults in a message; `error.faults` has them all.
SHOWN = 50
# The minimum length of a name that may be the beginning of the intended one.
SHORTEST = 3


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with an input: where, what, in how many rows, and the remedy."""

    place: str
    problem: str
    remedy: str = ""
    rows: int | None = None
    first: Hashable = None
    """Label of the first row concerned, if `rows` is given."""

    def __post_init__(self) -> None:
        # Labels of an index are numpy numbers, which would print as np.int64(7).
        if hasattr(self.first, "item"):
            object.__setattr__(self, "first", self.first.item())

    def __str__(self) -> str:
        count = "" if self.rows is None else f" ({_rows(self.rows)}, first at index {self.first!r})"
        remedy = f" {self.remedy}" if self.remedy else ""
        end = "" if self.problem.endswith((".", "?", "!", "^")) and not count else "."
        return f"{self.place}: {self.problem}{count}{end}{remedy}"


class FcxError(ValueError):
    """Base class of every error that fcxplain raises on purpose. It is a `ValueError`, so that either can be caught.

    Where people expect another built-in error, it is that one too: a `KeyError` for an unknown name, a
    `FileNotFoundError` (or the original `OSError`) for a file that cannot be read.

    Parameters
    ----------
    message : str
        The message.
    faults : iterable of Fault
        Each cause as data: `place`, `problem`, `remedy`, and the rows concerned.

    Attributes
    ----------
    faults : tuple of Fault
        All causes; the message lists the first fifty.

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

    # Some of the built-in errors format themselves differently.
    __str__ = Exception.__str__


class SchemaError(FcxError):
    """An invalid schema, or a table that does not fit its schema."""


class RuleError(FcxError):
    """A rule that cannot be read, or rules that contradict each other."""


class DataError(FcxError):
    """A table, a data file or an option that cannot be used."""


class ClassifierError(FcxError):
    """A model that does not answer as a classifier should."""


class TrainingError(FcxError):
    """Settings that cannot be used, or a training run that failed."""


class FormatError(FcxError):
    """A saved file that is damaged, incomplete or of an unknown format."""


if TYPE_CHECKING:

    class NotFittedError(FcxError, AttributeError):
        """An object was used before it was fitted; also scikit-learn's `NotFittedError`."""


def __getattr__(name: str) -> Any:
    # Created on first use, since importing scikit-learn is slow.
    if name != "NotFittedError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sklearn.exceptions import NotFittedError as Unfitted

    about = {"__module__": __name__, "__doc__": "An object was used before it was fitted."}
    return globals().setdefault(name, type(name, (FcxError, Unfitted), about))


_ALSO: dict[tuple[type, type], Any] = {}


def also(kind: type[E], builtin: type[Exception]) -> type[E]:
    """The same class of error that is also a built-in one, for code that catches that."""
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
    """The class of error for a file that could not be read or written; also the `OSError` that caused it."""
    return also(kind, type(cause)) if isinstance(cause, OSError) else kind


class FcxWarning(UserWarning):
    """The category of all warnings of fcxplain."""


def raise_all(errors: Sequence[FcxError], context: str) -> None:
    """Raise collected errors as one: of their common class if there is one, else `FcxError`."""
    if not errors:
        return
    if len(errors) == 1:
        raise errors[0]
    faults = [fault for e in errors for fault in (e.faults or (Fault(type(e).__name__, e.message),))]
    kinds = {type(e) for e in errors}
    kind = kinds.pop() if len(kinds) == 1 else FcxError
    raise kind(context, faults)


def did_you_mean(name: object, options: Iterable[object]) -> str:
    """A question that suggests the nearest name, or "" if none is near."""
    by_folded = {str(o).casefold(): str(o) for o in options}
    folded = str(name).casefold()[:200]
    begun = [o for o in by_folded if len(folded) >= SHORTEST and o.startswith(folded)]
    near = difflib.get_close_matches(folded, list(by_folded), n=1, cutoff=0.6) or begun[: len(begun) == 1]
    return f"Did you mean {_short(repr(by_folded[near[0]]))}?" if near else ""


def some(items: Iterable[object], limit: int = 8) -> str:
    """The first few items, quoted and shortened, and how many more there are."""
    listed = list(items)
    more = f" and {len(listed) - limit:,} more" if len(listed) > limit else ""
    return ", ".join(_short(repr(i)) for i in listed[:limit]) + more


def unknown(kind: str, given: Iterable[str], known: Collection[str], limit: int = 8) -> list[Fault]:
    """A fault for each unknown name, with the nearest known one, or a list of all."""
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
    # An int may be too large for a float; comparing them is exact.
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if is_number and low <= float(value) <= high and not (open_low and value == low):  # type: ignore[arg-type]
        return []
    wanted = f"above {low:g}" if open_low else f"of {low:g} or more"
    upper = "" if math.isinf(high) else f", at most {high:g}"
    return [Fault(name, f"is {value!r}", f"Give a number {wanted}{upper}.")]


def one_of(name: str, value: object, options: Iterable[object]) -> list[Fault]:
    """A fault unless the value is one of the options."""
    known = tuple(options)
    return [] if value in known else [Fault(name, f"is {value!r}", f"Choose one of {', '.join(map(str, known))}.")]


def refuse(what: str, *faults: list[Fault]) -> None:
    """Raise all faults together, if there are any."""
    found = [fault for some in faults for fault in some]
    if found:
        raise TrainingError(f"{what} cannot be used", found)
