"""What answers change: how often and in which direction, and how features shift relative to the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from ..errors import DataError, Fault, did_you_mean
from ..explanation import Explanation
from ..explanation.page.summary import FeatureCount, feature_counts, first_answers
from ..schema import Feature
from .style import COLOURS, QUIET, fill_look, finished, name_rows, our_style, panels_of, shortened


def with_answers(given: Any) -> Explanation:
    """The explanation, if it has answers."""
    explanation = explained(given)
    if not len(explanation.answers):
        fared = ", ".join(f"{count:,} {status}" for status, count in sorted(explanation.counts.items()))
        problem = f"has no answers ({len(explanation):,} rows{': ' if fared else ''}{fared})"
        raise nothing([Fault("explanation", problem, "See .status, and the reasons if why_not was set.")])
    return explanation


def explained(given: Any) -> Explanation:
    """The argument, if it is an explanation."""
    if not isinstance(given, Explanation):
        raise nothing([Fault("explanation", f"is a {type(given).__name__}", "Give the result of explain(rows).")])
    return given


def nothing(faults: list[Fault]) -> DataError:
    """An error with these faults."""
    return DataError("nothing can be drawn", faults)


SHOWN = 40
"""Features with a bar; the rest is counted."""
WAYS = {"up": fill_look(1), "down": fill_look(0), "to another level": fill_look(2)}


@our_style()
def change_frequencies(explanation: Explanation, *, ax: Axes | None = None, title: str | None = None) -> Figure:
    """Draw which features the answers change, most often first, as per cent of answers, split into up and down.

    The first answer of each row counts. Up and down differ in fill and hatching, so that prints need no colour. Beyond
    40 features, the rarest are only counted.

    Parameters
    ----------
    explanation
        The result of `explain`.
    ax, title
        Your own axes, and a title.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        If there are no answers.

    Examples
    --------
    >>> from fcxplain import plots
    >>> figure = plots.change_frequencies(fcx.explain(rows))  # doctest: +SKIP
    """
    counts, answers = feature_counts(with_answers(explanation)), len(first_answers(explanation))
    shown = counts[:SHOWN]
    (panel,) = panels_of(ax, 6.4, 0.25 * max(len(shown), 2) + 1.2)
    ways = _draw_frequencies(panel, shown, answers)
    panel.set_xlabel(_below(explanation, counts, answers))
    return finished([panel], [(Patch(**WAYS[way]), way) for way in ways], title, ax=ax)


def _draw_frequencies(ax: Axes, counts: Sequence[FeatureCount], answers: int) -> list[str]:
    """Draw the bars from top to bottom; return the directions that occur."""
    parts = np.array([(c.up, c.down, c.count - c.up - c.down) for c in counts]).reshape(-1, len(WAYS))
    shares, rows, drawn = 100 * parts / answers, np.arange(len(counts)), []
    for number, (way, look) in enumerate(WAYS.items()):
        if parts[:, number].any():
            start = shares[:, :number].sum(axis=1)
            ax.barh(rows, shares[:, number], left=start, height=0.68, zorder=2, **look)
            drawn.append(way)
    for row, count in enumerate(counts):
        end = (100 * count.count / answers, row)
        ax.annotate(f"{count.count:,}", end, (4, 0), textcoords="offset points", fontsize=7, va="center")
    if not counts:
        ax.text(0.5, 0.5, "nothing changes", transform=ax.transAxes, ha="center", va="center", color=QUIET)
    name_rows(ax, rows, [shortened(c.feature.title, 40) for c in counts], (max(len(counts), 1) - 0.4, -0.6))
    # Space for a number after a full bar.
    ax.set_xlim(0, 1.13 * max((100 * count.count / answers for count in counts), default=100))
    return drawn


def _below(e: Explanation, counts: Sequence[FeatureCount], answers: int) -> str:
    words = f"per cent of {answers:,} answers that change it" if answers > 1 else "per cent of 1 answer that changes it"
    more, never = len(counts) - SHOWN, len(e.task.schema) - len(counts)
    rest = [f"{more:,} more change less often"] if more > 0 else []
    rest += [f"{never:,} feature{'s' * (never != 1)} never change{'s' * (never == 1)}"] if never else []
    return "\n".join([words, "; ".join(rest)] if rest else [words])


PANELS = 12
"""Panels drawn by default."""
BINS, LEVELS = 24, 7
TAIL = 0.005
"""The share at either end of a number that goes into the last bar."""
GROUPS: dict[str, dict[str, Any]] = {
    "training rows": {"facecolor": "#CCCCCC", "edgecolor": "#AAAAAA", "linewidth": 0.5},
    "rows as they are": {"facecolor": "none", "edgecolor": COLOURS[0], "linewidth": 1.5},
    "their answers": {"facecolor": "none", "edgecolor": COLOURS[1], "lw": 1.3, "ls": "--", "hatch": "////"},
}


@our_style()
def distribution_shift(
    explanation: Explanation,
    features: str | Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
    title: str | None = None,
) -> Figure:
    """Draw one panel per feature with the distribution of training rows, of rows with an answer, and of their answers.

    Bars are per cent of each group, so that groups of different size can be compared. The rarest of many levels are
    merged. Numbers have at most 24 bars; extreme values are in the outermost.

    Parameters
    ----------
    explanation
        The result of `explain`.
    features
        A name or names; by default the features that the answers change, most often first, at most twelve (the title
        says so if there are more).
    ax
        Your own axes, for one feature; by default the one that changes most often.
    title
        The title of the figure.

    Returns
    -------
    Figure

    Raises
    ------
    DataError
        If there are no answers, or a feature is unknown.

    Examples
    --------
    >>> from fcxplain import plots
    >>> figure = plots.distribution_shift(fcx.explain(rows), ["income", "amount"])  # doctest: +SKIP
    """
    names = _names(with_answers(explanation), features, ax)
    first, task = first_answers(explanation), explanation.task
    tables = (task.train, explanation.rows.iloc[explanation.place[first]], explanation.answers.iloc[first])
    groups = [task.schema.natural(table, names) for table in tables]
    panels = panels_of(ax, 5.2, 2.2, count=len(names), margin=0.6)
    for panel, name in zip(panels, names, strict=True):
        _draw_shift(panel, task.schema[name], [group[name] for group in groups])
    changing = int(explanation.checks.changed[first].any(axis=0).sum())
    if title is None and features is None and ax is None and changing > PANELS:
        title = f"the {PANELS} features that change most often, of {changing} that change"
    return finished(panels, [(Patch(**look), words) for words, look in GROUPS.items()], title, ax=ax)


def _names(e: Explanation, asked: str | Sequence[str] | None, ax: Axes | None) -> list[str]:
    if asked is None:
        usual = [count.feature.name for count in feature_counts(e)] or list(e.task.schema.mutable)
        return (usual or list(e.task.schema.names))[: PANELS if ax is None else 1]
    names, known = [asked] if isinstance(asked, str) else list(asked), e.task.schema.names
    faults = [Fault(f"feature {n!r}", "is not known", did_you_mean(n, known)) for n in names if n not in known]
    if not names:
        faults.append(Fault("features", "is empty", "Leave it out, or name one."))
    if ax is not None and len(names) > 1:
        faults.append(Fault("ax", f"is one axis for {len(names)} features", "Leave it out, or draw one at a time."))
    if faults:
        raise nothing(faults)
    return names


def _draw_shift(ax: Axes, feature: Feature, groups: Sequence[NDArray[Any]]) -> None:
    ax.set_title(shortened(feature.title, 28))
    if feature.is_number:
        ax.set_xlabel(shortened(feature.unit, 28) if feature.unit else "")
        _draw_number(ax, feature, [values[np.isfinite(values)] for values in groups])
    else:
        _draw_levels(ax, feature, [values[values >= 0] for values in groups])


def _draw_number(ax: Axes, feature: Feature, groups: Sequence[NDArray[np.float64]]) -> None:
    edges = _bar_edges(float(feature.step or 1), groups)
    for values, look in zip(groups, GROUPS.values(), strict=True):
        heights = np.bincount(np.searchsorted(edges[1:-1], values, side="right"), minlength=len(edges) - 1)
        ax.stairs(100 * heights / max(1, heights.sum()), edges, fill=True, **look)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.set_ylabel("per cent", fontsize=7.5)
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=feature.is_whole))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(feature, value)))


def _tick(feature: Feature, value: float) -> str:
    return feature.text(value) if feature.kind == "date" else f"{value:,.10g}".replace("-", "\N{MINUS SIGN}")


def _bar_edges(step: float, groups: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Edges of bars that are a whole number of steps wide, so that all hold the same number of values."""
    ends = [np.quantile(v, [TAIL, 1 - TAIL], method="nearest") for v in groups if len(v)] or [np.zeros(2)]
    low, high = min(float(e[0]) for e in ends), max(float(e[1]) for e in ends)
    width = step * max(1, ceil(((high - low) / step + 1) / BINS))
    count = max(1, ceil((high - low + step) / width - 1e-9))
    return np.asarray(low - step / 2 + width * np.arange(count + 1), dtype=np.float64)


def _draw_levels(ax: Axes, feature: Feature, groups: Sequence[NDArray[np.int64]]) -> None:
    counts = [np.bincount(codes, minlength=len(feature.levels)) for codes in groups]
    shares = np.array([100 * found / max(1, found.sum()) for found in counts])
    order = feature.order_of_levels(counts[0])
    common = set(np.argsort(-shares.max(axis=0), kind="stable")[: LEVELS - 1].tolist())
    shown = order if len(order) <= LEVELS else [code for code in order if code in common]
    names = [shortened(feature.level_title(feature.levels[code]), 22) for code in shown]
    others = len(feature.levels) - len(shown)
    rest = shares.sum(axis=1) - shares[:, shown].sum(axis=1)
    shares = np.column_stack([shares[:, shown], rest]) if others else shares[:, shown]
    names += [f"{others} others"] if others else []
    places = np.arange(len(names))
    for number, look in enumerate(GROUPS.values()):
        ax.barh(places + (number - 1) * 0.27, shares[number], height=0.22, zorder=2, **look)
    name_rows(ax, places, names, (len(places) - 0.45, -0.55))
    ax.set_xlim(0, 105)
    ax.set_xlabel("per cent")
