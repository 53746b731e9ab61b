"""What came of each item of the contract, as data, as a table to read, and as the error that failures turn into."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import Fault, FcxError

WIDTH = 100


class ContractError(FcxError):
    """A model, rules or an explainer that break the contract; `faults` has each item that failed."""


@dataclass(frozen=True)
class Item:
    """One thing that was tried. `passed` is None where nothing can fail: information, or what could not be tried."""

    name: str
    passed: bool | None
    detail: str
    remedy: str = ""

    @property
    def mark(self) -> str:
        """The verdict in a word."""
        return {True: "passed", False: "FAILED", None: "note"}[self.passed]


@dataclass(frozen=True)
class ContractReport:
    """What came of every item; printed, it is a table."""

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
        for item in self.items:
            if item.name == name:
                return item
        raise KeyError(name)

    def __str__(self) -> str:
        width = max((len(item.name) for item in self.items), default=0)
        lines = [line for item in self.items for line in _lines(item, width)]
        tried = sum(item.passed is not None for item in self.items)
        verdict = "all passed" if self.passed else f"{len(self.failures)} FAILED"
        return "\n".join([self.explainer, f"on {self.task}", *lines, f"{tried} items tried, {verdict}"])

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"passed": self.passed, **asdict(self)}

    def raise_for_failures(self) -> None:
        """Raise one `ContractError` that lists every failed item, if there is any."""
        if not self.passed:
            faults = [Fault(item.name, item.detail, item.remedy) for item in self.failures]
            raise ContractError(f"{self.explainer} breaks the contract", faults)


def held(name: str, detail: str) -> Item:
    """An item that passed."""
    return Item(name, True, detail)


def broken(name: str, detail: str, remedy: str) -> Item:
    """An item that failed."""
    return Item(name, False, detail, remedy)


def noted(name: str, detail: str, remedy: str = "") -> Item:
    """An item that tells something, and cannot fail."""
    return Item(name, None, detail, remedy)


def tried(name: str, remedy: str, trial: Callable[[], Item]) -> Item:
    """What came of a trial. Whatever it raises is a failure too: a user's own code may raise anything."""
    try:
        return trial()
    except Exception as error:
        return broken(name, told(error), remedy)


def told(error: Exception) -> str:
    """An error in a line or a few, its kind named where that is not ours."""
    said = str(error).strip() or "without a word"
    return said if isinstance(error, FcxError) else f"{type(error).__name__}: {said}"


def _lines(item: Item, width: int) -> list[str]:
    said = [item.detail, *([item.remedy] if item.remedy and not item.passed else [])]
    room = max(30, WIDTH - width - 12)
    wrapped = [line for text in said for line in textwrap.wrap(text, room, break_long_words=False) or [""]]
    first, *rest = wrapped
    return [f"  {item.mark:<6}  {item.name:<{width}}  {first}", *(f"{'':{width + 12}}{line}" for line in rest)]
