"""The paper's figures, from the tables next to this file, to compare with ours."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

PAPER = "FCx: An algorithm for finding Feasible Counterfactual Explanations"


@dataclass(frozen=True)
class PublishedSpread:
    """A mean and a standard deviation that the paper reports."""

    mean: float
    deviation: float


def figure(data: str, method: str, metric: str) -> float | None:
    """A figure from the paper's tables of results; None if they do not have it."""
    return _number("tables", (published_name(data), method), metric)


def methods(data: str) -> tuple[str, ...]:
    """The methods in the paper's tables for a data set."""
    return tuple(method for name, method in _lines("tables", 2) if name == published_name(data))


def components(data: str, combination: str, metric: str) -> float | None:
    """Feasibility or seconds per epoch with some of the loss components, e.g. "baseline+lof"."""
    return _number("components", (published_name(data), combination), metric)


def robustness(data: str) -> PublishedSpread | None:
    """Feasibility over four significance levels of the PC algorithm."""
    line = _lines("robustness").get((published_name(data),))
    return None if line is None else PublishedSpread(float(line["mean"]), float(line["deviation"]))


def speed(method: str) -> float | None:
    """CPU seconds that a public implementation takes per counterfactual, if it was measured."""
    return _number("speed", (method,), "seconds")


def published_name(data: str) -> str:
    """The paper's data set that one of ours is compared with."""
    line = _lines("names").get((data,))
    return data if line is None else line["published"]


@cache
def _lines(name: str, keys: int = 1) -> dict[tuple[str, ...], dict[str, str]]:
    """The lines of a table by the values of its first columns; lines that start with # are comments."""
    text = files(__package__).joinpath("published", f"{name}.csv").read_text(encoding="utf-8")
    lines = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {tuple(line.values())[:keys]: line for line in lines}


def _number(name: str, key: tuple[str, ...], column: str) -> float | None:
    text = _lines(name, len(key)).get(key, {}).get(column)
    return float(text) if text else None
