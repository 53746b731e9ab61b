"""Methods to compare with: one file each, behind one protocol, and a dict of all of them by name."""

from collections.abc import Callable

from .base import Method

__all__ = ["METHODS", "Method"]

# Each takes its settings by keyword and is then fitted to a task: METHODS["revise"](seed=0).fit(task).explain(rows).
METHODS: dict[str, Callable[..., Method]] = {}
