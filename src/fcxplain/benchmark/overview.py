"""All data sets in one small table each: who has how much success, with how many changes, and how fast."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import published, reproduction
from .comparison import Beside, besides, not_ahead
from .markdown import number, spread, table
from .plan import METHODS
from .reproduction import MethodRuns
from .summary import Setup, place, summarised

OURS = "fcx"


def tables(runs: Sequence[MethodRuns]) -> dict[str, str]:
    """Tables by name, for pages that have a place for them; see `pages`."""
    compared = [group for group in besides(runs) if _has_others(group)]
    found = {
        "success": _of_methods(compared, "success", digits=1),
        "changes": _of_methods(compared, "sparsity", digits=2),
        "speed": _speed(compared),
        "not ahead": not_ahead(compared),
        "feasibility": reproduction.in_one_table(reproduction.published_runs(runs)),
    }
    return {name: text for name, text in found.items() if text}


def _has_others(group: Beside) -> bool:
    """Whether FCx by default and methods of others were run side by side."""
    names = [run.method for run in group.runs]
    return OURS in names and any(not name.startswith(OURS) for name in names)


def _methods(groups: Sequence[Beside]) -> list[str]:
    """The methods that were run, in the order in which they are registered; a user's own come last."""
    found = dict.fromkeys(run.method for group in groups for run in group.runs)
    return sorted(found, key=lambda name: place(name, METHODS))


def _of_methods(groups: Sequence[Beside], figure: str, *, digits: int) -> str:
    """A line for each method, a column for each data set and rule set."""
    names = _methods(groups)
    heads = [f"{group.setup.data}, {group.rules}" for group in groups]
    lines = [(name, *(_cell(group, name, figure, digits) for group in groups)) for name in names]
    return table(("method", *heads), lines) if groups else ""


def _cell(group: Beside, name: str, figure: str, digits: int) -> str:
    run = next((run for run in group.runs if run.method == name), None)
    return "" if run is None else spread(summarised(run.results, figure), digits=digits)


def _speed(groups: Sequence[Beside]) -> str:
    """CPU milliseconds for one counterfactual, beside what public implementations take on Adult, where known."""
    setups = list(dict.fromkeys(group.setup for group in groups))
    names = _methods(groups)
    head = ("method", "public code, ms", *(f"{setup.data}, ms" for setup in setups))
    lines = [
        (name, number(_public(name)), *(number(_milliseconds(groups, setup, name)) for setup in setups))
        for name in names
    ]
    return table(head, lines) if groups else ""


def _public(method: str) -> float | None:
    seconds = published.speed(method)
    return None if seconds is None else 1000 * seconds


def _milliseconds(groups: Iterable[Beside], setup: Setup, method: str) -> float | None:
    """The mean over rule sets and seeds."""
    runs = [run for group in groups if group.setup == setup for run in group.runs if run.method == method]
    rows = summarised([result for run in runs for result in run.results], "rows_per_cpu_second").mean
    return None if rows is None else 1000 / rows
