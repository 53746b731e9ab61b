"""The result of each contract item: as data, as a table, and as the error raised for failures."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..errors import Fault, FcxError

WIDTH = 100


class ContractError(FcxError):
    """A model, rules or an explainer break the contract; `faults` lists each failed item."""


@dataclass(frozen=True)
class Item:
    """One test of the contract. `passed` is None for information, and for tests that could not run."""

    name: str
    passed: bool | None
    detail: str
    remedy: str = ""

    @property
    def mark(self) -> str:
        """The verdict in a word."""
        return {True: "passed", False: "FAILED", None: "note"}[self.passed]

    def lines(self, width: int) -> list[str]:
        """The lines of the table, with names of this width."""
        said = [self.detail, *([self.remedy] if self.remedy and not self.passed else [])]
        room = max(30, WIDTH - width - 12)
        first, *rest = (line for text in said for line in textwrap.wrap(text, room, break_long_words=False) or [""])
        return [f"  {self.mark:<6}  {self.name:<{width}}  {first}", *(f"{'':{width + 12}}{line}" for line in rest)]


@dataclass(frozen=True)
class ContractReport:
    """The result of every item; printed, it is a table."""

    explainer: str
    task: str
    items: tuple[Item, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Item, ...]:
        """The items that failed."""
        return tuple(item for item in self.items if item.passed is False)

    def __getitem__(self, name: str) -> Item:
        return {item.name: item for item in self.items}[name]

    def __str__(self) -> str:
        width = max((len(item.name) for item in self.items), default=0)
        lines = [line for item in self.items for line in item.lines(width)]
        tried = sum(item.passed is not None for item in self.items)
        verdict = "all passed" if self.passed else f"{len(self.failures)} FAILED"
        return "\n".join([self.explainer, f"on {self.task}", *lines, f"{tried} items tried, {verdict}"])

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"passed": self.passed, **asdict(self)}

    def raise_for_failures(self) -> None:
        """Raise one `ContractError` that lists every failed item, if there are any."""
        if not self.passed:
            faults = [Fault(item.name, item.detail, item.remedy) for item in self.failures]
            raise ContractError(f"{self.explainer} breaks the contract", faults)


def held(detail: str) -> Item:
    """A trial that passed."""
    return Item("", True, detail)


def broken(detail: str, remedy: str) -> Item:
    """A trial that failed."""
    return Item("", False, detail, remedy)


def noted(detail: str) -> Item:
    """A trial that only informs, and cannot fail."""
    return Item("", None, detail)


def tried(trials: Mapping[str, Callable[[], Item]], remedy: str) -> Iterator[Item]:
    """Run trials by name. Any exception is a failure too: a user's code may raise anything."""
    for name, trial in trials.items():
        try:
            found = trial()
        except Exception as error:
            found = broken(error_text(error), remedy)
        yield replace(found, name=name)


def error_text(error: Exception) -> str:
    """An error as text, with its type unless it is one of ours."""
    said = str(error).strip() or "no message"
    return said if isinstance(error, FcxError) else f"{type(error).__name__}: {said}"
